"""Machine-independent passes over Triton-IR, one file each; `tritonc.passes` lists them.

`loops/` brings loops into one form and decides what runs how often; `addresses/` makes a fixed tile
and a scalar of the addresses that loops compute; `peephole/` is local algebra.  The rest is here.
"""
