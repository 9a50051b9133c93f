"""The values of number tokens, checked (C11 6.4.4; binary integers as in C23)."""

import re

from tritonc.frontend.syntax import BoolLiteral, FloatLiteral, IntLiteral
from tritonc.source import Span

_INTEGER = re.compile(
    r"(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)|(?P<octal>0[0-7]*)"
    r"|(?P<decimal>[1-9][0-9]*))(?P<suffix>[a-zA-Z]*)"
)
_FLOAT = re.compile(
    r"(?P<text>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+"
    r"|0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)(?P<suffix>[a-zA-Z]*)"
)
_BASES = {"hex": 16, "binary": 2, "octal": 8, "decimal": 10}
# `LL` means what `L` does: both are 64 bits wide here.
_INTEGER_SUFFIXES = {"": "", "u": "u", "l": "l", "ll": "l", "ul": "ul", "lu": "ul", "ull": "ul",
                     "llu": "ul"}


def number(text: str, span: Span) -> IntLiteral | FloatLiteral | BoolLiteral:
    """The literal that the number token `text` spells.

    >>> number("0x10u", None).value, number("1.5f", None).text, number("inf", None).text
    (16, '1.5', 'inf')

    Raises ValueError, with a message for the user, if it spells none.
    """
    if text in ("true", "false"):
        return BoolLiteral(span, text == "true")
    if text in ("inf", "nan"):
        return FloatLiteral(span, text)
    if match := _INTEGER.fullmatch(text):
        suffix = _INTEGER_SUFFIXES.get(match["suffix"].lower())
        if suffix is None or "lL" in text or "Ll" in text:
            raise ValueError(f"invalid suffix '{match['suffix']}' on integer constant")
        kind = next(kind for kind in _BASES if match[kind])
        digits = match[kind]
        # 64 bits have at most 64 digits; Python refuses to convert thousands of them.
        value = int(digits, _BASES[kind]) if len(digits.lstrip("0")) <= 64 else 1 << 64
        if value >= 1 << 64:
            raise ValueError("integer constant does not fit in 64 bits")
        return IntLiteral(span, value, suffix, kind == "decimal" or text == "0")
    if match := _FLOAT.fullmatch(text):
        suffix = match["suffix"].lower()
        if suffix not in ("", "f", "l"):
            raise ValueError(f"invalid suffix '{match['suffix']}' on floating constant")
        return FloatLiteral(span, match["text"], suffix)
    if re.fullmatch(r"0[0-9]+", text):
        raise ValueError(f"invalid digit in octal constant '{text}'")
    raise ValueError(f"invalid number '{text if len(text) <= 40 else text[:37] + '...'}'")
