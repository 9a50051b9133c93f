"""Writes the pages of this folder that derive from tables of the compiler.

    python docs/generate.py

A test compares the pages with what this writes; `make bless` writes them too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from tritonc import __version__
from tritonc.backend.target.matrix import INSTRUCTIONS
from tritonc.backend.target.target import TARGETS, Target
from tritonc.cli.help import described, spelled
from tritonc.cli.option_table import COMMANDS, Option, rows
from tritonc.diagnostics import DIAGNOSTICS
from tritonc.frontend import syntax
from tritonc.frontend.foreign import VOCABULARY
from tritonc.frontend.parser_types import PREDECLARED_TYPES, QUALIFIER_NAMES
from tritonc.frontend.preprocess.output import Preprocessed
from tritonc.frontend.preprocess.predefined import predefined_macros
from tritonc.ir.ops import OPS, OpInfo
from tritonc.meta_parameters import META_PARAMETERS, legal_text
from tritonc.pass_manager import labels
from tritonc.passes import BACKEND, OPT
from tritonc.sema.builtins.table import BUILTINS
from tritonc.source import Diagnostics

HERE = Path(__file__).parent
SUBCOMMANDS = [name for name in COMMANDS if name != "compile"]
_NOTE = "<!-- Written by docs/generate.py from {source}; change that, then run `make bless`. -->\n"


def _by_group(command: str) -> dict[str, list[Option]]:
    groups: dict[str, list[Option]] = {}
    for row in rows(command):
        groups.setdefault(row.group, []).append(row)
    return groups


def cli_page() -> str:
    """Every option, by group."""
    lines = ["# Command line\n", _NOTE.format(source="tritonc/cli/option_table.py"),
             "".join(f"    {row.usage}\n" for row in COMMANDS.values()),
             "Exit codes: 0 success; 1 an error in the input, or a file that cannot be read or "
             "written; 2 a wrong\ncommand line; 3 no GPU to tune on; 70 a bug of tritonc; 130 "
             "interrupted.\n",
             "`@FILE` reads options from a file. Options in the environment variable "
             "`TRITONC_FLAGS` come before those of the\ncommand line. Columns in messages count "
             "Unicode code points, from 1.\n",
             "One line in the start-up file of bash, zsh or fish completes commands, options and "
             "their values:\n",
             "    eval \"$(_TRITONC_COMPLETE=bash_source tritonc)\"        # ~/.bashrc; "
             "zsh_source in ~/.zshrc\n"
             "    _TRITONC_COMPLETE=fish_source tritonc | source         # "
             "~/.config/fish/config.fish\n"]
    for command, row in COMMANDS.items():
        name = "" if command == "compile" else f" {command}"
        lines += [f"## tritonc{name}\n", f"{row.description}\n"]
        shared = [option for option in rows(command)
                  if command != "compile" and "compile" in option.commands]
        for group, members in _by_group(command).items():
            own = [option for option in members if option not in shared]
            if own and command == "compile":
                lines.append(f"### {group}\n")
            lines += [f"- `{spelled(option)}`: {described(option)}" for option in own]
            if own:
                lines.append("")
        if shared:
            lines.append("It also takes these options of the compiler: "
                         + ", ".join(f"`{option.flags[0]}`" for option in shared) + ".\n")
    return "\n".join(lines)


def manual_page() -> str:
    """The manual page, in roff."""
    def escape(text: str) -> str:
        return text.replace("\\", "\\e").replace("-", "\\-")

    lines = ['.\\" Written by docs/generate.py from tritonc/cli/option_table.py.',
             f'.TH TRITONC 1 "" "tritonc {__version__}"', ".SH NAME",
             "tritonc \\- compile Triton\\-C, the tile language, to PTX", ".SH SYNOPSIS",
             "\n.br\n".join(escape(row.usage) for row in COMMANDS.values()),
             ".SH DESCRIPTION",
             escape(" ".join(COMMANDS["compile"].description.split()))]
    for group, members in _by_group("compile").items():
        lines.append(f".SS {group}")
        for row in members:
            lines += [".TP", f".B {escape(spelled(row))}", escape(described(row))]
    for command in SUBCOMMANDS:
        lines += [f".SH TRITONC {command.upper()}",
                  escape(" ".join(COMMANDS[command].description.split()))]
        for row in rows(command):
            if "compile" not in row.commands:
                lines += [".TP", f".B {escape(spelled(row))}", escape(described(row))]
    lines += [".SH EXIT STATUS", "0 success; 1 an error in the input; 2 a wrong command line; 3 no "
              "GPU to tune on; 70 a bug of tritonc; 130 interrupted.", ".SH ENVIRONMENT",
              "TRITONC_FLAGS: options that come before those of the command line.  NO_COLOR, "
              "CLICOLOR_FORCE: turn the colours of messages off and on."]
    return "\n".join(lines) + "\n"


def diagnostics_page() -> str:
    """Every diagnostic with its explanation."""
    lines = ["# Diagnostics\n", _NOTE.format(source="tritonc/diagnostics.txt"),
             "`tritonc --explain NAME` prints these texts. `-Wname`, `-Wno-name` and "
             "`-Werror=name` take the names of warnings. A warning marked *with -Wall* or *with "
             "-Wextra* is off until that option turns it on.\n"]
    for name in sorted(DIAGNOSTICS):
        row = DIAGNOSTICS[name]
        lines.append(f"- **{name}** ({row.kind}): {row.explanation}")
    return "\n".join(lines) + "\n"


def passes_page() -> str:
    """The passes in their order, each with what its file says it does, and why it stands there."""
    lines = ["# Passes\n", _NOTE.format(source="tritonc/passes.py and the passes' docstrings")]
    every = [*OPT, *BACKEND]
    for label, row in zip(labels(every), every, strict=True):
        if row is BACKEND[0]:
            lines.append("\n## Machine-dependent\n")
        elif row is every[0]:
            lines.append("## Machine-independent\n")
        described = import_module(row.function.__module__).__doc__ or ""
        summary = described.strip().split("\n\n")[0].removeprefix(f"{row.name}: ")
        level = f" From -O{row.level}." if row.level else ""
        lines.append(f"- **{label}**: {' '.join(summary.split())} *{row.reason}*{level}")
    return "\n".join(lines) + "\n"


def _operation(op: OpInfo) -> str:
    names = ", ".join(op.operands) or "no operands"
    attributes = [*op.attributes, *(f"{name} (may be missing)" for name in op.optional)]
    flags = [word for word, holds in (
        ("elementwise", op.elementwise), ("commutative", op.commutative),
        ("may trap", op.may_trap), ("may carry a guard", op.guardable)) if holds]
    effects = [f"effects: {', '.join(sorted(op.effects))}"] if op.effects else []
    details = "; ".join([*([f"attributes: {', '.join(attributes)}"] if attributes else []),
                         *flags, *effects])
    return f"- **{op.name}** ({names}): {op.doc}" + (f" *{details}.*" if details else "")


def ops_page() -> str:
    """The operations of Triton-IR."""
    lines = ["# Operations of Triton-IR\n", _NOTE.format(source="tritonc/ir/ops.py"),
             "docs/ir.md describes the IR; each line here is one row of the table.\n"]
    lines += [_operation(op) for op in OPS.values()]
    return "\n".join(lines) + "\n"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _code(text: str) -> str:
    return f"`{text}`"


def _builtins_table() -> list[str]:
    """The builtin functions, and their other names."""
    lines = ["| function | | other names |", "|---|---|---|"]
    for builtin in BUILTINS:
        others = " ".join(map(_code, builtin.spellings))
        lines.append(_row(_code(builtin.signature), builtin.doc, others))
    return lines


_TYPE_WORDS = {
    "bool": ["bool", "_Bool"], "int8": ["char"], "int16": ["short"], "int32": ["int"],
    "int64": ["long", "long long"], "uint8": ["unsigned char"], "uint16": ["unsigned short"],
    "uint32": ["unsigned int", "unsigned"], "uint64": ["unsigned long"], "float32": ["float"],
    "float64": ["double"],
}  # fmt: skip
_TYPE_DOCS = {
    "bool": "`true` or `false`; one byte in memory",
    "tf32": "32 bits, a float whose matrix products round their operands",
    "float16": "16 bits: 5 of exponent, 10 of mantissa",
    "bfloat16": "16 bits: 8 of exponent, 7 of mantissa", "float32": "32 bits", "float64": "64 bits",
    "float8_e4m3": "8 bits: 4 of exponent, 3 of mantissa; no infinity",
    "float8_e5m2": "8 bits: 5 of exponent, 2 of mantissa",
}  # fmt: skip


def _types_table() -> list[str]:
    """The scalar types by their names in sources."""
    lines = ["| names | |", "|---|---|"]
    for canonical in syntax.SCALAR_TYPES:
        if canonical == "void":
            continue
        words = _TYPE_WORDS.get(canonical, [])
        names = [*words, *(n for n, t in PREDECLARED_TYPES.items() if t == canonical)]
        bits = canonical.removeprefix("u").removeprefix("int")
        kind = "unsigned" if canonical.startswith("u") else "signed"
        lines.append(_row(" ".join(map(_code, names)),
                          _TYPE_DOCS.get(canonical) or f"{kind} integer of {bits} bits"))
    return lines


_QUALIFIER_DOCS = {
    "const": "of a pointer: nothing is stored through it; of a variable: it is not assigned",
    "restrict": "what the pointer leads to is reached through no other pointer",
    "read_only": "a hint: nothing is stored through the pointer",
    "write_only": "a hint: nothing is loaded through the pointer",
    "align": "with `(n)`: the pointer is a multiple of n bytes",
    "multiple_of": "with `(n)`: the integer is a multiple of n; a pointer, of n bytes",
    "retune": "says that a change of this argument asks for other tuning; nothing depends on it",
    "constant": "a table in constant memory, or a pointer to one",
    "kernel": "an entry point", "tunable": "a number that the compiler or the user chooses",
    **dict.fromkeys(("static", "extern", "volatile", "inline", "device"),
                    "accepted, means nothing"),
}  # fmt: skip


def _qualifiers_table() -> list[str]:
    """The qualifiers and their spellings."""
    lines = ["| qualifier | |", "|---|---|"]
    for canonical in dict.fromkeys(QUALIFIER_NAMES.values()):
        spellings = [name for name, known in QUALIFIER_NAMES.items() if known == canonical]
        lines.append(_row(" ".join(map(_code, spellings)), _QUALIFIER_DOCS[canonical]))
    return lines


_MACRO_DOCS = {
    "INFINITY": "a literal without suffix, of infinite value", "NAN": "a literal without suffix",
    "true": "the bool", "false": "the bool", "F32_INFINITY": "infinity as a float",
    "F16_INFINITY": "infinity as a half", "__TRITONC__": "1", "__DATE__": "a fixed string",
    "__TIME__": "a fixed string", "__LINE__": "the line", "__FILE__": "the file's name, a string",
    "__COUNTER__": "0, 1, 2, ...: the next number at each use",
    "_Pragma": "`#pragma` as an operator",
}  # fmt: skip


def _macros_table() -> list[str]:
    """The predefined macros."""
    found = predefined_macros(Preprocessed([]), lambda text, span: None, Diagnostics())
    return ["| macro | |", "|---|---|", *(_row(_code(m), _MACRO_DOCS[m]) for m in found)]


def _meta_table() -> list[str]:
    """The meta-parameters."""
    lines = ["| meta-parameter | pass | | tried | legal | on kernels with |",
             "|---|---|---|---|---|---|"]
    for row in META_PARAMETERS:
        lines.append(_row(_code(row.name), row.owner, row.doc, ", ".join(map(str, row.values)),
                          legal_text(row), " and ".join(sorted(row.needs)) or "anything"))
    return lines


def _targets_table() -> list[str]:
    """The targets, with what a user must know of each."""
    lines = ["| target | GPUs | PTX version, and the least | shared memory of a block |",
             "|---|---|---|---|"]
    for target in TARGETS.values():
        written, least = (f"{v // 10}.{v % 10}" for v in (target.ptx, target.least_ptx))
        lines.append(_row(_code(target.name), target.gpus, f"{written}, {least}",
                          f"{target.shared_per_block // 1024} KiB"))
    return lines


MACHINERY = {  # what a kernel uses where it pays, and the feature that it needs
    "asynchronous copies to shared memory (`cp.async`)": "async_copy",
    "TMA loads and stores, a producer warp (`setmaxnreg`)": "wgmma",
    "matrix loads (`ldmatrix`)": "ldmatrix", "matrix stores (`stmatrix`)": "stmatrix",
    "a product split over the blocks of a cluster (`cluster_k`)": "cluster",
    "integer reductions of a warp in one instruction (`redux.sync`)": "reduce_lanes",
    "arithmetic in bfloat16, without conversions to float": "bf16_arithmetic",
    "conversions of 8-bit floats in hardware": "f8_conversion",
    "`atomic_add` of half, of bfloat16, in one instruction": "atomic_f16 atomic_bf16",
}  # fmt: skip


def product_instruction(operand: str, target: Target) -> str:
    """What computes a large enough product: an instruction, or the CUDA cores."""
    found = [row.name.rpartition(".")[0] for row in INSTRUCTIONS
             if str(row.operand) == operand and row.feature in target.features]
    return _code(found[0]) if found else "CUDA cores"


def _by_target(cells: dict[str, list[str]], first: str) -> list[str]:
    """A table with a column for each group of targets whose cells are alike."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for number, name in enumerate(TARGETS):
        groups.setdefault(tuple(row[number] for row in cells.values()), []).append(name)
    names = [" ".join(map(_code, group)) for group in groups.values()]
    return [_row(first, *names), "|---" * (len(names) + 1) + "|",
            *(_row(what, *column) for what, *column in zip(cells, *groups))]


