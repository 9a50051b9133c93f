"""Machine-independent passes over Triton-IR, one file each; `tritonc.passes` lists them."""
