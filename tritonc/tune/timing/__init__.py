"""How long a kernel takes on a GPU.

Read in this order: `measure` (candidates in turn, right first, then fast), `cuda_device` (a GPU as
the device that measures), `bench` (`tritonc bench`), `torch_peer` (an expression of torch beside
it), `rates` and `peaks` (times as shares of what the GPU can do).
"""
