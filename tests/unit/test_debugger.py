"""`tritonc debug`: where it stops, and what it shows there."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import Finished, tritonc

SOURCE = """\
//! size: N = 40
//! range: N
//! arg: x = arange(N)
//! arg: y = zeros(N)
//! arg: N = N
//! expect: y = x * 2 + 9

struct pair { float a; unsigned char b; };

float twice(float v) {
  float w = v + v;
  return w;
}

kernel void f(const float* x, float* y, int N) {
  int r[16] = get_global_range(0);
  bool inside[16] = r < N;
  float v[16] = inside ? *(x + r) : 0;
  float w[16];
  struct pair q = {1, 200};
  float s = 0;
  for (int i = 0; i < 3; i++) {
    s += twice(i);
    q.a += s;
  }
  @inside {
    w = 2 * v + q.a;
    *(y + r) = w;
  }
}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    source = tmp_path / "f.tc"
    source.write_text(SOURCE, encoding="utf-8")
    return source


def session(path: Path, *commands: str) -> tuple[list[str], Finished]:
    """What the debugger answers to each command, and how it ended."""
    done = tritonc("debug", str(path), stdin="\n".join(commands).encode())
    parts = done.out.split("(tritonc) ")[1:]
    return [part.partition("\n")[2].strip() for part in parts], done


def test_steps_go_into_functions_over_them_and_out(path: Path) -> None:
    found, _ = session(path, "b 23", "c", "s", "where", "up", "p i", "finish", "n", "n", "bt")
    assert found[1].endswith("->   23      s += twice(i);")
    assert found[2] == "->   11    float w = v + v;"
    assert found[3] == "-> twice, line 11\n   f, line 23"
    assert found[5] == "0"
    assert found[6] == "->   24      q.a += s;"
    assert found[7] == "breakpoint 1\n->   23      s += twice(i);"
    assert found[8] == "->   24      q.a += s;"


def test_values_of_every_kind(path: Path) -> None:
    found, _ = session(path, "b 28 at 2", "c", "p r[0:3]", "p w[6:10]", "p q.a", "p q.b",
                       "p *y[0:2]", "p *(y)", "p inside[7:9]", "p *x[38:42]", "type w", "predicate")
    assert "instance (2)" in found[1]
    assert found[2:6] == ["[32 33 34]", "[85 87  ?  ?]", "9", "200"]
    assert found[6] == "[ 9 11]"
    assert "is not a variable" in found[7]
    assert found[8] == "[ true false]"
    assert found[9] == "[38 39  ?  ?]"
    assert found[10] == "float[16]"
    assert found[11].split().count("true") == 8


def test_watches_and_breakpoints(path: Path) -> None:
    found, done = session(path, "b 22", "c", "watch s", "c", "delete", "b twice", "breakpoints",
                          "c", "d 9", "d", "c")
    assert found[3].startswith("watch 2: s was 0, is 2")
    assert found[6] == "3: function twice"
    assert found[8] == "there is no breakpoint or watch 9"
    assert done.out.endswith("f N=40: ok (interpreter)\n") and done.code == 0


def test_instances(path: Path) -> None:
    found, _ = session(path, "instance 2", "instance", "p x", "i 7", "next", "locals")
    assert "instance (2)" in found[0] and found[1] == "(2)" and found[2] == "x + 0"
    assert found[3] == "'7' is not an instance of the grid (3)"
    assert found[5].splitlines()[0].startswith("int[16] r = [32 33")


def test_what_held_at_an_error_can_be_seen(path: Path) -> None:
    path.write_text(SOURCE.replace("@inside {", "{"), encoding="utf-8")
    found, done = session(path, "c", "p r[8]", "where", "c")
    assert "out of bounds" in done.err or "undefined" in done.err
    assert found[1] == "40" and found[2] == "-> f, line 28" and found[3] == "the program has ended"
    assert done.code == 1


@pytest.mark.parametrize(("command", "answer"), [
    ("bogus", "there is no command 'bogus'; help lists them"),
    ("b 900", "there is no statement at line 900 or after it"),
    ("b nothing", "'nothing' is neither a line nor a function of this kernel"),
    ("p nothing", "there is no variable 'nothing' here"),
    ("p N[", "'[' is not a subscript"),
    ("p N[0]", "'N[0]': too many indices"),
    ("p N[x]", "'N[x]': 'x' is neither a number nor FIRST:END"),
    ("p *N", "'*N': int is not a pointer"),
    ("p *y[0:]", "memory has no end"),
    ("list x", "'x' is not a line"),
    ("p", "'' is not a variable"),
    ("up", "this is the kernel"),
    ("down", "this is where the program is"),
])
def test_wrong_commands_are_answered(path: Path, command: str, answer: str) -> None:
    found, done = session(path, command, "quit")
    assert answer in found[0] and done.code == 0 and not done.err


def test_wrong_command_lines(path: Path, tmp_path: Path) -> None:
    assert tritonc("debug", str(path), "-x", str(tmp_path / "none")).code == 1
    (tmp_path / "k.tir").write_text("", encoding="utf-8")
    assert tritonc("debug", str(tmp_path / "k.tir")).code == 2
    path.write_text("kernel void f() {}", encoding="utf-8")
    assert tritonc("debug", str(path)).code == 1
