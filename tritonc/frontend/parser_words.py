"""Words of C and other languages that Triton-C does not have, and what to write instead."""

from __future__ import annotations

# Reserved words of C that begin what Triton-C does not have, and what to do instead.
UNSUPPORTED_WORDS = {
    "union": "unions are not supported; 'bitcast<T>(x)' reads the bits of x as another type",
    "enum": "enumerations are not supported; declare each as 'const int NAME = value;'",
    "switch": "'switch' is not supported; write a chain of 'if' and 'else if'",
    "case": "'case' is not supported; write a chain of 'if' and 'else if'",
    "default": "'default' is not supported; write a chain of 'if' and 'else if'",
    "goto": "'goto' is not supported; use loops, 'break' and 'continue'",
    "register": "'register' is not supported; leave it out",
    "constexpr": "'constexpr' is not supported; write 'const'",
    "template": "templates are not supported; tunables and macros are constants of a compilation",
    "static_cast": "'static_cast' is not supported; '(T)x' converts",
    "reinterpret_cast": "'reinterpret_cast' is not supported; '(T*)p' converts a pointer, "
                        "'bitcast<T>(x)' reads the bits of a number as another type",
    "__host__": "'__host__' is not supported; leave it out",
    "__launch_bounds__": "'__launch_bounds__' is not supported; the compiler chooses the number of "
                         "threads, or '--tune num_warps='",
    "asm": "inline assembly is not supported",
    "__asm__": "inline assembly is not supported",
    "__shared__": "'__shared__' is not supported; the compiler places tiles in shared memory",
    "_Complex": "complex numbers are not supported; use two variables",
    "_Atomic": "'_Atomic' is not supported; use the functions atomic_add, atomic_cas and so on",
    "_Generic": "'_Generic' is not supported",
    "_Alignas": "'_Alignas' is not supported; write 'align(n)'",
}
# Where another language has a word, or C a type that is not built in: what to write here.
FOREIGN_WORDS = {
    "def": "a function is written as in C: 'void f(float* x) { ... }'",
    "dim3": "a launch says the number of instances; a kernel reads it by get_num_programs(axis)",
    "from": "'#include \"file\"' reads another file",
    "import": "'#include \"file\"' reads another file",
    "lambda": "a function is written as in C: 'float f(float x) { ... }'",
    "let": "a declaration begins with its type",
    "ptrdiff_t": "'long' has its width",
    "size_t": "'unsigned long' has its width",
    "string": "a string can only be an argument of printf, assert or static_assert",
    "var": "a declaration begins with its type",
    **dict.fromkeys(("global", "__global"), "every pointer leads to global memory; leave it out"),
    **dict.fromkeys(("local", "__local"), "the compiler places tiles in shared memory"),
    **{f"{element}{count}": f"a tile holds several elements, as in '{element} x[{count}]'"
       for element in ("float", "half", "int", "double") for count in (2, 3, 4)},
}
WORD_OPERATORS = {"and": "&&", "or": "||", "not": "!"}
UNSUPPORTED_PUNCTUATION = {
    "->": "there are no pointers to structs, so '->' has no meaning; a member is 'x.name'",
    "#": "'#' has a meaning only for the preprocessor",
    "##": "'##' has a meaning only for the preprocessor",
}
