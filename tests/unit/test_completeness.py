"""What is declared in one place is used, and what is used is declared."""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import tritonc
from tritonc.cli.option_table import COMMANDS, TABLE, canonical, rows
from tritonc.diagnostics import DIAGNOSTICS
from tritonc.meta_parameters import META_PARAMETERS
from tritonc.options import Options
from tritonc.passes import BACKEND

PACKAGE = Path(tritonc.__file__).parent
# Calls whose first argument is the name of a diagnostic.
_REPORTING = {"error", "warning", "fail", "Diagnostic", "_error", "BadAccess"}


@cache
def read() -> tuple[set[str], dict[str, str]]:
    """Every string literal of the package, and of the simulator beside the tests, but those of the
    table itself; and the literal names that reporting calls give, with where."""
    constants: set[str] = set()
    found: dict[str, str] = {}
    simulator = Path(__file__).parents[1] / "simulator"
    for path in sorted([*PACKAGE.rglob("*.py"), *simulator.glob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and (
                    path.name != "diagnostics.py"):
                constants.add(node.value)
            if not isinstance(node, ast.Call) or not node.args:
                continue
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(
                function, "id", "")
            first = node.args[0]
            choices = [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]
            for choice in choices:
                if name in _REPORTING and isinstance(choice, ast.Constant) and isinstance(
                        choice.value, str) and " " not in choice.value:
                    found[choice.value] = f"{path.name}:{node.lineno}"
    return constants, found


def test_reported_diagnostics_are_declared() -> None:
    _, found = read()
    assert found
    assert {name: place for name, place in found.items() if name not in DIAGNOSTICS} == {}


def test_declared_diagnostics_are_reported() -> None:
    assert sorted(set(DIAGNOSTICS) - read()[0]) == []


@pytest.mark.parametrize("name", DIAGNOSTICS)
def test_diagnostics_are_explained(name: str) -> None:
    row = DIAGNOSTICS[name]
    assert row.severity in ("error", "warning", "remark")
    assert row.explanation.endswith(".") and len(row.explanation) > 20
    assert name == name.lower() and " " not in name and "_" not in name


def test_options_are_spelt_once_for_each_command() -> None:
    for command in COMMANDS:
        spellings = [flag for row in rows(command) for flag in (*row.flags, *row.off)]
        assert len(spellings) == len(set(spellings))
        assert all(row.help.endswith(".") for row in rows(command))


def test_settings_of_a_compilation_can_be_given() -> None:
    """Each field of Options is set by a row, and a row of the command line alone by none.
    The others are set by the command, `tritonc debug` and who launches."""
    set_by_rows = {row.name for row in TABLE}
    assert {name for name in Options.__dataclass_fields__
            if name not in set_by_rows} == {
                "alone", "stops", "small_clusters"}


def test_canonical_spellings_are_long() -> None:
    for row in TABLE:
        if not row.stores:
            assert canonical(row).startswith("--")


# Operations that passes replace before emission, each with the pass that does so.
REPLACED = {"channel": "stage_dots", "dot": "stage_dots",
            "gather": "lower_conversions",
            "get_global_range": "expand_range", "take": "lower_take",
            "histogram": "lower_conversions"}


def test_every_operation_can_be_emitted() -> None:
    from tritonc.backend.emit import PARTS
    from tritonc.backend.target.machine_ops import ALL_OPS
    from tritonc.passes import BACKEND, OPT

    passes = {row.name for row in (*OPT, *BACKEND)}
    assert set(REPLACED.values()) <= passes
    emitted = [name for part in PARTS
               for name in import_module(f"tritonc.backend.emit.{part}").EMITTERS]
    assert sorted([*emitted, *REPLACED]) == sorted(ALL_OPS)


def test_meta_parameters_are_read_by_their_passes() -> None:
    """Each row by a pass, and no pass reads one that has no row."""
    read = re.compile(r'meta(?:\.get\(|\[)"(\w+)"')
    found = {name for path in (PACKAGE / "backend").rglob("*.py")
             for name in read.findall(path.read_text(encoding="utf-8"))}
    assert found == {row.name for row in META_PARAMETERS}
    assert {row.owner for row in META_PARAMETERS} <= {row.name for row in BACKEND}
    earlier: set[str] = set()
    for row in META_PARAMETERS:
        assert {name for name, _ in row.unless} <= earlier
        earlier.add(row.name)
        assert set(row.values) <= set(row.legal) and row.doc.endswith(".")


def test_facts_that_meta_parameters_need_can_be_found() -> None:
    text = (PACKAGE / "tune" / "search" / "space.py").read_text(encoding="utf-8")
    for row in META_PARAMETERS:
        assert all(f'"{need}"' in text for need in row.needs)
