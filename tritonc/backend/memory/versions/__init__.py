"""Bodies of a kernel for facts that are tested once: which facts, and where."""
