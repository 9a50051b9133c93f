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
        "A character that begins no token of Triton-C stands outside comments and strings: a "
        "control character, a letter outside ASCII, a backslash inside a line, a '#' that "
        "does not begin its line. Editors and web pages put in invisible ones, such as the "
        "no-break space U+00A0."),
    "unterminated-comment": Row("error",
        "A comment that /* begins has no */ before the end of its file. Comments do not nest."),
    "unterminated-literal": Row("error",
        "A string or a character constant has no closing quote on its line, or a character "
        "constant is empty."),
    "invalid-directive": Row("error",
        "A line that begins with # is none of the directives of the preprocessor (define "
        "undef include if ifdef ifndef elif else endif error warning line pragma), or lacks "
        "what its directive needs."),
    "invalid-macro": Row("error",
        "The definition of a macro is malformed: its name, its parameters, or an operator # "
        "or ## of its body."),
    "macro-space": Row("warning",
        "The body of a macro begins right behind its name, so that the definition may mean "
        "another than it says."),
    "macro-redefined": Row("warning",
        "A macro is defined again with another body. The new body counts from there on. "
        "#undef between the two says that this is meant; -D on the command line replaces "
        "predefined macros silently."),
    "macro-arguments": Row("error",
        "A function-like macro is used with another number of arguments than its definition "
        "has parameters. Commas separate arguments unless they stand in parentheses; brackets"
        " do not protect them."),
    "unterminated-macro-use": Row("error",
        "The list of arguments of a macro's use has no closing parenthesis before the end of "
        "the text."),
    "invalid-join": Row("error",
        "The operator ## joins two tokens whose spellings together are not one token, or # makes "
        "a string that ends in a backslash."),
    "expansion-limit": Row("error",
        "Macros expand to more tokens than the compiler takes, or are nested more deeply: "
        "most likely each of a chain of macros doubles the text of the one before."),
    "invalid-condition": Row("error",
        "The expression of an #if or #elif is malformed or has no value. It consists of "
        "integers, characters, defined(NAME) and C's operators; a name that is no macro "
        "counts as 0; arithmetic has 64 bits."),
    "unbalanced-conditional": Row("error",
        "An #if, #ifdef or #ifndef has no #endif in its file, or an #elif, #else or #endif "
        "has no #if before it, or stands behind the #else."),
    "extra-tokens": Row("warning",
        "A directive is followed by text on its line that it does not use."),
    "error-directive": Row("error",
        "The source itself asks for this error, by #error."),
    "warning-directive": Row("warning",
        "The source itself asks for this warning, by #warning."),
    "bidirectional-text": Row("warning",
        "A comment or string has a Unicode character that changes the direction of text. Editors "
        "show such a line in another order than the compiler reads it, which can hide code."),
    "unknown-pragma": Row("warning",
        "A #pragma that tritonc does not know is ignored. It knows #pragma once and #pragma "
        "unroll."),
    "include-not-found": Row("error",
        'A file to be included is in none of the directories searched. #include "FILE" looks '
        "beside the file that includes it and then in the directories of -I, in their order; "
        "#include <FILE> only in those of -I."),
    "include-limit": Row("error",
        "Files include each other too deeply or too many times: most likely a file includes "
        "itself. #pragma once, or an #ifndef around it, makes a file be read once."),
    "unreadable-file": Row("error",
        "A source or an included file cannot be read: it does not exist, is no regular file (a "
        "directory, a device, a pipe: `-` reads standard input), is too large, or may not be "
        "read."),
    "invalid-encoding": Row("error",
        "A source file is not text in UTF-8. The place is the first byte that is wrong."),
}

