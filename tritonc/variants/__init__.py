"""Several variants of a kernel behind one launch; docs/notes/variants.md has the design.

Read in this order:

    variant    what distinguishes a variant, what must hold for it; the variants of one kernel
    choice     which variant a launch takes: the definition, in integers
    interface  whether one kernel can take another's place in a launch
    kernels    the kernels of variants in a module: added, left out, renamed

Who decides which variants to have is `tritonc.bindings`; `tritonc.tune.model.portfolio` is the cost
model's answer.  `tritonc.launch` has the choice for hosts."""
