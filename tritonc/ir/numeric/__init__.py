"""Arithmetic and formats of numbers: Python's for folding, NumPy's for the interpreter."""
