"""What an expression of a problem may have of NumPy, and how large its values may grow.

`member` gives functions, types and constants by name; `ATTRIBUTES` lists what may stand after the
dot of an array, scalar or type.  The `check_*` functions refuse a value or an operation before it
is computed: whoever compiles a stranger's file should lose neither files nor memory to it."""

import ast
from math import prod
from typing import Any

import numpy as np

from tritonc.problem import bounds
from tritonc.problem.bounds import MAX_ELEMENTS, Refused

MAX_BITS = 4096  # of one Python integer
MAX_LENGTH = 1 << 16  # entries of a list or tuple

# What NumPy offers under a public name but no expression may have: files, global state, callbacks
# into Python, memory that is not the array's own, text of any length.
_DENIED = frozenset(
    """
    load save savez savez_compressed savetxt loadtxt genfromtxt fromfile fromregex memmap fromstring
    DataSource errstate seterr geterr seterrcall geterrcall setbufsize getbufsize info test
    set_printoptions get_printoptions printoptions set_string_function show_config show_runtime
    get_include frombuffer fromiter from_dlpack ndarray nditer nested_iters flatiter shares_memory
    may_share_memory fromfunction vectorize frompyfunc apply_along_axis apply_over_axes piecewise
    object_ ndenumerate ndindex format_float_positional format_float_scientific array_repr array_str
    array2string base_repr binary_repr bmat asmatrix matrix recarray record
    """.split()
)
_LISTED_LATER = ("abs", "max", "min", "round")  # public in NumPy 1.26, in __all__ from 2.0 on
_SUBMODULES = {"linalg": np.linalg, "fft": np.fft}
ATTRIBUTES = frozenset(
    """
    T mT shape size ndim dtype real imag itemsize nbytes reshape astype sum mean max min any all
    prod argmax argmin argsort cumsum cumprod transpose copy repeat ravel flatten squeeze swapaxes
    clip round std var view dot trace diagonal nonzero take conj conjugate searchsorted item
    compress choose eps tiny bits smallest_normal smallest_subnormal resolution name kind bit_count
    """.split()
)
# Functions whose integer arguments state extents, with how many leading arguments do not.
_SIZED_BY_INTEGERS = {
    "zeros": 0, "ones": 0, "empty": 0, "full": 0, "randn": 0, "rand": 0, "randint": 2, "eye": 0,
    "identity": 0, "tri": 0, "linspace": 2, "logspace": 2, "geomspace": 2, "indices": 0,
}  # fmt: skip
_UFUNC_METHODS = ("outer", "reduce", "accumulate")


def describe(value: Any) -> str:
    """A value in a message: its kind and, if short, itself."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if isinstance(value, bool | int | float | np.generic | str) and len(repr(value)) < 30:
        return str(value)
    return f"a {type(value).__name__}"


def path_of(node: ast.expr) -> list[str] | None:
    """["np", "linalg", "norm"] for `np.linalg.norm`; None for other expressions."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else None


def member(path: list[str]) -> Any:
    """A function, type or constant of NumPy by its path below `np`, or a method of a ufunc."""
    if path == ["lib", "stride_tricks", "sliding_window_view"]:
        return np.lib.stride_tricks.sliding_window_view
    module: Any = np
    names = path
    if len(path) > 1 and path[0] in _SUBMODULES:
        module, names = _SUBMODULES[path[0]], path[1:]
    found = None
    listed = names[0] in module.__all__ or (module is np and names[0] in _LISTED_LATER)
    if listed and names[0] not in _DENIED and names[0][0] != "_":
        found = getattr(module, names[0])
    if isinstance(found, np.ufunc) and len(names) == 2 and names[1] in _UFUNC_METHODS:
        return getattr(found, names[1])
    if found is None or isinstance(found, type(np)) or len(names) > 1:
        raise Refused(f"np.{'.'.join(path)} is not available here")
    return found


def attribute(base: Any, name: str) -> Any:
    """`base.name`, if it is one that expressions may have."""
    known = isinstance(base, np.ndarray | np.generic | np.dtype | np.finfo | np.iinfo)
    if not known or name not in ATTRIBUTES:
        raise Refused(f"{describe(base)} has no attribute '{name}' here")
    return getattr(base, name)


