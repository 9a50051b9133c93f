"""From text to a syntax tree: preprocessor, lexer, parser.

Read in this order: `preprocess` (a C preprocessor whose tokens know where they came from),
`lexer`, `expressions` and `syntax` (the tree), `parser` with `parser_actions` (what each production
builds) and `parser_errors` (what a syntax error says)."""
