"""Processes that compile and measure candidates.

Read in this order: `jobs` (what they do), `workers` (a pool of processes, of which each may crash)
and `worker` (such a process), `sites` (this machine with its GPUs), `cluster` (many machines)."""
