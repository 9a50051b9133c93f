"""Tensor copies (TMA): what they can move, rings of them, producer warps, stores."""
