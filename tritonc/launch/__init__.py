"""Kernels are launched: to run the problem that a source states, from Python, from C and C++.

    data, compare, run_problems      a problem's data and its result, in the interpreter
                                     (`interpreter`) or on a GPU (`cuda`)
    cuda_driver, packing             what every launch needs of the CUDA driver
    python                           kernels that Python programs launch
    hosts                            headers and sources for programs in C and C++
"""
