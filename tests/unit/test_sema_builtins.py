"""The table of builtin functions is complete, and its rows are right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sema_programs import diagnose, kernel_of

from tritonc.ir.ops import OPS
from tritonc.sema.builtins.table import BUILTINS, PURE, Builtin, find, names
from tritonc.sema.operations.choices import speculatable

# Every name by which public programs and docs/language.md call a builtin.
KNOWN = """
  get_global_range get_program_id get_range_id get_num_programs get_num_program
  min max abs select clamp fma exp exp2 log log2 sqrt sqrtf rsqrt sin cos tanh erf floor ceil round
  trunc sum prod any all argmax argmin __sum cumsum cumprod scan dot trans reshape __reshape
  broadcast permute atomic_add atomic_max atomic_min atomic_and atomic_or atomic_xor atomic_xchg
  atomic_cas __atomic_add __atomic_max __atomic_min __atomic_and __atomic_or __atomic_xor
  __atomic_xchg __atomic_exch __atomic_cas f32_atomic_add atomic_add_float_1x1
  atomic_add_half_64x32 __debug_barrier assume multiple_of assert printf
""".split()


@pytest.mark.parametrize("name", KNOWN)
def test_known_names_are_found(name: str) -> None:
    assert find(name) is not None


def test_other_names_are_not_found() -> None:
    for name in ("expo", "atomic_sub", "atomic_add_float", "atomic_add_1x1", "Exp", ""):
        assert find(name) is None


def test_spellings_are_distinct() -> None:
    assert len(names()) == len(set(names()))


@pytest.mark.parametrize("row", BUILTINS, ids=lambda row: row.name)
def test_rows_are_written_out(row: Builtin) -> None:
    assert row.doc.endswith(".") and row.doc[0] != " "
    assert re.fullmatch(r"\w+(\[T\])?\([\w, .]*\)", row.signature), row.signature
    assert row.signature.startswith(row.name)
    assert row.most is None or row.least <= row.most
    stated = [p for p in row.signature.partition("(")[2].rstrip(")").split(", ") if p]
    assert len(stated) >= row.least


@pytest.mark.parametrize("row", BUILTINS, ids=lambda row: row.name)
def test_the_tests_call_every_builtin(row: Builtin) -> None:
    texts = [path.read_text(encoding="utf-8")
             for path in sorted(Path(__file__).parent.glob("test_sema_*.py"))]
    texts += [path.read_text(encoding="utf-8") for path in sorted(
        (Path(__file__).parents[1] / "run" / "language").glob("*.tc"))]
    math = [f'"{row.name}"' in text for text in texts]  # the parametrised test of math
    spellings = "|".join((row.name, *row.spellings))
    calls = re.compile(rf"\b({spellings})(\[\w+\])?\(")
    assert any(calls.search(text) for text in texts) or any(math)


@pytest.mark.parametrize("row", BUILTINS, ids=lambda row: row.name)
def test_wrong_counts_of_arguments_are_reported(row: Builtin) -> None:
    counts = [row.least - 1] if row.least else []
    if row.most is not None:
        counts.append(row.most + 1)
    for count in counts:
        arguments = ", ".join(["1"] * count)
        found = diagnose(f"kernel void k(int* p) {{ {row.name}({arguments}); }}")
        assert "call-arguments" in [d.name for d in found], count


def test_pure_builtins_make_no_effects() -> None:
    """A call that a predicate need not guard makes only operations that may run anywhere."""
    calls = {"get_global_range": "get_global_range[4](0)", "get_program_id": "get_program_id(0)",
             "get_num_programs": "get_num_programs(0)", "select": "select(n, 1, 2)",
             "dot": "dot(m, m)", "reshape": "reshape(x, 2, 2)", "broadcast": "broadcast(x, 2, 4)",
             "permute": "permute(x, 0)", "multiple_of": "multiple_of(n, 2)",
             "scan": "scan(x, 0)", "reduce": "reduce(x, 0, max)", "flip": "flip(x, 0)",
             "cat": "cat(x, x, 0)", "sort": "sort(x, 0)", "gather": "gather(x, 0 ... 3, 0)",
             "split": "split(m)", "topk": "topk(x, 2, 0)", "histogram": "histogram(0 ... 4, 3)",
             "clamp": "clamp(x, 0, 1)", "fma": "fma(x, x, x)",
             "any": "any(x > 0)", "all": "all(x > 0)", "min": "min(x, 1)", "max": "max(x, 1)"}
    for row in BUILTINS:
        assert not row.divides or row.name not in PURE
        if row.effects:
            assert row.name not in PURE
            continue
        function = getattr(row.lower, "func", row.lower)  # of a partial one
        integers = function.__module__.endswith("builtins.bits")
        arguments = ["n" if integers or (row.name, at) == ("ldexp", 1) else "x"
                     for at in range(row.least)]
        call = calls.get(row.name, f"{row.name}({', '.join(arguments)})")
        kernel = kernel_of(f"""kernel void k(int* p, int n) {{
          float x[4] = 0 ... 4; float m[2, 2] = n; {call}; }}""")
        assert all(OPS[op.name].pure or op.name in ("ret", "br", "cond_br")
                   for op in kernel.ops()), row.name
        assert row.divides or all(
            speculatable(op) for op in kernel.ops() if OPS[op.name].may_trap), row.name
