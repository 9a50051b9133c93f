"""The builtin functions: `table` has one row for each, the other files how they lower.

A row's function is in `bits`, `math`, `memory`, `moves`, `sort`, `tiles`, `launch`, `products` or
`combine`; `library` finds those that are written in Triton-C (`tritonc/library`)."""