PARSER: dict[str, Row] = {
    "syntax-error": Row("error",
        "The source does not follow the grammar. The message says what could stand at the place "
        "and what was found. Where something is missing, the place is just after the token before. "
        "Parsing goes on behind the mistake, so that one run shows several."),
    "unsupported-construct": Row("error",
        "C has the construct, Triton-C has not: unions, enumerations, switch, goto, "
        "strings outside printf and assert, pointers to pointers, lists of initial values, the "
        "comma operator, the address of a variable, variables outside functions. The message says "
        "what to write instead."),
    "unknown-type": Row("error",
        "A name stands where a type is needed, but it is neither a type of Triton-C nor declared "
        "by a typedef. The types are bool, char, short, int, long, their unsigned forms, half, "
        "bfloat16, float, double, tf32, float8_e4m3 and float8_e5m2, and their other names."),
    "invalid-declaration": Row("error",
        "A declaration is formed according to the grammar but means nothing: a qualifier that does "
        "not apply, words that make no type, a tunable inside a function, a constant without a "
        "value, a constant table without a size."),
    "invalid-literal": Row("error",
        "A number, character or string is malformed or does not fit: digits that the base does not "
        "have, an unknown suffix, an integer of more than 64 bits, an unknown escape sequence."),
    "nested-too-deeply": Row("error",
        "Brackets, statements or operators are nested deeper than the compiler takes: 256 open "
        "brackets, or about a thousand levels of any kind, which includes the operators of one "
        "long expression such as a sum of a thousand terms."),
    "ignored-word": Row("warning",
        "A word stands where it says nothing, such as 'volatile' of what is no pointer."),
    "misplaced-pragma": Row("warning",
        "#pragma unroll stands before a loop; before anything else it is ignored."),
    "range-precedence": Row("warning",
        "What follows the end of a range with + - << or >> applies to each of its elements: "
        "0 ... T - 1 is (0 ... T) - 1, though 0 ... T * 8 is 0 ... (T * 8). Parentheses silence "
        "the warning: (0 ... T) - 1 or 0 ... (T - 1)."),
}

