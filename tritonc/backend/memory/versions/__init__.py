"""Versions of a kernel that rely on facts, which are tested at run time.

Read `wanted_facts` and `wanted_accesses` first (which facts accesses lack), with `wanted` (how
facts are kept) and `wanted_strides`, `wanted_inside` and `wanted_apart` (kinds of facts); then
`specialize` (tests, and the second body) and `specialize_stores` (the same for a store behind a
loop).
"""
