"""A kernel's parameters as its manifest states them, and what an argument has to be for them."""

from collections.abc import Callable, Mapping, Sequence
from operator import index
from struct import calcsize, error, pack
from typing import Any

import numpy as np

from tritonc.ir.numeric.formats import round_to
from tritonc.ir.types import SCALARS
from tritonc.launch import packing
from tritonc.launch.packing import FORMATS, POINTER
from tritonc.launch.python.arrays import DeviceArray
from tritonc.manifest import TYPES
from tritonc.records import NamedTuple


class Parameter(NamedTuple):
    """One parameter.  `dtype` is a pointer's elements' or a scalar's own, as torch calls it."""

    name: str
    type: str  # as C has it
    pointer: bool
    dtype: str
    format: str  # of module struct
    multiple: int  # of which an address or an integer must be one
    read_only: bool  # of a pointer: the kernel writes nothing there
    least: int | None  # an integer's bounds, as a signed number
    greatest: int | None
    not_null: tuple[tuple[int, int], ...] | None = None  # if other arguments are at least these

    @staticmethod
    def read(row: Mapping[str, Any]) -> "Parameter":
        """From a row of the manifest."""
        base = row["type"].removeprefix("const ").removesuffix("*").rstrip()
        pointer = row["type"].endswith("*")
        element, dtype = TYPES[base]
        kind = POINTER if pointer else FORMATS[element]
        if base.startswith("unsigned") and not pointer:
            kind = kind.upper()
        return Parameter(row["name"], row["type"], pointer, dtype, kind, row.get("multiple_of", 1),
                         row.get("access") == "read", row.get("at_least"), row.get("at_most"),
                         tuple((fact["argument"], fact["at_least"]) for fact in row["not_null"])
                         if "not_null" in row else None)

    @property
    def size(self) -> int:
        return calcsize("=" + self.format)

    @property
    def is_float(self) -> bool:
        return "float" in self.dtype

    @property
    def converter(self) -> Callable[[float], int | float] | None:
        """What makes a number of an argument that module struct has no format for."""
        return _Bits(self.type) if self.is_float and self.format in "HB" else None

    def check_array(self, array: DeviceArray) -> None:
        """Raises TypeError or ValueError for an array that the parameter cannot take."""
        if self.dtype not in array.dtypes:
            raise TypeError(f"'{self.type}' needs elements of {self.dtype}, found "
                            f"{array.dtypes[0]}")
        if array.address % self.multiple:
            raise ValueError(f"address {array.address:#x} is not a multiple of {self.multiple}, as "
                             "the kernel takes it to be")
        if array.read_only and not self.read_only:
            raise ValueError("the array is read-only, and the kernel writes there")

    def check_null(self, arguments: Sequence[int | float], others: "Sequence[Parameter]") -> None:
        """Of a null pointer; raises ValueError where the kernel reads or writes there."""
        if self.not_null is not None and all(
                others[i].signed(arguments[i]) >= least for i, least in self.not_null):
            raise ValueError("it is null or empty, and the kernel reads or writes there")

    def signed(self, value: Any) -> Any:
        """The bits of an integer as a signed number."""
        if self.dtype.startswith("u") and value >> (bits := int(self.dtype[4:])) - 1:
            return value - (1 << bits)
        return value

    def number(self, value: Any) -> int | float:
        """A scalar argument, ready to be packed.  Raises TypeError or ValueError."""
        try:
            if isinstance(value, str | bytes):
                raise TypeError  # which float() would read
            if self.converter is not None:
                return self.converter(value)
            if self.is_float:
                number: int | float = float(value)
            else:
                number = bool(value) if self.format == "?" else index(value)
            pack("=" + self.format, number)
        except (error, OverflowError):
            raise ValueError(f"{value} is no {self.type}") from None
        except (TypeError, ValueError):
            raise TypeError(f"'{self.type}' needs a "
                            f"number{'' if self.is_float else ' without fraction'}, found "
                            f"{value!r} of type {type(value).__qualname__}") from None
        if self.is_checked:
            self.check_number(number)
        return number

    @property
    def is_checked(self) -> bool:
        """Whether `check_number` asks for anything."""
        return not self.pointer and (self.multiple, self.least, self.greatest) != (1, None, None)

    def check_number(self, value: Any) -> None:
        """Raises ValueError for an integer that breaks a promise of the source."""
        if value % self.multiple:
            raise ValueError(f"{value} is not a multiple of {self.multiple}, but the kernel was "
                             "compiled for one")
        signed = self.signed(value)
        if self.least is not None and signed < self.least:
            raise ValueError(f"{value} is less than {self.least}")
        if self.greatest is not None and signed > self.greatest:
            raise ValueError(f"{value} is more than {self.greatest}")


class _Bits:
    """The pattern of the nearest number of a short float type."""

    def __init__(self, type: str) -> None:
        self.element = SCALARS[TYPES[type][0]]

    def __call__(self, value: float) -> int | float:
        with np.errstate(all="ignore"):
            held = round_to(self.element, np.asarray([float(value)]))
        return packing.number(self.element, held[0])
