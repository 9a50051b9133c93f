"""`tritonc tune`: a search over tunables and meta-parameters, by measuring.

Read in this order: `tuner` (one run, from a source to its tuning file), `task` (what it is asked
for), `sizes` (what to tune for), `space` (the candidates), `bounds` (candidates that cannot be the
fastest), `schedule` (the search itself) and `choices` (what it found), `variants` (candidates that
give the same kernel), `journal` (what lets a search go on after a stop), `progress` and `report`
(what a user sees)."""
