"""How many registers of a thread may hold what: limits of passes that decide before all is known.

Where layouts are known, `analysis.registers` estimates what is live, and `launch.register_budget`
divides a multiprocessor's registers among its blocks.  All numbers here are measured, but for
PRODUCER_LEAST; a thread has at most `Target.registers_per_thread`."""

# Accumulators of a loop's products with what passes through registers to shared memory; the results
# of two products that overlap; accumulators with operands of products in flight.
MOST_REGISTERS = 200
BESIDE_CHAIN = 40  # beside the products of a chain: rows, addresses, counters
BESIDE_RESULTS = 50  # beside accumulators that loops carry: addresses, masks, fragments
# A product's result, the left operand in flight and the one that the thread computes.
COMPUTED_LEFT = 224
# Results and left operands of a chain: the gradients of attention spill kilobytes with 320, 900
# bytes with 256, and at most 128 with 224.
MOST_CHAINED = 240
MOST_PROMOTED = 64  # a result, beside which another one fits
PRODUCER_LEAST = 24  # of the producer's warps: the least that setmaxnreg knows
LEAST_CONSUMER = 232  # of a consumer that computes a large product
