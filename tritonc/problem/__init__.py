"""The problem that a source states about itself in its `//!` lines: sizes, data, reference.

`stated` finds the lines, `lines` reads them, `evaluate` computes their expressions with functions
that `safe_numpy` allows, `known` and `shapes` say what follows from them without computing arrays.
"""
