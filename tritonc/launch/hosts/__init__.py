"""What programs in C and C++ launch kernels by.

Read in this order: `products` (kinds of output that are made of others), `header`, `header_kernel`
and `header_choice` with the .h files beside them, `torch_source` with `torch_roles` (operators of
torch)."""
