"""Kernels that Python programs launch, on arrays of any library.

Read in this order: `api` (compile, load), `kernel` (modules, kernels, variants), `launcher` (one
launch), `parameters`, `arrays` and `dlpack` (arguments), `choosing` and `native` (which variant a
launch takes), `memory` (for sums), `on_cpu` (the interpreter in place of a GPU)."""
