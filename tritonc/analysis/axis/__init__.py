"""Axis information: contiguity, divisibility and constancy of tiles along each axis."""
