"""Operations on elements, register by register, and elements that share a register."""
