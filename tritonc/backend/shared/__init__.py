"""Shared memory: which operation touches which bytes, where buffers lie, where barriers stand.

Read `shared_memory` (the accesses), `allocate_shared` (the places), `pending` (what
must not meet), `insert_barriers` (the paper's data-flow equations).
"""
