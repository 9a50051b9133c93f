"""Every diagnostic that tritonc can give: one row each, with the text of `tritonc --explain NAME`.

The name is stable and is what `-Wname`, `-Wno-name` and `-Werror=name` take.  A message that is
raised under a name with no row here fails a test.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """`severity` is "error", "warning" or "remark"; `explanation` is one paragraph for a user.

    `group` of a warning: "" is on by default, "all" with -Wall, "extra" with -Wextra.
    """

    severity: str
    explanation: str
    group: str = ""

    @property
    def kind(self) -> str:
        """The severity, and what turns it on."""
        return f"{self.severity}, with -W{self.group}" if self.group else self.severity


PREPROCESSOR: dict[str, Row] = {
    "stray-character": Row("error",
        "A character outside comments and strings begins no token of Triton-C: a control "
        "character, a letter outside ASCII, a backslash inside a line, or a '#' that does not "
        "begin its line. Editors and web pages insert invisible characters, such as the "
        "no-break space U+00A0."),
    "unterminated-comment": Row("error",
        "A comment that begins with /* has no */ before the end of its file. Comments do not "
        "nest."),
    "unterminated-literal": Row("error",
        "A string or a character constant has no closing quote on its line, or a character "
        "constant is empty."),
    "invalid-directive": Row("error",
        "A line that begins with # is not a directive of the preprocessor (define undef include "
        "if ifdef ifndef elif else endif error warning line pragma), or it lacks what its "
        "directive needs."),
    "invalid-macro": Row("error",
        "The definition of a macro is malformed: its name, its parameters, or an operator # "
        "or ## of its body."),
    "macro-space": Row("warning",
        "The body of a macro begins right after its name, without a space, so the definition "
        "may mean something else than it seems to."),
    "macro-redefined": Row("warning",
        "A macro is defined again with a different body. The new body counts from there on. "
        "Write #undef between the two if you mean it; -D on the command line replaces "
        "predefined macros without a warning."),
    "macro-arguments": Row("error",
        "A function-like macro is used with a number of arguments that its definition does not "
        "take. Commas separate arguments unless they are inside parentheses; brackets do not "
        "protect them."),
    "unterminated-macro-use": Row("error",
        "The list of arguments of a macro's use has no closing parenthesis before the end of "
        "the text."),
    "invalid-join": Row("error",
        "The operator ## joins two tokens whose text together is not one token, or # makes a "
        "string that ends in a backslash."),
    "expansion-limit": Row("error",
        "Macros expand to more tokens than the compiler accepts, or nest too deeply. Most "
        "likely each macro of a chain doubles the text of the one before."),
    "invalid-condition": Row("error",
        "The expression of an #if or #elif is malformed or has no value. It consists of "
        "integers, characters, defined(NAME) and the operators of C. A name that is not a macro "
        "counts as 0. Arithmetic has 64 bits."),
    "unbalanced-conditional": Row("error",
        "An #if, #ifdef or #ifndef has no #endif in its file, or an #elif, #else or #endif has "
        "no #if before it or comes after the #else."),
    "extra-tokens": Row("warning",
        "A directive is followed by text on its line that it does not use."),
    "error-directive": Row("error",
        "The source asks for this error with #error."),
    "warning-directive": Row("warning",
        "The source asks for this warning with #warning."),
    "bidirectional-text": Row("warning",
        "A comment or string contains a Unicode character that changes the direction of text. "
        "Editors show such a line in a different order than the compiler reads it, which can "
        "hide code."),
    "unknown-pragma": Row("warning",
        "A #pragma that tritonc does not know is ignored. It knows #pragma once and #pragma "
        "unroll."),
    "include-not-found": Row("error",
        'An included file is in none of the directories searched. #include "FILE" looks beside '
        'the including file and then in the -I directories, in their order; #include <FILE> '
        'looks only in the -I directories.'),
    "include-limit": Row("error",
        "Files include each other too deeply or too many times; most likely a file includes "
        "itself. With #pragma once, or an #ifndef around its text, a file is read once."),
    "unreadable-file": Row("error",
        "A source or an included file cannot be read: it does not exist, is not a regular file "
        "(but a directory, a device or a pipe; `-` reads standard input), is too large, or you "
        "lack the permission."),
    "invalid-encoding": Row("error",
        "A source file is not UTF-8 text. The message names the first wrong byte."),
}

PARSER: dict[str, Row] = {
    "syntax-error": Row("error",
        "The source does not follow the grammar. The message says what was expected at the "
        "place and what was found. If something is missing, the place is just after the "
        "previous token. Parsing continues after the error, so one run reports several."),
    "unsupported-construct": Row("error",
        "C has the construct, but Triton-C does not: unions, enumerations, switch, goto, "
        "strings outside printf and assert, pointers to pointers, initialiser lists, the comma "
        "operator, the address of a variable, variables outside functions. The message says "
        "what to write instead."),
    "unknown-type": Row("error",
        "A type is expected, but the name is neither a type of Triton-C nor declared by a "
        "typedef. The types are bool, char, short, int, long, their unsigned forms, half, "
        "bfloat16, float, double, tf32, float8_e4m3 and float8_e5m2, and their other names."),
    "invalid-declaration": Row("error",
        "A declaration follows the grammar but has no meaning: a qualifier that does not apply, "
        "words that make no type, a tunable inside a function, a constant without a value, a "
        "constant table without a size."),
    "invalid-literal": Row("error",
        "A number, character or string is malformed or too large: a digit that the base does "
        "not have, an unknown suffix, an integer of more than 64 bits, an unknown escape "
        "sequence."),
    "nested-too-deeply": Row("error",
        "Brackets, statements or operators nest deeper than the compiler accepts: 256 open "
        "brackets, or about a thousand levels of any kind. The operators of one long "
        "expression, such as a sum of a thousand terms, count as levels."),
    "ignored-word": Row("warning",
        "A word has no effect where it stands, such as 'volatile' on something that is not a "
        "pointer."),
    "misplaced-pragma": Row("warning",
        "#pragma unroll must come right before a loop; before anything else it is ignored."),
    "range-precedence": Row("warning",
        "What follows the end of a range with + - << or >> applies to each of its elements: "
        "0 ... T - 1 is (0 ... T) - 1, though 0 ... T * 8 is 0 ... (T * 8). Parentheses silence "
        "the warning: (0 ... T) - 1 or 0 ... (T - 1)."),
}

SEMA: dict[str, Row] = {
    "undeclared-name": Row("error",
        "Nothing declares this name here: no variable or parameter of the enclosing blocks, no "
        "tunable, constant, table or function of the file, and no builtin. The error is "
        "reported once per block."),
    "redefinition": Row("error",
        "A name is declared twice in one block, or a function is defined twice. An inner block "
        "may declare the name again, also with another type."),
    "struct-value": Row("error",
        "A struct is used where only a number can be, has no such member, or is made from a "
        "list that does not fit. Structs are values: you can assign, pass and return them, "
        "choose them with '?:', combine them with reduce and scan, and take them apart with "
        "x.name. There are no pointers to structs and no operators on them."),
    "combining-function": Row("error",
        "reduce and scan take a function that combines two values of one type, numbers or "
        "structs of numbers, to one of that type: float f(float a, float b). The compiler "
        "assumes that it is associative and runs it for many pairs of elements at once. So it "
        "may compute, choose and call other such functions, but it must have no loops and must "
        "not access memory."),
    "atomic-order": Row("error",
        "acquire, release and acq_rel order the accesses of a program instance around one "
        "access through a scalar pointer. The accesses of a tile have no order among "
        "themselves."),
    "joint-tunable": Row("error",
        "Tunables that are chosen together take the values of one row of their list. Rows are "
        "counted from 0. --tune NAME=VALUE for one of them selects a row that has this value."),
    "static-loop": Row("error",
        "The compiler itself runs `static for (int i = a; i < b; i++)` and writes out the body "
        "for each turn. The loop must declare its counter with a constant, test it by a "
        "constant condition, and step it; in the body the counter is a constant. The limit is "
        "1024 turns."),
    "auto-type": Row("error",
        "'auto' is allowed for a variable with an initial value, and for parameters and results "
        "of functions that are called. A kernel's parameters, members of structs, constants and "
        "casts need a named type."),
    "not-a-constant": Row("error",
        "An expression must be known at compile time: the extents of a tile, the ends of a "
        "range, an axis, a value of a tunable. Constant expressions consist of literals, "
        "tunables, constants and operators."),
    "tile-extent": Row("error",
        "The extent of a tile is zero or negative; a tile has at least one element."),
    "tile-too-large": Row("error",
        "A tile has more than 1048576 elements, which the registers of no GPU can hold. Use the "
        "launch's range and loops to cut a large problem into tiles."),
    "tile-sizeof": Row("error",
        "sizeof is applied to a tile. Only scalar types have a size in memory."),
    "void-type": Row("error",
        "void is used where a type with values is needed."),
    "void-value": Row("error",
        "A call of a function that returns nothing is used as a value."),
    "string-literal": Row("error",
        "A string is used where it has no meaning, or is missing where it is needed. Only "
        "printf, assert and static_assert take strings."),
    "literal-range": Row("error",
        "A decimal integer is too large for a signed 64-bit integer and has no suffix u."),
    "shape-mismatch": Row("error",
        "The shapes of the combined tiles do not match. As in NumPy, shapes are aligned at the "
        "right; then extents must be equal, or 1, or missing. x[:, newaxis] inserts an axis of "
        "extent 1. Masks, predicates, pointers and values broadcast together in the same way."),
    "tile-to-scalar": Row("error",
        "A tile with several elements cannot become a scalar. Reduce it: x[+], x[max], any(x)."),
    "type-mismatch": Row("error",
        "An operator, a function or an assignment does not take operands of these types. The "
        "message says what was found and what was expected."),
    "condition-type": Row("error",
        "A condition, a mask or an operand of && || ! must be bool, or an integer, which counts "
        "as true unless it is 0. Compare floats and pointers."),
    "tile-condition": Row("error",
        "The condition of a loop is a tile, which may hold for some elements and not for "
        "others. A loop continues or ends for all elements at once: make a scalar with any(c) "
        "or all(c)."),
    "float-to-int": Row("warning",
        "An assignment, an initialisation, an argument or a store truncates a float to an "
        "integer. A cast makes this explicit."),
    "constant-conversion": Row("warning",
        "An assignment, an initialisation, an argument or a store converts a constant to a type "
        "that cannot hold it. An integer loses its upper bits or changes its sign; a number "
        "beyond the range of a float type becomes infinite, or the greatest finite number of an "
        "8-bit float. A cast makes this explicit."),
    "assigned-condition": Row("warning",
        "The condition of an if or a loop is an assignment; most likely == was meant. A second "
        "pair of parentheses silences the warning."),
    "discarded-const": Row("warning",
        "A pointer to const becomes a pointer through which the program may write."),
    "unmasked": Row("warning",
        "A store or atomic operation uses indices of the global range without a mask, although "
        "another access of the kernel is masked. If the range is not a multiple of the tile, "
        "the last program instance has indices past its end and would write there. '@mask "
        "statement' prevents that. There is no warning where the kernel may know that the index "
        "is inside: after a branch on it, or through min, max, clamp, ?: or %."),
    "unmasked-load": Row("warning",
        "The same as unmasked, for a load; 'mask ? *p : 0' keeps a load inside. Older sources "
        "deliberately read past the end of buffers that they know to be longer, so this warning "
        "is off by default.", "all"),
    "never-masked": Row("warning",
        "An access uses indices of the global range along an axis that the kernel never masks. "
        "This is right only if the range is a multiple of the tile; assume(N % T == 0) states "
        "that and silences the warning.", "extra"),
    "unused-value": Row("warning",
        "A statement computes a value and does nothing with it: == was written for =, or the "
        "result of a load is not used."),
    "unused-variable": Row("warning",
        "A variable is declared, and perhaps assigned, but never read.", "all"),
    "unused-parameter": Row("warning",
        "A function does not use one of its parameters.", "extra"),
    "shift-count": Row("warning",
        "A shift by a negative count, or by the width of the type or more, has no defined "
        "result."),
    "division-by-zero": Row("warning",
        "An integer is divided by the constant 0, which has no defined result."),
    "const-assignment": Row("error",
        "A const variable is assigned, or declared without a value."),
    "const-store": Row("error",
        "The program stores through a pointer to const."),
    "constant-memory": Row("error",
        "A kernel stores to constant memory. Only the host can fill it, or statements outside "
        "functions at compile time."),
    "not-assignable": Row("error",
        "The left side of an assignment is neither a variable nor memory behind a pointer."),
    "not-a-pointer": Row("error",
        "The operand of * is neither a pointer nor a tile of pointers."),
    "uninitialized": Row("error",
        "A variable is read, but no path to the read assigns it. If only some paths lack the "
        "assignment, the interpreter reports the read when it happens."),
    "read-only": Row("warning",
        "A kernel stores through a parameter that is declared read_only. The compiler ignores "
        "the hint and does what the program says."),
    "write-only": Row("warning",
        "A kernel loads through a parameter that is declared write_only. The compiler ignores "
        "the hint."),
    "predicate-shape": Row("error",
        "Under a tile predicate, a load, a division or an atomic operation runs only for the "
        "elements that some selected element needs. Here so many different changes of shape lie "
        "between the operation and its uses that no single condition says which elements those "
        "are. Load the tile before the predicate, with a mask of its own: *?(mask) p."),
    "predicated-scalar": Row("error",
        "Under a tile predicate (an @mask, or an if whose condition is a tile), the program "
        "assigns a scalar that is declared outside of it. The predicate holds for some elements "
        "and not for others, but the scalar has only one value. any(mask) or all(mask) makes a "
        "scalar condition; a tile variable keeps one value per element."),
    "predicated-jump": Row("error",
        "A break, continue or return is under a tile predicate: some elements would take it and "
        "others not, but control flow is the same for the whole tile. any(mask) or all(mask) "
        "makes a scalar condition."),
    "misplaced-jump": Row("error",
        "A break or continue is outside of any loop of its function."),
    "missing-return": Row("error",
        "Control can reach the end of a function that must return a value."),
    "return-type": Row("error",
        "A void function returns a value, or a function with a result returns none."),
    "subscript": Row("error",
        "The entries of a subscript do not match the axes of the tile. Write one entry per axis "
        "(: keeps it; + * & | ^ max min reduce it), and newaxis to insert one; or make every "
        "entry a ^k, which puts axis k there."),
    "subscript-index": Row("error",
        "A subscript takes an element or a part out of a tile, or indexes a pointer. The "
        "elements of a tile lie in the registers of many threads, so this operation does not "
        "exist. Read memory through pointers, *(p + i). Only a constant table can be indexed by "
        "an integer."),
    "range-bounds": Row("error",
        "The range a ... b is empty, because b is not greater than a, or does not fit int."),
    "reduction": Row("error",
        "A reduction or scan does not fit its operand: the axis does not exist, the operand is "
        "not a tile, or its elements cannot be combined in this way."),
    "dot-operands": Row("error",
        "The operands of a matrix product do not match. It takes tiles [M, K] and [K, N] of one "
        "element type, with equal batch axes after those two."),
    "atomic-type": Row("error",
        "This atomic operation does not exist for this type."),
    "call-arguments": Row("error",
        "A function is called with a number of arguments that it does not take, or with an "
        "argument that it cannot use."),
    "not-a-function": Row("error",
        "The program calls something that is not a function: a variable of the same name hides "
        "it."),
    "recursion": Row("error",
        "A function calls itself, directly or through others. Functions are inlined, so "
        "recursion is impossible; write a loop."),
    "inline-limit": Row("error",
        "Inlining the functions that a kernel calls makes it too large or too deeply nested."),
    "kernel-call": Row("error",
        "A function calls a kernel. Move the shared code into a function that both call."),
    "kernel-signature": Row("error",
        "A kernel returns a value, has a tile or a struct as parameter, or has more parameters "
        "than a launch can pass. Kernels take scalars and pointers, and write their results to "
        "memory."),
    "no-kernel": Row("error",
        "The file has no entry point: no function marked kernel or __global__, and no void "
        "function that no other function calls."),
    "global-range": Row("error",
        "get_global_range is used in a way that does not determine the length of its tile, or "
        "with a different length than elsewhere in the kernel. That length sets the grid of the "
        "launch."),
    "launch-axis": Row("error",
        "The argument of get_global_range or get_program_id is not an axis; the axes are 0, 1 "
        "and 2."),
    "unbound-tunable": Row("error",
        "A tunable is declared without a list of values, and neither the command line nor a "
        "tuning file gives one."),
    "unknown-tunable": Row("error",
        "A value is given for a tunable that the program does not have."),
    "tunable-type": Row("error",
        "A tunable has a type that is not an integer type."),
    "tunable-value": Row("warning",
        "The value given for a tunable is not in the list that the program declares."),
    "meta-parameter": Row("error",
        "--tune or a tuning file gives a meta-parameter of a pass a value that it cannot have."),
    "variant": Row("error",
        "A --variant is malformed, names no kernel, sets something that is neither a tunable "
        "nor a meta-parameter, assumes a fact that cannot hold, or cannot replace its kernel."),
    "static-assertion": Row("error",
        "The condition of a static_assert is false."),
    "constant-table": Row("error",
        "A constant table has an impossible size, or the statements that fill it write past its "
        "end or do not stop."),
    "file-statement": Row("error",
        "A statement outside functions does something other than fill constant tables from "
        "constants."),
    "printf-format": Row("error",
        "The directives of a printf format do not match the values."),
}

IR: dict[str, Row] = {
    "ir-syntax": Row("error",
        "This text of Triton-IR cannot be read. The message says what was found and what was "
        "expected; docs/ir.md describes the format."),
    "ir-unknown-name": Row("error",
        "A line of Triton-IR names a value, block, layout or operation that is not defined. "
        "Values are looked up in their kernel; layouts must be defined above their first use."),
    "ir-redefinition": Row("error",
        "A line of Triton-IR defines a value, block, kernel or constant with a name that is "
        "taken. Triton-IR is in static single assignment form: each name is defined once."),
    "ir-stage": Row("error",
        "Triton-IR of the backend needs --start-after=PASS, which says after which pass to "
        "continue, and the pass must be one after which such IR can exist. From assign_layouts "
        "on, every tile has a layout; before it, none has."),
    "ir-invalid": Row("error",
        "A kernel written in Triton-IR breaks a rule of its structure: an operation does not "
        "fit its operands, a value is used where its definition does not reach, a block does "
        "not end in a branch, or a phi does not agree with the blocks before it."),
    "run-arguments": Row("error",
        "The interpreter was asked to run a kernel that the module does not have, or with "
        "arguments that the kernel does not take."),
    "run-out-of-bounds": Row("error",
        "While the program ran, it read or wrote an element outside of every buffer, or past "
        "the end of one. The message names the line, the element of the tile, the buffer and "
        "the distance. Add a mask, or make the buffer larger."),
    "run-misaligned": Row("error",
        "While the program ran, it used an address that is not a multiple of the size of the "
        "element there. Hardware does not allow that."),
    "run-undefined": Row("error",
        "While the program ran, an undefined element was stored, printed, used as an address, "
        "or used in a condition. An element is undefined if its variable was never assigned, "
        "its load was masked off, or its shift went past the width; notes say which."),
    "run-division-by-zero": Row("error",
        "While the program ran, it divided an integer by zero."),
    "run-constant-store": Row("error",
        "While the program ran, it wrote to constant memory, which only the host may fill."),
    "run-assumption": Row("error",
        "While the program ran, a promise made by assume or multiple_of did not hold. The "
        "compiler relies on such promises, so the machine code would be wrong."),
    "run-assertion": Row("error",
        "While the program ran, the condition of an assert did not hold."),
    "run-race": Row("error",
        "Two instances touch one byte, one of them changes it, and nothing orders them: on a GPU "
        "they run in any order, or at once. An atomic operation on a scalar orders instances: one "
        "that releases (as they do unless a word says otherwise) and a later one that acquires at "
        "the same address, as a lock or a flag does. Stores that change nothing do not count."),
    "run-deadlock": Row("error",
        "All remaining program instances wait in loops for memory that none of them changes."),
    "index-overflow": Row("warning",
        "While the program ran, a sum, a difference or a product of ints did not fit in an int, "
        "and the address of an access or its mask depends on it. Integer arithmetic wraps, but an "
        "index may not: compiled code may compute it in 64 bits. Compute it as long, as in "
        "`(long)row * stride + column`. Elements that no access touches do not count."),
    "run-too-long": Row("error",
        "The interpreter stopped the program because it executed more operations than the limit "
        "(--max-steps): a loop does not end, or program instances wait for each other forever."),
}

BACKEND: dict[str, Row] = {
    "unknown-target": Row("error",
        "--arch names no target. --list-targets lists them. A name is sm_ and the compute "
        "capability of the GPU, with an a for the instructions of that one architecture."),
    "unknown-ptx-version": Row("error",
        "The version of -mptx does not exist, is older than the target needs, or is newer than "
        "this compiler knows. A driver accepts every version up to its own."),
    "target-lacks-feature": Row("error",
        "The program needs an instruction that the target does not have and that nothing can "
        "replace. The note says which --arch or -mptx has it."),
    "shared-memory": Row("error",
        "The tiles that a kernel exchanges between threads, above all operands of matrix "
        "products, need more shared memory than a block of the target has. Use smaller tiles: "
        "choose them with --tune, or put a smaller value into the list of a tunable."),
    "constant-parameter": Row("error",
        "A kernel's parameter points to constant memory. Constant tables are symbols of the "
        "module: a kernel names them itself, and the host fills them by name. A parameter can "
        "point to global memory only."),
    "run-race": Row("error",
        "While the interpreter ran a kernel of the backend, threads of an instance used the same "
        "memory with no barrier between: the result would depend on which comes first. A barrier "
        "is missing before the operation named, or a wait for a copy."),
    "run-shared-memory": Row("error",
        "While the interpreter ran a kernel of the backend, an operation read shared memory "
        "that holds nothing for its buffer: either nothing was stored there yet, or another "
        "buffer in the same bytes has overwritten it."),
}

DRIVER: dict[str, Row] = {
    "out-of-memory": Row("error",
        "The compilation, or the problem that the file states, needs more memory than the "
        "machine has."),
    "problem-syntax": Row(
        "error",
        "A line that begins with //! states a part of the problem that the file computes, as "
        "`key: value`. The line cannot be read, or the problem lacks a part that it needs. "
        "docs/problems.md lists the keys.",
    ),
    "problem-expression": Row(
        "error",
        "An expression of a problem (//! line) has no value: a name that is not defined, a "
        "NumPy function that is not available, shapes that do not fit, or a size beyond what "
        "the evaluator allows. Expressions are NumPy's, evaluated by a small safe evaluator "
        "that knows no files, no comprehensions and no names with a leading underscore.",
    ),
    "problem-python": Row("error",
        "A problem names a file of Python for its reference (//! python:), which runs only with "
        "--allow-python: it may do anything on this machine. Or the file is not beside the source, "
        "or fails."),
    "problem-name": Row(
        "error",
        "A problem (//! lines) names an argument, size, kernel or table that does not exist, "
        "or defines one name twice.",
    ),
    "cannot-write": Row(
        "error",
        "An output cannot be written, or it is a file that the compilation reads. Nothing was "
        "written.",
    ),
    "cannot-run": Row(
        "error",
        "tritonc reduce cannot run its command on the whole source, or the command's result is "
        "not what the command line asks for. The command runs in the working directory; the "
        "source is in a folder of its own, with links to the files beside the original.",
    ),
    "unknown-warning": Row(
        "error",
        "A -W option names no warning. --explain list shows all names.",
    ),
    "tuning-file": Row(
        "error",
        "A tuning file cannot be read, or does not have the format that `tritonc tune` writes. "
        "--tuning=none compiles without it.",
    ),
    "registers": Row(
        "warning",
        "More values are live at this place than a thread has registers for. The numbers are "
        "the compiler's estimate, from the shapes of the tiles, their layouts and the number of "
        "warps. NVIDIA's assembler spills the rest to memory, which costs time, or refuses the "
        "kernel. Use smaller tiles, or more warps as long as the registers of a multiprocessor "
        "suffice for all of them.",
    ),
    "dot-too-large": Row(
        "error",
        "A product that no matrix instruction computes is unrolled into one instruction per "
        "multiply-add of a thread. This many take minutes to compile and do not fit the "
        "instruction cache. A loop over parts of the inner axis computes the same with short "
        "code.",
    ),
    "many-tunables": Row(
        "warning",
        "The tunables without a given value have more combinations than the cost model "
        "compares. It varies one tunable after the other instead, which may miss the best "
        "combination. Give some with `--tune`, or shorten their lists.",
    ),
    "stale-tuning": Row(
        "warning",
        "The tuning file was measured with a different version of the program (changed comments "
        "do not count), so nothing of it is used and the cost model chooses. Run `tritonc tune` "
        "to measure again.",
    ),
    "no-such-output": Row(
        "error",
        "This source has no such output: Triton-IR has no preprocessed text and no syntax tree, "
        "and an operator of torch cannot fill a constant table that is left to the host.",
    ),
    "no-problem": Row(
        "error",
        "tritonc run needs a source that states a problem in lines that begin with //!, as "
        "docs/problems.md describes.",
    ),
    "no-ptxas": Row(
        "error",
        "Machine code (cubin, fatbin) is made by NVIDIA's ptxas and fatbinary, which were not "
        "found. They come with the CUDA toolkit; compiling to PTX does not need them.",
    ),
    "no-toolkit": Row(
        "error",
        "cuda.h or the CUDA driver's library is not installed. Programs need the header to compile "
        "what tritonc writes, and the library, or its stub, to link. tritonc itself needs neither.",
    ),
    "ptxas-failed": Row(
        "error",
        "NVIDIA's assembler did not take the PTX: it may be too old for the target or the PTX "
        "version (--list-targets, -mptx).",
    ),
    "no-device": Row(
        "error",
        "There is no GPU to run on: no CUDA driver, no device, or the Python package cuda- "
        "bindings is missing.",
    ),
    "different-launches": Row(
        "error",
        "A fatbin for several targets has one header and one way to be launched, but the number of "
        "threads or the tile differs between them. Tunables are bound alike; --tune num_warps=N "
        "makes the threads equal, another target or a fatbin for each helps where that does not.",
    ),
    "no-torch": Row(
        "error",
        "--against compares with an expression of torch, and the Python package torch is missing "
        "or sees no GPU.",
    ),
    "wrong-peer": Row(
        "error",
        "The text of --against is no Python expression, or it fails on the problem's arguments, "
        "which are tensors and numbers under their names.",
    ),
    "no-cluster": Row(
        "error",
        "The scheduler that --cluster names does not answer, or the Python package distributed is "
        "missing.",
    ),
    "cuda-error": Row(
        "error",
        "The CUDA driver refused the PTX, the launch or a copy, or the kernel failed on the "
        "GPU.",
    ),
    "out-of-bounds-write": Row(
        "error",
        "A kernel that ran on the GPU wrote past an end of a buffer. The interpreter (tritonc "
        "run without --device) names the line and the tile element.",
    ),
}

DIAGNOSTICS: dict[str, Row] = {**PREPROCESSOR, **PARSER, **SEMA, **IR, **BACKEND, **DRIVER}