def check_value(value: Any) -> None:
    """Refuse a value beyond the limits, or one that holds objects."""
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise Refused(f"a number of {value.bit_length()} bits is too large")
    if isinstance(value, tuple | list) and len(value) > MAX_LENGTH:
        raise Refused(f"a sequence of {len(value)} entries is too long")
    dtype = value.dtype if isinstance(value, np.ndarray) else value
    if value is object or (isinstance(dtype, np.dtype) and dtype.hasobject):
        raise Refused("arrays of objects do not exist here")


def check_operands(op: ast.operator, left: Any, right: Any) -> None:
    """Refuse an operation on what is no number, or with an absurdly large result."""
    if isinstance(left, int) and isinstance(right, int):
        bits = 0
        if isinstance(op, ast.Pow) and right > 0:
            bits = left.bit_length() * right if abs(left) > 1 else 1
        elif isinstance(op, ast.LShift) and right > 0:
            bits = left.bit_length() + right
        if bits > MAX_BITS:
            raise Refused(f"this number would have about {bits} bits")
        return
    sequences = isinstance(left, tuple | list), isinstance(right, tuple | list)
    if all(sequences) and isinstance(op, ast.Add) and type(left) is type(right):
        return  # joined
    if any(sequences) and not (isinstance(left, np.ndarray) or isinstance(right, np.ndarray)):
        raise Refused("tuples and lists can only be joined, with +")
    for value in (left, right):
        check_number(value)
    shapes = np.shape(left), np.shape(right)
    if isinstance(op, ast.MatMult):
        if min(map(len, shapes)) >= 2:
            batch = np.broadcast_shapes(shapes[0][:-2], shapes[1][:-2])
            check_elements((*batch, shapes[0][-2], shapes[1][-1]))
    else:
        check_elements(np.broadcast_shapes(*shapes))


def check_number(value: Any) -> None:
    """Refuse what arithmetic does not take; a list is taken where NumPy makes an array of it."""
    if not isinstance(value, bool | int | float | complex | np.ndarray | np.generic | tuple | list):
        raise Refused(f"{describe(value)} is not a number or an array")


def check_elements(shape: tuple[int, ...]) -> None:
    """Refuse an array of more elements than the limit."""
    count = prod(map(int, shape))
    if count > MAX_ELEMENTS:
        raise Refused(f"an array of {count} elements is too large")


def check_call(function: Any, arguments: list[Any], keywords: dict[str, Any]) -> None:
    """Refuse a call whose result, as far as its arguments state it, would be too large."""
    name = getattr(function, "__name__", "")
    bounds.check(function, arguments, keywords)
    values = [*arguments, *keywords.values()]
    for value in values:
        if isinstance(value, str) and _names_objects(value):
            raise Refused("arrays of objects do not exist here")
    if isinstance(function, np.ufunc) and name not in ("matmul", "vecdot", "matvec", "vecmat"):
        check_elements(np.broadcast_shapes(*map(np.shape, arguments)))
    elif name == "arange":
        numbers = [float(n) for n in arguments]
        start, stop = (0.0, *numbers) if len(numbers) == 1 else (*numbers, 0.0, 0.0)[:2]
        start, stop = float(keywords.get("start", start)), float(keywords.get("stop", stop))
        step = float(keywords.get("step", numbers[2] if len(numbers) > 2 else 1))
        check_elements((int(abs(stop - start) / abs(step)) if step else 0,))
    elif name == "broadcast_to":
        check_elements(tuple(_integers(values[1:])))
    elif name in _SIZED_BY_INTEGERS:
        sizes = values[:1] if name == "full" and len(values) == 2 else values
        check_elements(tuple(_integers(sizes[_SIZED_BY_INTEGERS[name] :])))


def _names_objects(text: str) -> bool:
    """Whether a string, taken as the name of a type, names one that holds Python objects."""
    try:
        return np.dtype(text).hasobject
    except (TypeError, ValueError, SyntaxError):
        return False


def _integers(values: list[Any]) -> list[int]:
    """The integers among `values` and their sequences that may be extents, as magnitudes."""
    found: list[int] = []
    for value in values:
        if isinstance(value, tuple | list):
            found += _integers(list(value))
        elif isinstance(value, int | np.integer) and abs(int(value)) > 1:
            found.append(abs(int(value)))
    return found
