"""The static cost model: what a combination of tunables costs, and which one to take.

Read in this order: `choose` (the cheapest combination), `features` (what the model reads of a
kernel, and `epilogues` behind its products), `cost` (of kernels with products, by `tma_cost`,
`core_cost` and `residency`) and `rows` (of all others, of which `stream_entries` has the entries
for some sizes, with those of `shape_entries`); `loops`, `blocks`, `times` and
`cluster_times` (how long a launch takes at given sizes); `form` (how combinations cut it),
`portfolio` (a few combinations for all sizes, of what is `measured`), `coarse` (a second tile for
`launches` of few blocks), `chains` (another entry for attention), `narrow` (the stages of narrow
tiles), `wider` (tiles that the source does not list).
"""
