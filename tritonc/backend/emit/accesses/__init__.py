"""Accesses of global, constant and shared memory, by threads and by the tensor copy engine."""
