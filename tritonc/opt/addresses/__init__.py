"""Passes on what loops compute of addresses: counters, offsets, quotients, parts of one axis."""
