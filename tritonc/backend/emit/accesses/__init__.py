"""Accesses of memory.

`indices` and `pointers` (addresses), `access` (one access of a vector) and `memory` (loads and
stores); `ragged`, `tables` and `pieces` (special loads); `atomics`; `shared` (shared memory,
cp.async); `tensor_maps` and `tensor` (TMA)."""
