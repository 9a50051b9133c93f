"""Real programs with planted mistakes in their indices, for `tritonc prove`.

`mutated(seed)` changes a line or two of a sample: a mask that is off by one or gone, an axis for
another, a stride, a start.  `doubted(text)` proves, and then runs the kernel at small sizes to
refute what was proved: an AssertionError says that the prover is wrong.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

from tritonc import stages
from tritonc.options import Options
from tritonc.prove.report import prove
from tritonc.source import CompileError, SourceFile

SAMPLES = Path(__file__).parent.parent / "samples"
_OPTIONS = Options(opt_level=0, warnings=("no-all",))
_SLOW = ("attention_backward", "conv_nchw")

# What is found, and what takes its place.
_CHANGES = [
    (r"(?<!<)<(?![<=])", "<="), (r"<=", "<"), (r"> 0", ">= 0"), (r"\bM\b", "N"), (r"\bN\b", "K"),
    (r"\bK\b", "M"), (r"\bS\b", "H"), (r"\bH\b", "S"), (r"\brm\b", "rn"), (r"\brn\b", "rm"),
    (r" && [^?;:\n]*?(?=[?;:)])", ""), (r"\brk\b", "(rk + 1)"), (r"\brk\b", "(rk - 1)"),
    (r"\bk\b", "(k + 1)"), (r"\bTK\b", "(TK + 1)"), (r"global_range\(0\)", "global_range(1)"),
    (r"program_id\(1\)", "program_id(0)"), (r"== 0", "== 1"), (r"\+ 1\b", "+ 2"),
    (r"- 1\b", "- 2"), (r"\* (\w+)", r"* (\1 + 1)"), (r"/ ", "% "), (r"% ", "/ "),
    (r"\bmin\(", "max("),
]  # fmt: skip


def small_tiles(text: str, rng: random.Random) -> str:
    """The program with constants for tunables, so that small sizes have several instances."""
    return re.sub(r"const tunable int (\w+) = \{[^}]*\};",
                  lambda m: f"const int {m[1]} = {rng.choice((4, 8, 16))};", text)


def mutated(seed: int) -> tuple[str, str]:
    """The name of the sample, and its changed text."""
    rng = random.Random(seed)
    path = rng.choice([p for p in sorted(SAMPLES.glob("*.tc")) if p.stem not in _SLOW])
    text = small_tiles(path.read_text(), rng)
    begin = text.index("{", text.index("kernel void"))
    head, body = text[:begin], text[begin:]
    for _ in range(rng.choice((1, 1, 1, 2))):
        found: list[re.Match[str]] = []
        while not found:
            pattern, replacement = rng.choice(_CHANGES)
            found = list(re.finditer(pattern, body))
        at = rng.choice(found)
        body = body[:at.start()] + at.expand(replacement) + body[at.end():]
    if rng.random() < 0.3:
        head = re.sub(r"randn\((\w+), (\w+)\)", r"randn(\2, \1)", head, count=1)
    if rng.random() < 0.1:
        head = re.sub(r"//! range: (\w+)", r"//! range: \1 + 1", head, count=1)
    return path.stem, head + body


def doubted(text: str, seconds: float = 3.0) -> Counter[str]:
    """How many questions were proved, refuted and open; {"wrong": 1} of no program at all."""
    count: Counter[str] = Counter()
    try:
        for proof in prove(SourceFile("mutated.tc", text), _OPTIONS, "tc",
                           stages.new_diagnostics(_OPTIONS), seconds=seconds, doubt=True):
            count.update(proof.verdicts())
    except CompileError:
        count["wrong"] += 1
    return count
