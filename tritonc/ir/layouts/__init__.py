"""Which thread holds which element, and where it lies in shared memory: maps over F2."""
