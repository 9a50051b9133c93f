"""Names of Triton, CUDA, HIP, OpenCL, NumPy and C, and what to write here: foreign.txt."""

from __future__ import annotations

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


def notes(name: str) -> tuple[Note, ...]:
    """What to write for a name of another language."""
    return (Note(plain(FOREIGN[name])),) if name in FOREIGN else ()


def plain(text: str) -> str:
    """As a message says it: code in quotes, or without if there is nothing else.

    >>> plain("`rotl(x, n)`"), plain("`(half)x` converts")
    ('rotl(x, n)', "'(half)x' converts")
    """
    alone = text.count("`") == 2 and text[0] == text[-1] == "`"
    return text.strip("`") if alone else text.replace("`", "'")
