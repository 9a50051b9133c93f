"""Functions of floats: `math` chooses, `math_f32`, `math_f64` and `math_reduction` compute.

`shared_divisor` divides many numbers by one; `negations` avoids a fault of the assembler."""
