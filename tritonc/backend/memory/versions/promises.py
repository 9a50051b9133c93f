"""What a fast body assumes, in words."""

from tritonc.backend.memory.versions.assumed import Assumed
from tritonc.ir.core import Value
from tritonc.ir.types import is_pointer


def promise(found: Assumed) -> str:
    """What the fast body assumes, in words."""
    parts = ["the tile is full"] if found.full else []
    if any(plain.name == "product" for plain in found.inside.values()):
        parts.append("extents and their product are from 0 to 2**31 - 1")
    if any(plain.name != "product" for plain in found.inside.values()):
        parts.append("no index of the tile wraps or is clamped")
    if found.units:
        parts.append(f"{_all([spoken(v) for v in found.units])} == 1")
    parts += [f"{spoken(a)} == {spoken(b)}" for a, b in found.equal.items()]
    by_unit: dict[str, list[str]] = {}
    for value, n in found.multiples.items():
        unit = f"{n}{' bytes' if is_pointer(value.type) else ''}"
        by_unit.setdefault(unit, []).append(spoken(value))
    for unit, names in by_unit.items():
        parts.append(f"{_all(names)} {'is a multiple' if len(names) < 2 else 'are multiples'} "
                     f"of {unit}")
    if found.signs:
        parts.append(f"{_all([spoken(v) for v in found.signs])} >= 0")
    if found.positive:
        parts.append(f"{_all([spoken(v) for v in found.positive])} > 0")
    if coordinates := [spoken(v) for v in filter(found.coordinate, found.signs)]:
        parts.append(f"{_all(coordinates)} < 2**31")
    if found.apart.pairs:
        parts.append(f"the accessed parts of {_all([spoken(v) for v in found.apart.ranges])} do "
                     "not overlap")
    return (f"fast path when {'; '.join(parts)} (checked at run time; assume(...) or "
            "multiple_of(...) drops a check)")


def _all(names: list[str]) -> str:
    return " and ".join(names if len(names) < 2 else [", ".join(names[:-1]), names[-1]])


def spoken(value: Value) -> str:
    if value.name or value.op is None or value.op.span is None:
        return f"'{value.name}'"
    span = value.op.span
    text = " ".join(span.file.text[span.start : span.end].split())
    return f"'{text}'" if len(text) <= 40 else "a computed value"
