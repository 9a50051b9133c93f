"""What a program of a kernel does in a launch, by numbers: `work`.

`numbers` computes indices, masks and addresses of single elements for given parameters, program ids
and iterations; `work` asks it how often loops run, what accesses bring, and how much of a tile
takes part.  It holds for every form of address and mask: nothing is recognised.
"""
