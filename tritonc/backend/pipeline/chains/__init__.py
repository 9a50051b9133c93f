"""Several products in a loop: which start early, and which iteration they belong to."""
