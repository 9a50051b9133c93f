"""Names of Triton, CUDA, HIP, OpenCL, NumPy and C, and what to write here: foreign.txt."""

from tritonc import text_table
from tritonc.source import Note

_TABLES = text_table.read("frontend/foreign.txt")
VOCABULARY = {language: _TABLES[language] for language in ("triton", "cuda", "others")}
FOREIGN = {name: text for names in VOCABULARY.values() for name, text in names.items()}
MEMBERS = _TABLES["members"]
UNSUPPORTED_WORDS = _TABLES["unsupported"]
FOREIGN_TYPES = {
    **_TABLES["types"],
    **{f"{element}{count}": f"a tile holds several elements, as in '{element} x[{count}]'"
       for element in ("float", "half", "int", "double") for count in (2, 3, 4)}}
UNSIGNED = {f"u{name}": f"unsigned {name}" for name in ("char", "short", "int", "long")}

WORD_OPERATORS = {"and": "&&", "or": "||", "not": "!", "elif": "else if"}
UNSUPPORTED_PUNCTUATION = {
    "->": "there are no pointers to structs, so '->' has no meaning; a member is 'x.name'",
    "#": "'#' has a meaning only for the preprocessor",
    "##": "'##' has a meaning only for the preprocessor",
}
_MODULES = ("tl", "triton", "np", "torch", "math", "libdevice", "wmma", "cg")


def notes(name: str) -> tuple[Note, ...]:
    """What to write for a name of another language."""
    if name not in FOREIGN:
        return ()
    text = plain(FOREIGN[name])
    if text.startswith("nothing"):
        return (Note("leave it out" + text.removeprefix("nothing")),)
    return (Note(f"write {text}" if _is_code(FOREIGN[name]) else text),)


def member(before: str, after: str, called: bool) -> tuple[Note, ...]:
    """What to write for `before.after`."""
    if before in _MODULES and (after in FOREIGN or after in MEMBERS):
        text = plain(MEMBERS.get(after) or FOREIGN[after])
        return (Note(f"in the place of {before}.{after}: {text}"),)
    if before in _MODULES:
        return (Note(f"functions have no prefix here: {after}(...)"),)
    if before in ("threadIdx", "blockIdx", "blockDim", "gridDim"):
        return (Note("there are no threads in a program: get_global_range(0) is the tile of this "
                     "instance's indices, get_program_id(0) the instance's number"),)
    if after == ".":
        return (Note("a range is written 'a ... b'"),)
    if after == "T":
        return (Note("trans(x) is the transpose"),)
    if called:
        return (Note(f"a function takes what it works on as an argument: {after}(...)"),)
    return ()


def plain(text: str) -> str:
    """As a message says it: code in quotes, or without if there is nothing else.

    >>> plain("`rotl(x, n)`"), plain("`(half)x` converts")
    ('rotl(x, n)', "'(half)x' converts")
    """
    return text.strip("`") if _is_code(text) else text.replace("`", "'")


def _is_code(text: str) -> bool:
    """Whether there is nothing else than one piece of code."""
    return text.count("`") == 2 and text[0] == text[-1] == "`"
