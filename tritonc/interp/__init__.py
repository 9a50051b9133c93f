"""Triton-IR and machine operations, executed: the reference for what a kernel means.

Read in this order: `interpreter` (a launch, program by program), `steps` (a closure for each
operation), `memory` (buffers at made-up addresses, so that a stray access is an error), `arrays`
and `elementwise` (the arithmetic).  `machine` runs kernels between passes of the backend: threads,
barriers and copies in flight, with `machine_state`, `machine_global`, `machine_tensor` and
`hazards`, which reports a missing barrier.

`tritonc run`, the tests of passes and `--verify-each` use it; the compiler proper does not.
"""
