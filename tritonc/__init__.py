"""tritonc: a compiler from Triton-C to PTX."""

__version__ = "0.1.0"
