"""Triton-IR, executed: the reference for what a kernel means.

Read in this order: `interpreter` (a launch, program by program), `steps` (a closure for each
operation), `memory` (buffers at made-up addresses, so that a stray access is an error), `arrays`
and `elementwise` (the arithmetic).  Handlers may teach it more: with those of tests/simulator it
runs kernels between passes of the backend.

`tritonc run` and the tests of passes use it; the compiler proper does not."""
