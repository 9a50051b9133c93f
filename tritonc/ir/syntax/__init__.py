"""The text form of Triton-IR: printed by `text`, read by `parse`."""
