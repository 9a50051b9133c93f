"""Functions of floats, and division by one number."""
