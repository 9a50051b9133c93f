"""Matrix products: multiply-adds, mma.sync, wgmma, and the loads of their operands."""
