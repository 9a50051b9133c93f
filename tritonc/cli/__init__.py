"""The command line: `main` dispatches to one file for each command.

`option_table` is the one list of options; help, manual page, completion and docs derive from it.
"""

import gc

gc.set_threshold(200_000)  # of 700, it runs some 100 times in a compilation and finds little
