"""Processes that compile and measure candidates.

Read in this order: `jobs` (what they do), `workers` (a pool of processes, of which each may crash),
`sites` (this machine with its GPUs).
"""
