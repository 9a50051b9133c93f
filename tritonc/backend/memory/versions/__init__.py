"""Versions of a kernel that rely on facts, which are tested at run time.

Read `wanted_facts` and `wanted_accesses` first (which facts accesses lack), with `wanted` (how
facts are kept) and `wanted_strides`, `wanted_inside` and `wanted_apart` (kinds of facts); then
`conditions` (tests, and where they stand), `bodies` (which there are beside the fast one),
`specialize` (which makes them) and `specialize_stores` (the same for a store behind a loop).
"""
