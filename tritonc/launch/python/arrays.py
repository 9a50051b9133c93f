"""Arrays on a GPU, whoever made them: where they are, and of what type their elements are.

Asked in this order: torch tensors, which are not imported for it; `__cuda_array_interface__`
(version 3, of CuPy and Numba); DLPack (1.0 and before, of everything else)."""

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from tritonc.launch.python import dlpack
from tritonc.records import NamedTuple

_KINDS = {"i": "int", "u": "uint", "f": "float", "V": "void"}
_DLPACK_KINDS = {dlpack.INT: "int", dlpack.UINT: "uint", dlpack.FLOAT: "float",
                 dlpack.BFLOAT: "bfloat"}  # fmt: skip
_DLPACK_NAMES = {dlpack.BOOL: "bool", dlpack.FLOAT8_E4M3FN: "float8_e4m3fn",
                 dlpack.FLOAT8_E5M2: "float8_e5m2"}  # fmt: skip
# What an array interface has in place of types that it cannot express.
_STAND_INS = {"bfloat16": ("uint16", "void16"), "float8_e4m3fn": ("uint8", "void8"),
              "float8_e5m2": ("uint8", "void8")}  # fmt: skip


class DeviceArray(NamedTuple):
    """Memory of a GPU.  `keep` is what has to live until the launch is on its stream."""

    address: int
    dtypes: tuple[str, ...]  # its own, as torch calls it, and what it can stand for
    device: int | None  # ordinal; None where the array does not say it
    read_only: bool = False
    after: int | None = None  # a stream whose work must be done before
    keep: Any = None


def read(value: Any, stream: int) -> DeviceArray:
    """The array that `value` is, ready for work on `stream`.

    Raises TypeError for what is no array on a GPU, with what it is."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _tensor(value)
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None:
        return _interface(interface)
    if hasattr(value, "__dlpack_device__"):
        return _dlpack(value, stream)
    raise TypeError(f"found {_described(value)}")


def _tensor(tensor: Any) -> DeviceArray:
    if not tensor.is_cuda:
        raise TypeError(f"found a tensor on device '{tensor.device}'")
    dtype = str(tensor.dtype).removeprefix("torch.")
    return DeviceArray(tensor.data_ptr(), (dtype,), tensor.get_device())


def _interface(interface: dict[str, Any]) -> DeviceArray:
    """https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html"""
    if interface.get("mask") is not None:
        raise TypeError("found an array with a mask")
    address, read_only = interface["data"]
    return DeviceArray(address or 0, _dtypes(interface["typestr"]), None, bool(read_only),
                       interface.get("stream"))


@cache
def _dtypes(typestr: str) -> tuple[str, ...]:
    """What elements of an array interface are, and what they can stand for.  Raises TypeError.

    >>> _dtypes("<f4"), _dtypes("<u2")
    (('float32',), ('uint16', 'bfloat16'))
    """
    order, kind, size = typestr[0], typestr[1], typestr[2:]
    if order == ">" or not (kind == "b" or kind in _KINDS):
        raise TypeError(f"found elements of type '{typestr}'")
    dtype = "bool" if kind == "b" else f"{_KINDS[kind]}{8 * int(size)}"
    return (dtype, *(name for name, others in _STAND_INS.items() if dtype in others))


def _dlpack(value: Any, stream: int) -> DeviceArray:
    kind, _ = value.__dlpack_device__()
    if kind not in (dlpack.CUDA, dlpack.CUDA_MANAGED):
        raise TypeError(f"found {_described(value)}, which is not on a GPU")
    capsule = _export(value.__dlpack__, stream or 1)  # where 1 is the default stream
    tensor = dlpack.unpack(capsule)
    if tensor.code in _DLPACK_NAMES and tensor.bits == 8:
        dtype = _DLPACK_NAMES[tensor.code]
    elif tensor.code in _DLPACK_KINDS and tensor.lanes == 1:
        dtype = f"{_DLPACK_KINDS[tensor.code]}{tensor.bits}"
    else:
        raise TypeError(f"found elements of DLPack type {tensor.code} with {tensor.bits} bits")
    return DeviceArray(tensor.address, (dtype,), tensor.device, tensor.read_only, keep=capsule)


def _export(export: Callable[..., Any], stream: int) -> Any:
    """The capsule; producers before DLPack 1.0 know no versions."""
    try:
        return export(stream=stream, max_version=(1, 0))
    except TypeError:
        return export(stream=stream)


def _described(value: Any) -> str:
    name = type(value).__qualname__
    module = type(value).__module__.partition(".")[0]
    full = name if module == "builtins" else f"{module}.{name}"
    return f"an {full}" if full[0] in "aeiouAEIOU" else f"a {full}"
