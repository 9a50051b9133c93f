"""The C by which a header chooses among the variants of a kernel; `tritonc.variants.choice` is the
definition.

For a kernel `k` with variants:

    k_variants                                  how many there are beside the general entry
    k_variant(range0, ..., arguments...)        the number of the one that a launch takes
    k_allowed(range0, ..., arguments...)        a bit for each variant that may run
    k_launch_variant(number, range0, ..., stream, arguments...)

And if variants take memory for sums (`backend.launch.sum_in_memory`):

    k_workspace_bytes(range0, ..., arguments...)
    k_launch_workspace(range0, ..., stream, workspace, bytes, arguments...)
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tritonc.launch.hosts.header_kernel import KernelFunctions, as_signed, constant
from tritonc.variants.choice import MOST_IN_MEMORY, is_in_memory, log2, reach, stepping, timed


def lines_of(of: KernelFunctions) -> Iterator[str]:
    yield f"/* ---- {of.name} ---- */"
    yield from of.constants()
    yield from of.check()
    if of.variants:
        yield from choosing(of)
        yield "/* Launches one variant, if it may run with these arguments. */"
        yield of.head("launch_variant", ["unsigned variant"], ["CUstream stream"])
        yield from of.start("variant", (
            f"variant > {len(of.variants)} || !({of.name}_allowed({of.call})"
            " >> variant & 1)"))
    if of.kernel["assumptions"]:
        yield ("/* The arguments must be such that "
               + ",\n * ".join(of.kernel["assumptions"]) + ". */")
    yield of.head("launch", between=["CUstream stream"])
    yield from of.start(of.taken)
    if of.in_memory:
        yield of.with_memory()


def choosing(of: KernelFunctions) -> Iterator[str]:
    unused = [f"  (void){each};" for each in (*of.axes, *of.names)]
    yield "/* A bit for each variant that may run with these arguments; bit 0: the general one. */"
    yield of.head("allowed", returns="uint64_t")
    yield from unused
    yield "  return 1"
    yield from _bits(of, False)
    yield "      ;\n}\n"
    rule = {"cost": _cost, "nearest": _nearest, "first": _first}[of.kernel["choice"]["rule"]]
    if of.chooses:
        yield of.head("choose", ["uint64_t allowed", "unsigned target"], returns="unsigned")
        yield from unused
        yield "  (void)target;"
        yield from rule(of)
        yield "}\n"
    if of.in_memory:
        yield "/* The variant that a launch takes which has memory. */"
        yield of.head("in_memory", returns="unsigned")
        yield f"  const uint64_t allowed = {of.name}_allowed({of.call})"
        yield from _bits(of, True)
        yield f"      ;\n  return {of.name}_choose(allowed, 0, {of.call});\n}}\n"
    yield "/* The variant that a launch takes which is allowed: 0 is the general one. */"
    yield of.head("variant", returns="unsigned")
    if of.chooses:
        yield f"  return {of.name}_choose({of.name}_allowed({of.call}), 0, {of.call});\n}}\n"
    else:
        yield f"  const uint64_t allowed = {of.name}_allowed({of.call});"
        yield from rule(of)
        yield "}\n"


def _bits(of: KernelFunctions, in_memory: bool) -> Iterator[str]:
    for number, variant in enumerate(of.variants, 1):
        if is_in_memory(variant) == in_memory:
            conditions = [f"{axis} <= INT64_C({reach(part, i)})" for i, (axis, part) in enumerate(
                zip(of.axes, variant["tile"], strict=True))] + _facts(of, variant["requires"])
            if in_memory:
                conditions.append(f"{_count(of.axes, variant['tile'])} <= {MOST_IN_MEMORY}")
            joined = " && ".join(conditions) or "1"
            yield f"         | (uint64_t)({joined}) << {number}"


def _count(axes: Sequence[str], tile: Sequence[int]) -> str:
    """How many tiles there are."""
    count = "1"
    for axis, part in zip(axes, tile, strict=True):
        count = f"tritonc_tiles({count}, {axis}, {part})"
    return count


def _facts(of: KernelFunctions, facts: Sequence[Mapping[str, Any]]) -> list[str]:
    found = []
    for fact in facts:
        if "argument" not in fact:
            name = signed = _number(of, fact)
        else:
            own, row = of.names[fact["argument"]], of.kernel["parameters"][fact["argument"]]
            name = f"(uintptr_t){own}" if "access" in row else own
            signed = as_signed(row["type"], own)
        if "multiple_of" in fact:
            found.append(f"{name} % {fact['multiple_of']} == 0")
        found += [f"{signed} {relation} {constant(fact[key])}"
                  for key, relation in (("at_least", ">="), ("at_most", "<=")) if key in fact]
    return found


def _number(of: KernelFunctions, what: Mapping[str, Any]) -> str:
    if "programs" in what:
        return _count(of.axes, what["programs"])
    if "range" in what:
        return of.axes[int(what["range"])]
    name = of.names[int(what["argument"])]
    wide = of.kernel["parameters"][what["argument"]]["type"] == "unsigned long long"
    return f"tritonc_signed({name})" if wide else name


def _cost(of: KernelFunctions) -> Iterator[str]:
    kernel, choice, axes = of.kernel, of.kernel["choice"], of.axes
    for place, loop in enumerate(choice["loops"]):
        length = f"INT64_C({loop['factor']})"
        for argument in loop["arguments"]:
            length = f"tritonc_length({length}, {_number(of, {'argument': argument})})"
        yield f"  const int64_t length_{place} = {length};"
    if "aligned" in choice:
        yield f"  const int aligned = {' && '.join(_facts(of, choice['aligned']))};"
    yield "  uint64_t least = UINT64_MAX, time;"
    yield "  unsigned best = 0;"
    tiles = [kernel["tile"], *(variant["tile"] for variant in of.variants)]
    for target, own in enumerate(of.choices, 1):
        if own is not None:
            yield f"  if (target == {target}) {{"
            yield from (f"  {line}" for line in _least(own, tiles, axes))
            yield "    return best;\n  }"
    yield from _least(choice, tiles, axes)
    yield "  return best;"


def _least(choice: Mapping[str, Any], tiles: Sequence[Sequence[int]], axes: Sequence[str]
           ) -> Iterator[str]:
    for number, tile, row in timed(choice, tiles):
        depths, cut = row[7], [*row[8:10], 0, 0][:2]
        fast, slow = ([*each[:7], *cut] for each in (row, stepping(row, "aligned" not in choice)))
        steps = "1"
        for place, depth in enumerate(depths):
            steps = f"tritonc_steps({steps}, length_{place}, {depth})" if place < len(
                choice["loops"]) else f"({steps} + {depth - 1}) / {depth}"
        beyond = " + ".join(
            f"tritonc_beyond({axis}, {part}) * "
            + _count([*axes[:i], *axes[i + 1:]], [*tile[:i], *tile[i + 1:]])
            for i, (axis, part) in enumerate(zip(axes, tile, strict=True)) if part > 1) or "0"
        covered = " || ".join(f"{axis} <= {part}" for axis, part in zip(
            axes[:2], tile[:2], strict=True)) if len(tile) > 1 else "0"
        yield f"  time = tritonc_time({_count(axes, tile)}, {beyond}, {covered},"
        yield f"                      {steps},"
        numbers = (str(a) if a == b else f"aligned ? {a} : {b}" for a, b in zip(fast, slow))
        yield f"                      {', '.join(numbers)});"
        condition = f"(allowed >> {number} & 1) && time < least" if number else "time < least"
        yield f"  if ({condition}) {{\n    least = time;\n    best = {number};\n  }}"


def _nearest(of: KernelFunctions) -> Iterator[str]:
    sizes, points = of.kernel["choice"]["sizes"], of.kernel["choice"]["points"]
    if not points:
        yield "  (void)allowed;\n  return 0;"
        return
    words = ", ".join(size["name"] for size in sizes)
    yield f"  /* the logarithms of {words} where the kernel was tuned, and what was best there */"
    yield f"  static const int32_t points[] = {{ /* {len(points)} */"
    for point in points:
        logarithms = ", ".join(str(log2(number)) for number in point["size"])
        yield f"      {logarithms}, /* {', '.join(map(str, point['size']))} */"
    yield "  };"
    numbers = ", ".join(str(point["variant"]) for point in points)
    yield f"  static const unsigned char variants[] = {{{numbers}}};"
    yield f"  int32_t size[{len(sizes)}];"
    for place, size in enumerate(sizes):
        yield f"  size[{place}] = tritonc_log2({_number(of, size)});"
    yield (f"  return tritonc_nearest(points, variants, {len(points)}, {len(sizes)}, size, "
           "allowed);")


def _first(of: KernelFunctions) -> Iterator[str]:
    yield "  unsigned number;"
    yield f"  for (number = 1; number <= {len(of.variants)}; number++)"
    yield "    if (allowed >> number & 1)\n      return number;"
    yield "  return 0;"