SEMA: dict[str, Row] = {
    "undeclared-name": Row("error",
        "A name is used that nothing declares here: no variable or parameter of the blocks "
        "around it, no tunable, constant, table or function of the file, no builtin. It is "
        "reported once in a block."),
    "redefinition": Row("error",
        "A name is declared twice in one block, or a function is defined twice. An inner block "
        "may declare the name again, also with another type."),
    "struct-value": Row("error",
        "A struct is used where only a number can be, has no such member, or is made of a list "
        "that does not fit. Structs are values: they can be assigned, passed, returned, chosen by "
        "'?:', combined by reduce and scan, and taken apart by x.name. There are no pointers to "
        "them, and no operators."),
    "combining-function": Row("error",
        "reduce and scan take a function that combines two values of one type, numbers or structs "
        "of numbers, to one of that type: float f(float a, float b). It is taken to be "
        "associative, and runs for many pairs of elements at once, so it can compute, choose "
        "and call other such functions, but has no loops, and does not touch memory."),
    "atomic-order": Row("error",
        "acquire, release and acq_rel order the accesses of an instance around one access of a "
        "scalar pointer. The accesses of a tile have no order among themselves."),
    "joint-tunable": Row("error",
        "Tunables that are chosen together take the values of one row of their list, counted from "
        "0; --tune NAME=VALUE for one of them asks for a row that has this value."),
    "static-loop": Row("error",
        "`static for (int i = a; i < b; i++)` is run by the compiler: it declares its counter with "
        "a constant, tests it by a constant condition and steps it; in the body the counter is a "
        "constant. There are 1024 turns at most."),
    "auto-type": Row("error",
        "'auto' is the type of a variable with an initial value, of a parameter or of a result of "
        "a function that is called. A kernel's parameters, members of structs, constants and casts "
        "name their types."),
    "not-a-constant": Row("error",
        "An expression must be known at compile time: the extents of a tile, the ends of a "
        "range, an axis, a value of a tunable. Constant expressions consist of literals, "
        "tunables, constants and operators."),
    "tile-extent": Row("error",
        "The extent of a tile is zero or negative; tiles have at least one element."),
    "tile-too-large": Row("error",
        "A tile has more than 1048576 elements, which the registers of no GPU can hold. Large "
        "problems are cut into tiles by the launch's range and by loops."),
    "tile-sizeof": Row("error",
        "sizeof was asked of a tile. Only scalar types have a size in memory."),
    "void-type": Row("error",
        "void stands where a type with values is wanted."),
    "void-value": Row("error",
        "A call of a function that returns nothing is used as a value."),
    "string-literal": Row("error",
        "A string stands where it means nothing, or is missing where it is wanted. Only printf, "
        "assert and static_assert take strings."),
    "literal-range": Row("error",
        "A decimal integer is too large for a signed 64-bit integer and has no suffix u."),
    "shape-mismatch": Row("error",
        "The shapes of tiles that are combined do not fit. As in NumPy, shapes are aligned at "
        "the right; extents must then be equal, or 1, or missing. x[:, newaxis] inserts an axis "
        "of extent 1. Masks, predicates, pointers and values broadcast together in the same "
        "way."),
    "tile-to-scalar": Row("error",
        "A tile of several elements cannot become a scalar. Reduce it: x[+], x[max], any(x)."),
    "type-mismatch": Row("error",
        "An operator, a function or an assignment does not take operands of these types. The "
        "message says what was found and what was wanted."),
    "condition-type": Row("error",
        "A condition, a mask or an operand of && || ! must be bool, or an integer, which counts "
        "as true unless it is 0. Floats and pointers have to be compared."),
    "tile-condition": Row("error",
        "The condition of a loop is a tile, of which some elements may hold and others not. A "
        "loop goes on or ends for all elements: any(c) or all(c) is a scalar."),
    "float-to-int": Row("warning",
        "A float is cut off to an integer by an assignment, an initialisation, an argument or a "
        "store. A cast says that this is meant."),
    "constant-conversion": Row("warning",
        "A constant does not fit the type that an assignment, an initialisation, an argument or a "
        "store converts it to. Of an integer the upper bits are lost, or the sign is another; a "
        "number beyond those of a float type becomes infinite, or the greatest one of an 8-bit "
        "float. A cast says that this is meant."),
    "assigned-condition": Row("warning",
        "The condition of an if or a loop assigns: == was meant, most likely. A second pair of "
        "parentheses around it says that it is not."),
    "discarded-const": Row("warning",
        "A pointer to const becomes a pointer through which the program may write."),
    "unmasked": Row("warning",
        "A store or atomic operation through indices of the global range is not masked, though "
        "another access of the kernel is: where the range is no multiple of the tile, the last "
        "instance has indices past its end, and would write there. '@mask statement' keeps it "
        "inside. Nothing is said where the kernel may know the index to be inside: behind a branch "
        "on it, or through min, max, clamp, ?: or %."),
    "unmasked-load": Row("warning",
        "The same for a load, which 'mask ? *p : 0' keeps inside. Older sources read past the end "
        "of what they know to be longer, so that this one has to be asked for.", "all"),
    "never-masked": Row("warning",
        "An access goes through indices of the global range along an axis that the kernel masks "
        "nowhere. It is right only if the range is a multiple of the tile; assume(N % T == 0) "
        "says so, and silences the warning.", "extra"),
    "unused-value": Row("warning",
        "A statement computes something, does nothing with it, and changes nothing: == where = was "
        "meant, or a load whose result is not taken."),
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
        "Something is stored through a pointer to const."),
    "constant-memory": Row("error",
        "A kernel stores to constant memory. The host fills it, or statements outside functions "
        "do at compile time."),
    "not-assignable": Row("error",
        "The left side of an assignment is neither a variable nor memory that a pointer names."),
    "not-a-pointer": Row("error",
        "The operand of * is neither a pointer nor a tile of pointers."),
    "uninitialized": Row("error",
        "A variable is read before anything was assigned to it, whichever way control came. "
        "Where only some ways lead there, the interpreter reports the read when it happens."),
    "read-only": Row("warning",
        "A kernel stores through a parameter that is declared read_only. The hint is dropped, "
        "and the program means what it says."),
    "write-only": Row("warning",
        "A kernel loads through a parameter that is declared write_only. The hint is dropped."),
    "predicate-shape": Row("error",
        "A load, a division or an atomic operation under a tile predicate takes place for those of "
        "its elements that some selected element needs. Here so many different changes of shape "
        "lie between it and its uses that this cannot be said by one condition. Load the tile "
        "before the predicate, with a mask of its own: *?(mask) p."),
    "predicated-scalar": Row("error",
        "Under a tile predicate (an @mask, or an if whose condition is a tile) a scalar declared "
        "outside of it is assigned. The predicate holds for some elements and not for others, "
        "but the scalar has one value. any(mask) or all(mask) makes a scalar condition; a tile "
        "variable keeps a value for each element."),
    "predicated-jump": Row("error",
        "A break, continue or return stands under a tile predicate: it would be taken for some "
        "elements only, but control flow is one for the whole tile. any(mask) or all(mask) makes "
        "a scalar condition."),
    "misplaced-jump": Row("error",
        "A break or continue stands outside of every loop of its function."),
    "missing-return": Row("error",
        "Control can reach the end of a function that must return a value."),
    "return-type": Row("error",
        "A void function returns a value, or a function with a result returns none."),
    "subscript": Row("error",
        "The entries of a subscript do not fit the axes of the tile. There is one entry for each "
        "axis (: keeps it, + * & | ^ max min reduce it), and newaxis inserts one; or every entry "
        "is a ^k, which puts axis k there."),
    "subscript-index": Row("error",
        "A subscript takes an element or a part out of a tile, or indexes a pointer. The elements "
        "of a tile lie in the registers of many threads, so there is no such operation. Memory is "
        "read by pointers, *(p + i); only a constant table is indexed by an integer."),
    "range-bounds": Row("error",
        "The range a ... b is empty, because b is not greater than a, or does not fit int."),
    "reduction": Row("error",
        "A reduction or scan does not fit its operand: the axis does not exist, the operand is no "
        "tile, or its elements cannot be combined in this way."),
    "dot-operands": Row("error",
        "The operands of a matrix product do not fit: wanted are tiles [M, K] and [K, N] of one "
        "element type, with equal batch axes behind."),
    "atomic-type": Row("error",
        "There is no atomic operation of this kind on this type."),
    "call-arguments": Row("error",
        "A function is called with another number of arguments than it takes, or with one that "
        "makes no sense to it."),
    "not-a-function": Row("error",
        "Something is called that is no function: a variable of that name hides it."),
    "recursion": Row("error",
        "A function calls itself, directly or through others. Functions are inlined where they "
        "are called, so that recursion is impossible; write a loop."),
    "inline-limit": Row("error",
        "Inlining the functions that a kernel calls makes it too large or too deeply nested."),
    "kernel-call": Row("error",
        "A kernel is called by a function. Put what both need into a function of its own."),
    "kernel-signature": Row("error",
        "A kernel returns a value, has a tile for a parameter, or more parameters than a launch "
        "passes. Kernels take scalars and pointers and leave their results in memory."),
    "no-kernel": Row("error",
        "A file has no entry point: no function marked kernel or __global__, and no void function "
        "that no other function calls."),
    "global-range": Row("error",
        "get_global_range is used in a way that does not say how long its tile is, or with "
        "another length than elsewhere in the kernel: its length sets the launch's grid."),
    "launch-axis": Row("error",
        "The argument of get_global_range or get_program_id is none of the axes 0, 1 and 2."),
    "unbound-tunable": Row("error",
        "A tunable is declared without a list of values, and none was given from outside."),
    "unknown-tunable": Row("error",
        "A value was given for a tunable that the program does not have."),
    "tunable-type": Row("error",
        "A tunable is of another type than an integer type."),
    "tunable-value": Row("warning",
        "The value given for a tunable is not in the list that the program declares."),
    "meta-parameter": Row("error",
        "The value given for a meta-parameter of a pass, by --tune or by a tuning file, is not one "
        "that it can have."),
    "variant": Row("error",
        "A variant of --variant is not spelt as one, is none of a kernel, binds what is no tunable "
        "or meta-parameter, assumes what cannot be, or cannot take the place of its kernel."),
    "static-assertion": Row("error",
        "The condition of a static_assert does not hold."),
    "constant-table": Row("error",
        "A constant table is declared with an impossible size, or filled by statements that write "
        "past its end or do not stop."),
    "file-statement": Row("error",
        "A statement outside functions does something else than fill constant tables from "
        "constants."),
    "printf-format": Row("error",
        "The directives of a printf format do not fit the values."),
}

