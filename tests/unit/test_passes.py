"""The list of passes: its order is checked, its hooks are called, its errors say where."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from rewriting import CONTEXT, parse
from test_opt_passes import COUNT

from tritonc import backend, driver, opt, pass_manager, passes
from tritonc.analysis.axis import axis_info
from tritonc.ir.core import Kernel
from tritonc.ir.syntax.text import print_kernel
from tritonc.options import Options
from tritonc.pass_manager import Hooks, Pass, PassError, check, labels, run
from tritonc.source import CompileError, SourceFile, fail

SAMPLES = Path(__file__).parents[2] / "samples"


def first(kernel: Kernel, context: Any) -> bool:
    return True


def second(kernel: Kernel, context: Any) -> bool:
    return False


def broken(kernel: Kernel, context: Any) -> bool:
    raise KeyError("oops")


def refusing(kernel: Kernel, context: Any) -> bool:
    raise fail("no-kernel", None, "not this one")


FIRST, SECOND = Pass("first", first, "it begins"), Pass("second", second, "it follows")
AGAIN = Pass("first", first, "Again: second made something")


def test_doctests() -> None:
    result = doctest.testmod(pass_manager)
    assert result.attempted and not result.failed


def test_labels_count_the_runs() -> None:
    assert labels([FIRST, SECOND, AGAIN]) == ["first", "second", "first.2"]


def test_the_lists_keep_their_order() -> None:
    check([*passes.OPT, *passes.BACKEND], passes.order())


def test_order_is_checked() -> None:
    check([FIRST, SECOND], [("first", "second", "why not")])
    with pytest.raises(ValueError, match="first must come before second: why not"):
        check([SECOND, FIRST], [("first", "second", "why not")])
    with pytest.raises(ValueError, match="no pass 'third'"):
        check([FIRST], [("first", "third", "why not")])
    with pytest.raises(ValueError, match="runs twice for one reason"):
        check([FIRST, FIRST], [])


def test_hooks_see_each_run() -> None:
    seen: list[Any] = []
    hooks = Hooks(before=lambda label, k: seen.append(("before", label)),
                  after=lambda label, k, changed: seen.append(("after", label, changed)),
                  verify=lambda k, context: seen.append("verify"))
    assert run(parse(COUNT), CONTEXT, [FIRST, SECOND], hooks=hooks)
    assert seen == [("before", "first"), "verify", ("after", "first", True),
                    ("before", "second"), ("after", "second", False)]
    assert list(hooks.seconds) == ["first", "second"]


@pytest.mark.parametrize("name, arch", [
    ("attention_causal", "sm_90a"), ("matmul", "sm_80"), ("row_sum", "sm_75"),
])
def test_passes_say_truly_that_they_changed_nothing(name: str, arch: str,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    """What --verify-each and the tests of the backend rely on."""
    quiet = []

    def run_watched(kernel: Kernel, context: Any, rows: list[Pass], **settings: Any) -> bool:
        text = print_kernel(kernel)

        def after(label: str, kernel: Kernel, changed: bool) -> None:
            nonlocal text
            before, text = text, print_kernel(kernel)
            assert changed or before == text, label
            quiet.extend([] if changed else [label])

        settings["hooks"].after = after
        return run(kernel, context, rows, **settings)

    monkeypatch.setattr(pass_manager, "run", run_watched)
    text = (SAMPLES / f"{name}.tc").read_text(encoding="utf-8")
    driver.compile(SourceFile(f"{name}.tc", text), Options(arch=arch), ("manifest",))
    assert quiet


def test_stop_after_a_run() -> None:
    hooks = Hooks(stop_after="first.2")
    assert not run(parse(COUNT), CONTEXT, [FIRST, SECOND, AGAIN, SECOND], hooks=hooks)
    assert list(hooks.seconds) == ["first", "second", "first.2"]


def test_levels() -> None:
    hooks = Hooks()
    rows = [FIRST._replace(level=0), SECOND._replace(level=2)]
    assert run(parse(COUNT), CONTEXT, rows, level=1, hooks=hooks)
    assert list(hooks.seconds) == ["first"]


def test_a_bug_names_the_pass_and_the_kernel() -> None:
    with pytest.raises(PassError, match="pass 'broken' failed on kernel 'k': KeyError") as error:
        run(parse(COUNT), CONTEXT, [FIRST, Pass("broken", broken, "to fail")])
    assert isinstance(error.value.__cause__, KeyError)


def test_a_mistake_of_the_program_is_no_bug() -> None:
    with pytest.raises(CompileError, match="not this one"):
        run(parse(COUNT), CONTEXT, [Pass("refusing", refusing, "to refuse")])


def pass_files(package: Any) -> list[str]:
    """Files of a package that hold a function of their own name with a kernel and a context."""
    found = []
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        loaded = importlib.import_module(module.name)
        name = module.name.rpartition(".")[2]
        function = getattr(loaded, name, None)
        if callable(function) and list(function.__annotations__)[:2] == ["kernel", "context"]:
            found.append(name)
    return found


@pytest.mark.parametrize("package,listed", [(opt, passes.OPT), (backend, passes.BACKEND)])
def test_each_pass_is_listed_and_explained(package: Any, listed: list[Pass]) -> None:
    names = {row.name for row in [*passes.OPT, *passes.BACKEND]}
    files = pass_files(package)
    assert files and set(files) <= names
    for row in listed:
        module = importlib.import_module(row.function.__module__)
        assert module.__doc__ and getattr(module, row.name).__doc__, row.name
        if package is opt:
            shown = "->" in module.__doc__ or "Before:" in module.__doc__
            assert shown, f"{row.name}: a before and after in its docstring"


@pytest.mark.parametrize("name", ["histogram", "layer_norm", "matmul_bf16", "selective_scan"])
@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
def test_passes_need_the_operations_that_their_rows_name(
        name: str, arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a kernel has none of them, the pass does nothing."""
    idle: set[str] = set()

    def checked(row: Pass) -> Pass:
        def function(kernel: Kernel, context: Any) -> bool:
            if not ({op.name for op in kernel.ops()} | context.meta.keys()).isdisjoint(row.only):
                return row.function(kernel, context)
            before = print_kernel(kernel)
            assert not row.function(kernel, context) and print_kernel(kernel) == before, row.name
            idle.add(row.name)
            return False
        return row._replace(only=(), function=function) if row.only else row

    for part in ("OPT", "BACKEND"):
        monkeypatch.setattr(passes, part, [*map(checked, getattr(passes, part))])
    text = (SAMPLES / f"{name}.tc").read_text()
    driver.compile(SourceFile(name, text), Options(arch=arch), ["ll"])
    assert idle


def test_passes_look_before_they_analyse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Axis information of a kernel takes a millisecond, and few passes find something to do.  Of
    two bodies and the candidates of the cost model; 25 where all passes analyse first."""
    solved: list[str] = []

    def given(kernel: Kernel) -> axis_info.Infos:
        solved.append(kernel.name)
        return real(kernel)

    real = axis_info._given
    monkeypatch.setattr(axis_info, "_given", given)
    text = (SAMPLES / "matmul.tc").read_text()
    driver.compile(SourceFile("matmul", text), Options(arch="sm_80"), ["ll"])
    assert 0 < len(solved) <= 18


def test_speed() -> None:
    """Far from the limit of 30 ms, even on a busy machine."""
    from random_kernels import RandomKernel

    kernel = RandomKernel(5).kernel
    count = sum(1 for _ in kernel.ops())
    best = 1e9
    for _ in range(3):
        kernel = RandomKernel(5).kernel
        started = process_time()
        run(kernel, CONTEXT, passes.OPT)
        best = min(best, process_time() - started)
    assert best < 0.030 * max(count, 150) / 150
