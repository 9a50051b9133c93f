"""Words in place of integers: run once on words, `tritonc.variants.choice` writes what computes its
result later, in C (`launch.hosts.header_choice`) or as machine code (`launch.python.native`)."""

from collections.abc import Callable
from typing import Any


def _operation(name: str, swapped: bool = False) -> Callable[[Any, Any], Any]:
    def write(word: Any, other: Any) -> Any:
        return word.made(name, *((other, word) if swapped else (word, other)))

    return write


class Word:
    """A number of 64 bits or a truth value.  `made` gives the word of an operation of words and
    integers: one of C, `bits` (how many an integer has that is not negative) or `?`, a choice."""

    made: Callable[..., Any]

    __add__ = __radd__ = _operation("+")
    __sub__, __rsub__ = _operation("-"), _operation("-", swapped=True)
    __mul__ = __rmul__ = _operation("*")
    __and__ = __rand__ = _operation("&")
    __or__ = __ror__ = _operation("|")
    __lshift__, __rshift__ = _operation("<<"), _operation(">>")
    __floordiv__ = _operation("/")  # rounds down: operands are not negative
    __mod__ = _operation("%")  # is compared with 0 only, if operands may be negative
    __lt__, __le__ = _operation("<"), _operation("<=")
    __gt__, __ge__ = _operation(">"), _operation(">=")
    __eq__ = _operation("==")
    __hash__ = None  # type: ignore[assignment]

    def __abs__(self) -> Any:
        return (self < 0).select(0 - self, self)

    def bit_length(self) -> Any:
        return self.made("bits", self)

    def select(self, yes: Any, no: Any) -> Any:
        return self.made("?", self, yes, no)
