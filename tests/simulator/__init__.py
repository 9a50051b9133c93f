"""Machine operations, simulated: a kernel between passes of the backend, thread by thread where it
matters.  Only tests use it.

`machine` has the interpreter's handlers: threads, barriers and copies in flight, with
`machine_state`, `machine_global`, `machine_tensor`, `clusters`, and `hazards`, which reports a
missing barrier.
"""
