"""Layouts: which thread and register holds which element, and where it lies in shared memory.

Read `layout` first, an essay with examples; then `f2` (linear algebra of bits), `layout_ops` (what
becomes of a layout), `fragment` (operands of matrix instructions), `shared_layout` (swizzles)."""