IR: dict[str, Row] = {
    "ir-syntax": Row("error",
        "The text of Triton-IR cannot be read here. The message says what was found and what "
        "was wanted; docs/ir.md describes the form."),
    "ir-unknown-name": Row("error",
        "A line of Triton-IR names a value, a block, a layout or an operation that is not "
        "defined. Values are looked up in their kernel, layouts above their first use."),
    "ir-redefinition": Row("error",
        "A line of Triton-IR defines a value, a block, a kernel or a constant whose name is "
        "taken. Triton-IR is in static single assignment form: each name is defined once."),
    "ir-stage": Row("error",
        "Triton-IR of the backend is compiled without --start-after=PASS, which says after which "
        "pass to go on, or with a pass after which such IR does not stand. From the pass "
        "assign_layouts on, every tile has a layout; before, none has."),
    "ir-invalid": Row("error",
        "A kernel written in Triton-IR breaks a rule of its structure: an operation does not "
        "fit its operands, a value is used where its definition does not reach, a block does "
        "not end in a branch, or a phi does not agree with the blocks before it."),
    "run-arguments": Row("error",
        "The interpreter was asked to run a kernel with arguments that it does not take, or to "
        "run a kernel that the module does not have."),
    "run-out-of-bounds": Row("error",
        "While the program ran, an element was read or written outside of every buffer, or past "
        "the end of one. The message names the line, the element of the tile, the buffer and "
        "the distance. A mask or a larger buffer is missing."),
    "run-misaligned": Row("error",
        "While the program ran, an address was not a multiple of the size of the element that "
        "lies there, which hardware does not allow."),
    "run-undefined": Row("error",
        "While the program ran, an undefined element was stored, used as an address, printed, "
        "or decided where control goes. An element is undefined if its variable was never "
        "assigned, its load was masked off, or its shift went past the width; notes say which."),
    "run-division-by-zero": Row("error",
        "While the program ran, an integer was divided by zero."),
    "run-constant-store": Row("error",
        "While the program ran, it wrote to constant memory, which only the host may fill."),
    "run-assumption": Row("error",
        "While the program ran, a promise made by assume or multiple_of did not hold. The "
        "compiler builds on such promises, so that machine code would be wrong."),
    "run-assertion": Row("error",
        "While the program ran, the condition of an assert did not hold."),
    "run-race": Row("error",
        "Two instances touch one byte, one of them changes it, and nothing orders them: on a GPU "
        "they run in any order, or at once. An atomic operation on a scalar orders instances: one "
        "that releases (as they do unless a word says otherwise) and a later one that acquires at "
        "the same address, as a lock or a flag does. Stores that change nothing do not count."),
    "run-deadlock": Row("error",
        "All instances that are left wait in a loop for memory that none of them changes."),
    "index-overflow": Row("warning",
        "While the program ran, a sum, a difference or a product of ints did not fit in an int, "
        "and the address of an access or its mask depends on it. Integer arithmetic wraps, but an "
        "index may not: compiled code may compute it in 64 bits. Compute it as long, as in "
        "`(long)row * stride + column`. Elements that no access touches do not count."),
    "run-too-long": Row("error",
        "The interpreter stopped a program that executed more operations than its limit allows: "
        "a loop does not end, or instances wait for each other for ever."),
}

