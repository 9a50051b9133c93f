"""Choosing values for tunables.

Read in this order:

    model        the static cost model: what a compilation chooses without measuring
    tuning_file  what `tritonc tune` found, kept beside a source
    search       `tritonc tune`: candidates, measured until the best is known
    workers      the processes, here or on a cluster, that compile and measure candidates
    timing       how long a kernel takes on a GPU; `tritonc bench`
"""
