"""The reducer: a source that shows a bug shrinks to a few lines that still show it.

Read `edits` (what a change of a text is), `reducer` (which changes are tried, in which order), then
where changes come from: `lines` (any text), `tree` (Triton-C, by its syntax tree), `operations`
(Triton-IR).  `command` asks a user's command whether a candidate still shows the bug.

As in C-Reduce (Regehr et al. 2012) the search knows nothing of the language: a kind of change gives
a list of edits, halves and quarters of the list are tried before single ones (delta debugging,
Zeller and Hildebrandt 2002), and kinds follow one another until none changes anything."""