BACKEND: dict[str, Row] = {
    "unknown-target": Row("error",
        "The name of --arch is none of the targets. --list-targets lists them; a name is sm_ "
        "and the GPU's compute capability, with an a for instructions of that one architecture."),
    "unknown-ptx-version": Row("error",
        "The version of -mptx does not exist, or is older than the target, or newer than this "
        "compiler. A driver takes every version up to its own."),
    "target-lacks-feature": Row("error",
        "The program asks for an instruction that the target does not have, and that nothing "
        "can replace. A newer --arch or -mptx has it; the note says which."),
    "shared-memory": Row("error",
        "The tiles that a kernel exchanges between threads, operands of matrix products above all, "
        "need more shared memory than a block of the target has. Smaller tiles need less: "
        "--tune chooses them, or a smaller value in the list of a tunable."),
    "constant-parameter": Row("error",
        "A kernel's parameter points to constant memory. The tables there are symbols of the "
        "module, which a kernel names itself and the host fills by name; a parameter can point to "
        "global memory."),
    "run-race": Row("error",
        "While the interpreter ran a kernel of the backend, threads of an instance used the same "
        "memory with no barrier between: the result would depend on which comes first. A barrier "
        "is missing before the operation named, or a wait for a copy."),
    "run-shared-memory": Row("error",
        "While the interpreter ran a kernel of the backend, an operation read shared memory to "
        "which its buffer did not store: nothing was stored there yet, or another buffer that "
        "was given the same bytes has overwritten them."),
}

