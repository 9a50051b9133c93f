"""Passes on loops: their form (`canonicalize_loops`, `unify_exits`), then what runs how often."""
