"""Values that hundreds of operations compute one after the other, and loops that write them out."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from tritonc import driver
from tritonc.backend.memory import keep_rows
from tritonc.ir.cfg import Cfg
from tritonc.opt import convert_if, simplify_cfg
from tritonc.opt.loops import unify_exits
from tritonc.options import Options
from tritonc.source import CompileError, SourceFile


def test_a_long_chain_beside_many_tiles() -> None:
    """Passes that look through values have room for it, also where registers are few."""
    tiles = "".join(f"  int q{i}[4096] = x[{i} * 4096 + r];\n" for i in range(24))
    steps = "".join(f"  v = v * 3 ^ (v >> 1); w += v & q{i % 24};\n" for i in range(300))
    total = " + ".join(f"q{i}" for i in range(24))
    text = (f"kernel void f(const int* x, int* y) {{\n  int r[4096] = 0 ... 4096;\n{tiles}"
            f"  int v[4096] = r, w[4096] = 0;\n{steps}  y[v & 1023] = w + {total};\n}}\n")
    driver.compile(SourceFile("long.tc", text), Options(arch="sm_90a", warnings=("no-all",)),
                   ("tir",))


def test_static_loops_inside_each_other() -> None:
    text = """kernel void f(float* x) {
  static for (int i = 0; i < 1000; i++)
    static for (int j = 0; j < 1000; j++) x[i] = j;
}
"""
    with pytest.raises(CompileError, match="8192 together"):
        driver.compile(SourceFile("loops.tc", text), Options(), ("tir",))


def test_many_loops_inside_each_other() -> None:
    """A pass that goes from loop to loop asks where they are once, until it changes one."""
    text = f"kernel void f(int* x, int n) {{ {'for (int i = 0; i < n; i++) ' * 64} *x = 1; }}"
    with patch.object(unify_exits, "Cfg", side_effect=Cfg) as asked:
        driver.compile(SourceFile("loops.tc", text), Options(warnings=("no-all",)), ("tir",))
    assert asked.call_count == 1


def test_many_branches_and_loops_one_after_the_other() -> None:
    """Passes that change them walk over all with one graph."""
    branches = "".join(f"if (n > {i}) n += {i}; if (n == {i}) return; n *= 3;" for i in range(12))
    loops = "".join(f"for (int i = 0; i < n; i++) v += x[r + i * {k}];" for k in range(3))
    text = (f"kernel void f(float* x, int n) {{ int r[64] = 0 ... 64; float v[64] = 0; {branches}"
            f"{loops} x[r] = v; }}")
    with patch.object(convert_if, "Cfg", side_effect=Cfg) as converted, \
            patch.object(simplify_cfg, "Cfg", side_effect=Cfg) as simplified, \
            patch.object(keep_rows, "uses", side_effect=keep_rows.uses) as asked:
        driver.compile(SourceFile("many.tc", text), Options(warnings=("no-all",)), ("manifest",))
    assert converted.call_count < 6 and simplified.call_count < 12 and asked.call_count == 1