DRIVER: dict[str, Row] = {
    "out-of-memory": Row("error",
        "The compilation, or the problem that the file states, needs more memory than there is."),
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
    "problem-name": Row(
        "error",
        "A problem (//! lines) names an argument, size, kernel or table that does not exist, "
        "or defines one name twice.",
    ),
    "cannot-write": Row(
        "error",
        "An output could not be written, or it is a file that the compilation reads. Nothing "
        "was written.",
    ),
    "cannot-run": Row(
        "error",
        "tritonc reduce cannot run its command on the whole source, or what comes of it is not "
        "what the command line asks for. The command runs in the working directory; the source "
        "stands in a folder of its own, with links to what is beside it.",
    ),
    "unknown-warning": Row(
        "error",
        "A -W option names no warning. --explain list shows them all.",
    ),
    "tuning-file": Row(
        "error",
        "A tuning file cannot be read, or is not as `tritonc tune` writes it. --tuning=none "
        "compiles without one.",
    ),
    "registers": Row(
        "warning",
        "More values are live at this place than a thread has registers for. The numbers are the "
        "compiler's estimate, from the shapes of the tiles, the layouts that place them in "
        "threads, and the number of warps. NVIDIA's assembler keeps what does not fit in memory, "
        "which costs time, or refuses. Smaller tiles need fewer registers; so do more warps, as "
        "long as the registers of a multiprocessor are enough for all of them.",
    ),
    "dot-too-large": Row(
        "error",
        "A product that no matrix instruction computes is unrolled, an instruction for each "
        "multiply-add of a thread. So many take minutes to compile and do not fit the cache of "
        "instructions. A loop over parts of the inner axis does the same with short code.",
    ),
    "many-tunables": Row(
        "warning",
        "The tunables that nothing binds have more combinations than the cost model compares. It "
        "varies one tunable after the other instead, which may miss the best. `--tune` binds "
        "tunables, and shorter lists have fewer combinations.",
    ),
    "stale-tuning": Row(
        "warning",
        "The tuning file beside the source, or the one that --tuning names, was made for another "
        "text of the program (comments do not count), so that nothing of it is used and the "
        "cost model chooses. `tritonc tune` measures again.",
    ),
    "no-such-output": Row(
        "error",
        "This kind of source has no such output: Triton-IR has no preprocessed text and no "
        "syntax tree.",
    ),
    "no-problem": Row(
        "error",
        "tritonc run wants a source that states a problem in lines that begin with //!, as "
        "docs/problems.md describes.",
    ),
    "no-ptxas": Row(
        "error",
        "Machine code (cubin, fatbin) is made by NVIDIA's ptxas and fatbinary, which were not "
        "found. They come with the CUDA toolkit; compiling to PTX does not need them.",
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
