"""Running what was compiled: in the interpreter, and on a GPU through the CUDA driver."""
