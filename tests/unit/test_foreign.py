"""Names of other languages are answered by what to write here, and that can be written."""

from __future__ import annotations

import re

import pytest
from sema_programs import diagnose

from tritonc.frontend.foreign import FOREIGN, VOCABULARY, plain
from tritonc.frontend.parser_words import FOREIGN_WORDS, UNSUPPORTED_WORDS
from tritonc.sema.builtins.table import find, names

# Names of functions that a replacement calls.
_CALL = re.compile(r"\b([a-z_]\w*)\(")
_WORDS = {"for", "if", "half", "int", "float", "bfloat16", "bitcast"}


@pytest.mark.parametrize("name", sorted(FOREIGN))
def test_a_foreign_name_says_what_to_write(name: str) -> None:
    assert find(name) is None, "it is a function of the language"
    assert name not in FOREIGN_WORDS and name not in UNSUPPORTED_WORDS
    (found, *_) = diagnose(f"kernel void k(float* p) {{ {name}(p); }}")
    assert found.name in ("undeclared-name", "syntax-error")
    if found.name == "undeclared-name":
        assert [n.message for n in found.notes] == [plain(FOREIGN[name])]
        assert found.suggestion is None


@pytest.mark.parametrize("name", sorted(FOREIGN))
def test_what_it_says_exists(name: str) -> None:
    called = {c for code in re.findall("`([^`]*)`", FOREIGN[name]) for c in _CALL.findall(code)}
    assert called - _WORDS <= set(names())


def test_a_name_stands_in_one_table() -> None:
    assert sum(map(len, VOCABULARY.values())) == len(FOREIGN)


def test_a_module_of_python_is_named() -> None:
    (found, *_) = diagnose("kernel void k(float* p) { *p = tl.sum(v, 1); }")
    assert any("in the place of tl.sum: 'v[:, +]', or" in n.message for n in found.notes)
    (found, *_) = diagnose("kernel void k(float* p) { *p = tl.exp(1.0f); }")
    assert any("functions have no prefix here: exp(...)" in n.message for n in found.notes)
    (found, *_) = diagnose("kernel void k(float* p) { *p = tl.load(p); }")
    assert any("in the place of tl.load: '*p' loads" in n.message for n in found.notes)
