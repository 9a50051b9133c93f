"""What the backend compiles for, as tables: GPUs, matrix instructions, machine operations.

`target` has a row for each architecture with its limits and features; `matrix` a row for each
matrix instruction; `machine_ops` a row for each operation that only the backend makes, with typing
rules in `machine_rules`; `register_limits` what passes let a thread hold.  No pass compares version
numbers: it asks a target for a feature."""
