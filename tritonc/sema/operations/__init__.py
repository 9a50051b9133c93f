"""What operations mean, apart from the syntax that asks for them.

Conversions (`convert`; `implicit` at assignments, `casts` where written), operators (`operators`,
`choices`), access to parts (`subscripts`, `structs`) and to memory (`memory`)."""
