"""DLPack capsules (https://dmlc.github.io/dlpack/latest): reading what they hold.

A capsule that is only read keeps its name, and so frees the tensor when it goes."""

import ctypes
from typing import Any

from tritonc.records import NamedTuple

CPU, CUDA, CUDA_MANAGED = 1, 2, 13  # kinds of devices
INT, UINT, FLOAT, BFLOAT, BOOL, FLOAT8_E4M3FN, FLOAT8_E5M2 = 0, 1, 2, 4, 6, 10, 12  # of elements
_READ_ONLY = 1  # a flag


class Tensor(NamedTuple):
    """What a capsule says of its tensor.  `code`, `bits` and `lanes` are its elements' type."""

    address: int
    device_kind: int
    device: int
    code: int
    bits: int
    lanes: int
    read_only: bool


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_kind", ctypes.c_int32),
                ("device", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("byte_offset", ctypes.c_uint64)]  # fmt: skip


class _Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", _DLTensor)]  # fmt: skip


_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype, _get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]


def unpack(capsule: Any) -> Tensor:
    """The tensor of a capsule.  Raises TypeError for what is none, or was consumed."""
    if _is_valid(capsule, b"dltensor_versioned"):
        versioned = _Versioned.from_address(_get_pointer(capsule, b"dltensor_versioned"))
        if versioned.major != 1:
            raise TypeError(f"found DLPack {versioned.major}.{versioned.minor}")
        return _tensor(versioned.tensor, bool(versioned.flags & _READ_ONLY))
    if _is_valid(capsule, b"dltensor"):
        return _tensor(_DLTensor.from_address(_get_pointer(capsule, b"dltensor")), False)
    raise TypeError("found a capsule without a DLPack tensor")


def _tensor(raw: _DLTensor, read_only: bool) -> Tensor:
    return Tensor((raw.data or 0) + raw.byte_offset, raw.device_kind, raw.device, raw.code,
                  raw.bits, raw.lanes, read_only)
