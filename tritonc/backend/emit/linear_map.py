"""Linear functions of the bits of a number, as instructions."""

from collections.abc import Callable


def linear_map(bases: tuple[int, ...], source: str, emit: Callable[[str], str],
               bounded: bool = False) -> str:
    """The XOR of `bases[i]` over the bits i of the i32 `source` that are 1; "0" for no bases.

    Input bits that move by one distance move together: a mask and a shift for each distance.
    `bounded`: the source has no bits beyond the bases."""
    moved: dict[int, int] = {}  # distance (left) -> mask of input bits
    for bit, image in enumerate(bases):
        while image:
            low = image & -image
            distance = low.bit_length() - 1 - bit
            moved[distance] = moved.get(distance, 0) | 1 << bit
            image ^= low
    every = (1 << len(bases)) - 1 if bounded else -1
    total, taken = "0", 0
    for distance in sorted(moved):
        mask = moved[distance]
        part = source
        if every & ~mask & (-1 << -distance if distance < 0 else -1):
            part = emit(f"and i32 {part}, {mask}")
        if distance > 0:
            part = emit(f"shl nuw nsw i32 {part}, {distance}")
        elif distance < 0:
            part = emit(f"lshr i32 {part}, {-distance}")
        image = mask << distance if distance >= 0 else mask >> -distance
        if total == "0":
            total = part
        elif image & taken:
            total = emit(f"xor i32 {total}, {part}")
        else:
            total = emit(f"or disjoint i32 {total}, {part}")
        taken |= image
    return total
