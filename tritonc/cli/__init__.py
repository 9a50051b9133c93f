"""The command line: `main` dispatches to one file for each command.

`option_table` is the one list of options; help, manual page, completion and docs derive from it."""

import gc

# Of 700: it runs some 100 times in a compilation and finds little.  At 200,000 it takes 3 to 4 % of
# one with entries, whose memory is a fifth less then (215 MB of 269).
gc.set_threshold(1_000_000)
