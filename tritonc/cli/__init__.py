"""The command line: `main` dispatches to one file for each command.

`option_table` is the one list of options; help, manual page, completion and docs derive from it.
"""
