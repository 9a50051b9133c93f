"""How long a kernel takes on a GPU.

Read in this order: `measure` (candidates in turn, right first, then fast), `cuda_device` (a GPU as
the device that measures), `bench` (`tritonc bench`), `torch_peer` (an expression of torch beside
it), `rates` (what a time is in operations and bytes)."""
