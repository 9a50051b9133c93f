"""Wrong input: a located message, exit code 1, no output file, never a traceback."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command import tritonc

KERNEL = "kernel void f(float* x, float* y, int n) {{\n  int r[64] = get_global_range(0);\n{}\n}}\n"
BODIES: dict[str, tuple[str, str]] = {
    "unknown name": ("  *(y + r) = z;", "3:14: error: .*'z'"),
    "misspelt name": ("  int length = n;\n  *(y + r) = lenght;", "4:14: error: .*'length'"),
    "shape mismatch": ("  float a[64] = 0; float b[32] = 0;\n  a + b;", "4:.: error: .*64.*32"),
    "inner extents of a dot": ("  float a[64, 16] = 0; float b[32, 64] = 0;\n  dot(a, b);",
                               "4:.*: error: .*16"),
    "missing semicolon": ("  int a = 1\n  int b = 2;", r"(3:12|4:3): error: .*;"),
    "missing brace": ("  if (n) {", r"\d+:\d+: error: "),
    "store through const": ("  const float* c = x; *c = 1;", "3:.*: error: "),
    "scalar from a tile": ("  int a = r;", "3:.*: error: .*64"),
    "tile as a loop condition": ("  while (r < n) ;", "3:.*: error: .*(any|all)"),
    "break under a tile predicate": ("  for (;;) { if (r < n) break; }", "3:.*: error: .*break"),
    "float as a condition": ("  if (1.5f) ;", "3:.*: error: "),
    "unknown builtin": ("  frobnicate(r);", "3:3: error: .*'frobnicate'"),
    "wrong count of arguments": ("  exp(1.0f, 2.0f);", "3:.*: error: .*exp"),
    "dereference of an integer": ("  *n = 1;", "3:.*: error: .*pointer"),
    "extent that is no constant": ("  float a[n];", "3:.*: error: .*constant"),
    "element of a tile": ("  float a[64] = 0; a[3];", "3:.*: error: "),
    "goto": ("  goto end;", "3:.*: error: .*goto"),
    "unterminated string": ('  printf("abc);', "3:10: error: "),
    "static assertion": ('  static_assert(1 > 2, "no");', "3:.*: error: .*no"),
    "division of a constant by zero": ("  float a[1 / 0];", "3:.*: warning: .*by zero"),
    "assignment to a constant": ("  const int a = 1; a = 2;", "3:.*: error: .*'a'"),
    "redefinition": ("  int a = 1; int a = 2;", "3:18: error: .*'a'"),
}
SOURCES: dict[str, tuple[bytes, str]] = {
    "recursive function": (b"int g(int a) { return g(a - 1); }\n"
                           b"kernel void f(int* y) { *y = g(3); }\n", "error: .*recurs"),
    "tunable without a value": (b"const tunable int T;\nkernel void f(int* y)"
                                b" { int r[T] = 0; }\n", "1:19: error: .*--tune T="),
    "unterminated comment": (b"int a;\n/* no end", "2:1: error: .*comment"),
    "binary garbage": (bytes(range(256)), "2:118: error: byte 0x80"),
    "null characters": (b"kernel void f() {\0}\n", "1:18: error: "),
    "nothing at all": (b"", "error: .*kernel"),
    "missing include": (b'#include "no-such.h"\n', "1:10: error: .*'no-such.h'"),
    "error directive": (b"#error stop here\n", "1:.: error: .*stop here"),
    "unbalanced conditional": (b"#if 1\nint a;\n", "1:.: error: .*#if"),
    "file-scope variable": (b"int a;\nkernel void f() {}\n", "1:.*: error: "),
    "union": (b"union s { int a; };\n", "1:.*: error: .*union"),
    "deep nesting": (b"kernel void f(int* y) { *y = " + b"(" * 100_000 + b";}\n", "1:.*: error: "),
    "long chain of operators": (b"kernel void f(int* y) { *y = 1" + b"+1" * 30_000, "error: "),
}


def check(text: bytes, pattern: str, directory: Path) -> None:
    source, output = directory / "wrong.tc", directory / "out.ptx"
    source.write_bytes(text)
    output.write_text("of an earlier run")
    done = tritonc(str(source), "-o", str(output))
    assert done.code == 1, done
    assert re.search(pattern, done.err), done.err[:3000]
    assert f"{source}:" in done.err and "Traceback" not in done.err
    assert not output.exists() and not done.out


@pytest.mark.parametrize("name", BODIES)
def test_wrong_bodies(name: str, tmp_path: Path) -> None:
    body, pattern = BODIES[name]
    check(KERNEL.format(body).encode(), pattern, tmp_path)


@pytest.mark.parametrize("name", SOURCES)
def test_wrong_sources(name: str, tmp_path: Path) -> None:
    check(*SOURCES[name], tmp_path)


def test_one_mistake_gives_one_message(tmp_path: Path) -> None:
    source = tmp_path / "wrong.tc"
    source.write_text(KERNEL.format("  float a[64] = z * 2 + z;\n  *(y + r) = a + a;"))
    assert tritonc(str(source)).err.count("error:") == 1


def test_several_mistakes_are_reported_in_one_run(tmp_path: Path) -> None:
    source = tmp_path / "wrong.tc"
    source.write_text(KERNEL.format("  q;\n  break;\n  u;"))
    assert tritonc(str(source), "-fsyntax-only").err.count("error:") == 3
