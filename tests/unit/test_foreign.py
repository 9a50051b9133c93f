"""Names of other languages are answered by what to write here, and that can be written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sema_programs import diagnose

from tritonc.frontend.foreign import FOREIGN, FOREIGN_TYPES, UNSUPPORTED_WORDS, VOCABULARY, plain
from tritonc.sema.builtins.table import find, names

# Names of functions that a replacement calls.
_CALL = re.compile(r"\b([a-z_]\w*)\(")
_WORDS = {"for", "if", "half", "int", "float", "bfloat16", "bitcast"}


@pytest.mark.parametrize("name", sorted(FOREIGN))
def test_a_foreign_name_says_what_to_write(name: str) -> None:
    assert find(name) is None, "it is a function of the language"
    assert name not in FOREIGN_TYPES and name not in UNSUPPORTED_WORDS
    (found, *_) = diagnose(f"kernel void k(float* p) {{ {name}(p); }}")
    assert found.name in ("undeclared-name", "syntax-error")
    if found.name == "undeclared-name":
        assert [n.message.removeprefix("write ").replace("leave it out", "nothing", 1)
                for n in found.notes] == [plain(FOREIGN[name])]
        assert found.suggestion is None


@pytest.mark.parametrize("name", sorted(FOREIGN))
def test_what_it_says_exists(name: str) -> None:
    called = {c for code in re.findall("`([^`]*)`", FOREIGN[name]) for c in _CALL.findall(code)}
    assert called - _WORDS <= set(names())


def test_a_note_is_a_sentence() -> None:
    for name, text in (("__sinf", "write sin(x)"), ("curand_init", "leave it out: 'rand("),
                       ("tl.load", "'*p' loads, and so does")):
        (found, *_) = diagnose(f"kernel void k(float* p) {{ {name}(p); }}")
        assert any(text in note.message for note in found.notes), found


def test_a_name_stands_in_one_table() -> None:
    assert sum(map(len, VOCABULARY.values())) == len(FOREIGN)


def test_a_module_of_python_is_named() -> None:
    (found, *_) = diagnose("kernel void k(float* p) { *p = tl.sum(v, 1); }")
    assert any("in the place of tl.sum: 'v[:, +]', or" in n.message for n in found.notes)
    (found, *_) = diagnose("kernel void k(float* p) { *p = tl.exp(1.0f); }")
    assert any("functions have no prefix here: exp(...)" in n.message for n in found.notes)
    (found, *_) = diagnose("kernel void k(float* p) { *p = tl.load(p); }")
    assert any("in the place of tl.load: '*p' loads" in n.message for n in found.notes)


AROUND = """const tunable int T = {{64, 128}};
const int TM = 16, TN = 32;
kernel void around(float* x, float* y, int n, int s) {{
  int r[T] = get_global_range(0), rm[TM] = 0 ... TM, rn[TN] = 0 ... TN;
  float v[T] = 0, a[TM, TM] = 0, b[TM, TM] = 0, acc[TM, TM] = 0;
  bool c[TM, TM] = a < b, m[T] = r < n;
  float* p[T] = x + r;
  {{ {} }}
}}
"""


def test_the_first_table_compiles() -> None:
    """What the page sets beside Triton and CUDA, in a kernel that has the names."""
    page = (Path(__file__).parents[2] / "docs" / "coming_from.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `.*\|.*\| (.*) \|$", page.partition("## Triton")[0], re.MULTILINE)
    pieces = [code for row in rows for code in re.findall("`([^`]*)`", row)]
    assert len(pieces) >= 12
    for code in pieces:
        if code.startswith("kernel "):
            text = code + " { x[0] = n; }"
        elif code.startswith("const tunable"):
            text = code + " kernel void f(int* x) { *x = T; }"
        else:
            text = AROUND.format(code if code.endswith(";") else f"auto found = {code};")
        assert [d for d in diagnose(text) if d.severity == "error"] == [], code
