"""Accesses of memory.

`indices` and `pointers` (addresses), `access` (one access of a vector) and `memory` (loads, stores,
atomics); `ragged`, `tables` and `pieces` (special loads); `shared` (shared memory, cp.async);
`tensor_maps` and `tensor` (TMA).
"""
