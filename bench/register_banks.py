"""What the hot loops of machine code ask of the register file.

    tritonc samples/matmul.tc --arch=sm_90a -o x.cubin
    python bench/register_banks.py x.cubin

For each loop with many multiply-adds: instructions, multiply-adds, those whose new operands meet in
one bank, reads of registers for one multiply-add, and the least cycles that a warp's instructions
take.  Needs nvdisasm.

The model (Huerta et al., "Analyzing Modern NVIDIA GPU cores", 2025): two banks, of even and odd
registers, give one register each in a cycle; an instruction issues if its reads find room within
three cycles.  What an operand with `.reuse` read stays, for that operand and bank, until the next
read there.  Of fp32 products that differ in the order of their multiply-adds alone, the ratio of
times on an H200 was that of these cycles to 0.02; the number with a conflict did not tell.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections import Counter
from pathlib import Path

MANY = 64  # multiply-adds of a loop that is looked at
WINDOW = 3  # cycles in which an instruction reads its operands
LINE = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;")
REGISTER = re.compile(r"\bR(\d+)\b")


def loops(cubin: Path) -> list[list[str]]:
    """The instructions of each backward branch, from its target on."""
    text = subprocess.run(["nvdisasm", "-c", str(cubin)], capture_output=True, text=True,
                          check=True).stdout
    code: list[str] = []
    labels: dict[str, int] = {}
    found = []
    for line in text.splitlines():
        if label := re.match(r"^(\.L_x_\w+):", line):
            labels[label[1]] = len(code)
        elif instruction := LINE.match(line):
            code.append(instruction[1])
            target = re.search(r"BRA.*`\((\.L_x_\w+)\)", instruction[1])
            if target and target[1] in labels:
                found.append(code[labels[target[1]]:])
    return found


def operands(instruction: str) -> tuple[str, list[str]]:
    """The name, and what it reads."""
    name, _, rest = re.sub(r"^@!?U?P\w+ ", "", instruction).partition(" ")
    parts = [part.strip() for part in rest.split(",")]
    return name, parts if name.startswith(("ST", "LDGSTS", "RED")) else parts[1:]


def count(code: list[str]) -> Counter[str]:
    """Figures of a loop by name."""
    found: Counter[str] = Counter(instructions=len(code))
    cached: dict[tuple[int, int], int] = {}  # bank, operand -> register
    before: dict[int, int] = {}  # operand -> register, of the multiply-add before
    taken: tuple[set[int], set[int]] = (set(), set())
    time = 0
    for instruction in code:
        name, read = operands(instruction)
        wanted = [0, 0]
        if name == "FFMA":
            places = {i: (int(m[1]), ".reuse" in part) for i, part in enumerate(read)
                      if (m := REGISTER.search(part))}
            new = {r for i, (r, _) in places.items() if before.get(i) != r}
            found["conflicts"] += max(sum(r % 2 == bank for r in new) for bank in (0, 1)) > 1
            before = {i: r for i, (r, kept) in places.items() if kept}
            for i, (r, kept) in places.items():
                wanted[r % 2] += cached.get((r % 2, i)) != r
                cached[r % 2, i] = r if kept else -1
            found["multiply-adds"] += 1
            found["reads"] += sum(wanted)
        else:
            for r in REGISTER.findall(" ".join(read)):
                wanted[int(r) % 2] += 1
        time += 1
        while any(WINDOW - len(taken[bank] & {*range(time, time + WINDOW)}) < min(n, WINDOW)
                  for bank, n in enumerate(wanted)):
            time += 1
        for bank, n in enumerate(wanted):
            free = [t for t in range(time, time + WINDOW) if t not in taken[bank]]
            taken[bank].update(free[:n])
            taken[bank].difference_update([t for t in taken[bank] if t < time])
    found["cycles"] = time
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("cubin", type=Path, nargs="+")
    for path in parser.parse_args().cubin:
        for figures in map(count, loops(path)):
            fmas = figures["multiply-adds"]
            if fmas >= MANY:
                print(f"{path.name}: {figures['instructions']} instructions, {fmas} multiply-adds, "
                      f"{figures['conflicts']} with a conflict, {figures['reads'] / fmas:.2f} "
                      f"reads each, {figures['cycles']} cycles")


if __name__ == "__main__":
    main()