def _products_table() -> list[str]:
    """What computes `dot`, by the type of its operands."""
    operands = dict.fromkeys(["f32", *(str(row.operand) for row in INSTRUCTIONS)])
    return _by_target({_code(_SOURCE_TYPES.get(operand, operand)): [
        product_instruction(operand, target) for target in TARGETS.values()]
        for operand in operands}, "operands")


_SOURCE_TYPES = {"f16": "half", "bf16": "bfloat16", "f32": "float", "f64": "double", "i8": "char",
                 "f8e4m3": "float8_e4m3", "f8e5m2": "float8_e5m2"}


def _machinery_table() -> list[str]:
    """What else kernels use."""
    return _by_target({what: [", ".join("yes" if feature in target.features else "no"
                                        for feature in needed.split())
                              for target in TARGETS.values()]
                       for what, needed in MACHINERY.items()}, "")


_TABLES = {"targets": _targets_table, "products": _products_table, "machinery": _machinery_table,
           "triton": lambda: _vocabulary("triton"), "cuda": lambda: _vocabulary("cuda"),
           "others": lambda: _vocabulary("others"),
           "builtins": _builtins_table, "types": _types_table, "qualifiers": _qualifiers_table,
           "macros": _macros_table, "meta": _meta_table}


def _vocabulary(language: str) -> list[str]:
    lines = ["| there | here |", "|---|---|"]
    by_text: dict[str, list[str]] = {}
    for name, text in VOCABULARY[language].items():
        by_text.setdefault(text, []).append(name)
    return lines + [f"| {' '.join(f'`{n}`' for n in found)} | {_escaped(text)} |"
                    for text, found in by_text.items()]


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _with_tables(name: str) -> str:
    """A page written by hand, but for its tables of what the compiler has tables of."""
    def table(match: re.Match[str]) -> str:
        return "\n".join([match[1], *_TABLES[match[2]](), match[3]])

    text = (HERE / name).read_text(encoding="utf-8")
    return re.sub(r"(<!-- table: (\w+) -->)\n.*?(<!-- end -->)", table, text, flags=re.DOTALL)


def coming_page() -> str:
    """The vocabularies of other languages."""
    return _with_tables("coming_from.md")


def language_page() -> str:
    """The reference of the language."""
    return _with_tables("language.md")


def tuning_page() -> str:
    """The tuner, with the table of meta-parameters."""
    return _with_tables("tuning.md")


def targets_page() -> str:
    """What is supported where."""
    return _with_tables("targets.md")


PAGES = {"cli.md": cli_page, "tritonc.1": manual_page, "diagnostics.md": diagnostics_page,
         "passes.md": passes_page, "ops.md": ops_page, "language.md": language_page,
         "tuning.md": tuning_page, "coming_from.md": coming_page,
         "targets.md": targets_page}


def pages() -> Iterator[tuple[Path, str]]:
    """Each generated page and what it should hold."""
    for name, make in PAGES.items():
        yield HERE / name, make()


if __name__ == "__main__":
    for path, text in pages():
        path.write_text(text, encoding="utf-8", newline="\n")
