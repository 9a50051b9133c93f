"""Shared memory: which operation touches which bytes, where buffers lie, where barriers stand.

Read `shared_memory` (the accesses), `allocate_shared` (the places), `pending`
(accesses that need a barrier between them), `insert_barriers` (the paper's data-flow equations).
`join_exchanges` runs before: exchanges share barriers where they can."""
