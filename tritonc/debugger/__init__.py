"""`tritonc debug`: the interpreter, stopped where a user wants to look.

`stopping` decides at which statements of which instances to stop; `show` writes values as text;
`prompt` reads commands.  What can be seen at a statement comes from sema (`ir.core.Stop`)."""
