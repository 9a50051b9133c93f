"""What an expression can be: types (`ctypes`), exact constants (`exact`, `constants`), shapes
(`shapes`), and the value with all of that (`term`)."""
