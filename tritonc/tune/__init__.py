"""Choosing values for tunables."""
