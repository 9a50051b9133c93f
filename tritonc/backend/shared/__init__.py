"""Shared memory: which operation touches which bytes, where buffers lie, where barriers stand.

Read `shared_memory` (the accesses), `allocate_shared` (the places), `pending` (what
must not meet), `insert_barriers` (the paper's data-flow equations).  `join_exchanges` comes before
all of these: what needs one barrier shall not have two."""
