"""`tritonc FILE -o OUT`: which outputs are asked for, compiling, writing them all or none."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from tritonc import driver, outputs, stages
from tritonc.cli import console, output_plan
from tritonc.cli.option_table import MESSAGES
from tritonc.ir.context import Remark
from tritonc.later import LaterModule, whole_later
from tritonc.launch.hosts.products import Settings, kinds_to_compile, make, programs_for
from tritonc.options import Options
from tritonc.outputs import STANDARD, as_bytes
from tritonc.source import CompileError, fail
from tritonc.spelling import hint
from tritonc.tune.tuning_file import with_tuning_file

decisions = LaterModule("tritonc.cli.decisions")


def compile_command(files: tuple[str, ...], **given: Any) -> int:
    """`tritonc FILE -o OUT`: the exit code.  `given` has the parameters by name."""
    whole_later("lark")  # whose own code imports parsers of other kinds
    messages = console.Messages(given)
    path = console.only_file(files)
    kinds = output_plan.kinds_of(given)
    arch, *others = (given["arch"] or "").split(",")
    embeds = given["embed"] == "fatbin" or (given["embed"] is None and "fatbin" in kinds)
    if others and ({*kinds} - {"fatbin", "header", "torch"}
                   or ({"header", "torch"} & {*kinds} and not embeds)):
        raise click.UsageError("several targets go into a fatbin: --emit=fatbin, or --header or "
                               "--emit=torch with --embed=fatbin")
    given["arch"] = given["arch"] and arch
    for name, flag in _NEED_RULE.items():
        if given[name] and given["depend"] is None:
            raise click.UsageError(f"{flag} needs -MD or -M")
    targets = output_plan.targets_of(path, kinds, given)
    for target in (*targets.values(), *(given[name] or "" for name, _ in _WRITTEN)):
        if outputs.same_file(target, path):
            raise click.UsageError(f"the output '{target}' is the source itself")
    output_plan.check_suffix(given)
    for name, flag in _WRITTEN:
        if given[name] not in (None, STANDARD) and given[name] in targets.values():
            raise click.UsageError(f"{flag} '{given[name]}' is an output too")
    options = with_tuning_file(console.options_from(given), path)
    for name in others:
        console.check_settings(replace(options, arch=name))
    _check_passes(options)
    if options.start_after and console.language_of(path, given) != "tir":
        raise click.UsageError("--start-after continues with a .tir file, not with a source")
    if given["dry_run"]:
        programs = programs_for([*targets], given["embed"], given["ptxas"])
        written = [f"{target} ({kind})" for kind, target in targets.items()]
        more = (output_plan.rule_file(path, targets, given), given["remarks"], given["time_trace"])
        written += [name for name in more if name not in (None, MESSAGES)]
        click.echo("\n".join(decisions.plan(path, written, options, others, programs)))
        return console.SUCCESS
    inputs = [options.tuning] if options.tuning else []  # as they are read

    try:
        return _compile(path, targets, options, others, given, messages, inputs)
    except CompileError:
        outputs.remove(targets.values(), inputs)
        raise


_WRITTEN = (("depend_file", "-MF"), ("remarks", "--remarks"), ("time_trace", "-ftime-trace"))
_NEED_RULE = {"depend_file": "-MF", "depend_targets": "-MT", "depend_quoted": "-MQ",
              "depend_phony": "-MP"}  # fmt: skip


def _check_passes(options: Options) -> None:
    single = (options.stop_after, options.start_after)
    named = [*options.print_after, *options.print_before, *(name or "" for name in single)]
    if not any(named):
        return
    known = driver.pass_names()
    for name in named:
        if name and name not in known and (name != "all" or name in single):
            raise click.UsageError(f"there is no pass '{name}'; "
                                   + hint(name, known, "--list-passes lists them"))


def _compile(path: str, targets: Mapping[str, str], options: Options, others: Sequence[str],
             given: Mapping[str, Any], messages: console.Messages, inputs: list[str]) -> int:
    def read_file(included: str) -> bytes:
        from tritonc.frontend.preprocess import read_bytes  # --help starts without it

        inputs.append(included)
        return read_bytes(included)

    source, diagnostics = console.read_source(path, options)
    options = replace(console.native(options), alone=True)
    if others:  # one launch for all targets
        one = {"cluster_k": 1} if options.sizes else {"coarsen": 0}
        options = replace(options, tune={**one, **options.tune})
    wanted = kinds_to_compile([*targets], given["embed"])
    if "torch" in targets or (
            "header" in targets and (given["embed"] or {"ptx", "cubin", "fatbin"} & {*targets})):
        options = replace(options, small_clusters=True)  # whoever launches the image has the header
    if given["depend"] in ("M", "MM"):
        wanted = ["i"]
    result = driver.compile(source, options, wanted, language=console.language_of(path, given),
                            dump=_dump, diagnostics=diagnostics, read_file=read_file)
    shown = (r.diagnostic for r in result.remarks if _is_shown(r, given))
    messages.show([*result.diagnostics, *shown])
    settings = Settings(output_plan.stem_of(path), given["embed"], given["prefix"] or "",
                        given["ptxas"], options.line_info)
    if "torch" in targets:
        from tritonc.launch.run_problems import stated  # it loads NumPy

        problems = stated(result.problem_lines, options, stages.new_diagnostics(options))
        settings = replace(settings, problems=problems)
    more = [driver.compile(source, console.native(replace(options, arch=arch, tune={
        **options.tune, **result.tunables})), wanted, language=console.language_of(path, given),
        alike=result) for arch in others]
    made = make([*targets], result, settings, more)
    files: dict[str, str | bytes] = {}
    for kind, target in targets.items():
        if any(outputs.same_file(target, included) for included in result.dependencies):
            raise fail("cannot-write", None,
                       f"the output '{target}' is a file that the source reads")
        if target != STANDARD:
            files[target] = made[kind]
    if given["remarks"] not in (None, MESSAGES):
        from tritonc.render import render_json  # only where it is needed

        files[given["remarks"]] = render_json(r.diagnostic for r in result.remarks)
    if given["time_trace"]:
        files[given["time_trace"]] = decisions.time_trace(result)
    rule = output_plan.rule_file(path, targets, given)
    if rule is not None and rule != STANDARD:
        files[rule] = output_plan.dependency_rule(path, targets, result, given)
    outputs.write_or_fail(files, given["if_changed"])
    for kind, target in targets.items():
        if target == STANDARD:
            _write_standard(made[kind])
    if rule == STANDARD:
        _write_standard(output_plan.dependency_rule(path, targets, result, given))
    if options.verbose:
        decisions.tell(result, options, given["ptxas"])
    if options.time_report:
        decisions.time_report(result)
    return console.SUCCESS


def _is_shown(remark: Remark, given: Mapping[str, Any]) -> bool:
    """Whether a remark is among the messages: all by --remarks, some by -Rpass."""
    pattern = given["remarks_missed" if remark.missed else "remarks_done"]
    return given["remarks"] == MESSAGES or (
        pattern is not None and pattern.search(remark.pass_name) is not None)


def _write_standard(content: str | bytes) -> None:
    """To standard output as UTF-8 with the lines as they are, whatever the locale."""
    sys.stdout.flush()
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is not None:
        buffer.write(as_bytes(content))
        buffer.flush()
    elif isinstance(content, str):
        sys.stdout.write(content)


def _dump(title: str, text: str) -> None:
    print(f"// *** {title} ***\n{text.rstrip()}\n", file=sys.stderr)
