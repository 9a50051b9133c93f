"""The problem that a source states about itself in its `//!` lines: sizes, data, reference.

`lines` reads them, `evaluate` computes their expressions with the functions that `safe_numpy`
allows.
"""
