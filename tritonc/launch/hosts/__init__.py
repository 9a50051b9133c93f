"""What programs in C and C++ launch kernels by.

Read in this order: `products` (kinds of output that are made of others), `header` with
`header_choice` and the .h files beside them, `torch_source` with `torch_roles` (operators of
torch).
"""
