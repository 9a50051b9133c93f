"""printf's format strings, as the interpreter prints them: C's directives on held values."""

import re
from collections.abc import Sequence
from typing import Any

from tritonc.ir.core import Op
from tritonc.ir.types import Type, element

_DIRECTIVE = re.compile(r"%(?:%|[-+ #0]*\d*(?:\.\d+)?(?:hh|ll|[hljztL])?([diouxXeEfFgGaAcsp]))")


def formatted(op: Op, row: Sequence[Any]) -> str:
    """What a printf prints of one element of each of its operands."""
    left = [(value, v.type) for value, v in zip(row, op.operands, strict=True)]

    def one(match: re.Match[str]) -> str:
        letter = match[1]
        if letter is None:
            return "%"
        if not left:
            return match[0]
        value, t = left.pop(0)
        flags = re.sub(r"hh|ll|[hljztL]", "", match[0][:-1])
        return _directive(flags, letter, value, t)

    return _DIRECTIVE.sub(one, op.attributes["format"])


def _directive(flags: str, letter: str, value: Any, t: Type) -> str:
    if letter in "eEfFgG":
        return f"{flags}{letter}" % float(value)
    if letter in "aA":
        return float(value).hex()
    number = int(value)
    if letter in "uoxXp" and number < 0:
        number += 1 << element(t).bits
    if letter == "p":
        return f"{number:#x}"
    if letter == "c":
        return chr(number & 0xFF)
    return f"{flags}{'d' if letter in 'iu' else letter}" % number
