"""Masks of accesses: simpler, tested once, or made where indices wrap."""
