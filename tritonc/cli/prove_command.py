"""`tritonc prove FILE`: accesses in bounds, and instances apart, for all sizes."""

from typing import Any

import click

from tritonc.cli import console

UNPROVED = 4  # nothing is refuted, but not all is proved


def prove_command(files: tuple[str, ...], **given: Any) -> int:
    """`tritonc prove FILE`: the exit code.  `given` has the parameters by name."""
    from tritonc.prove.accesses import PROVED, REFUTED
    from tritonc.prove.report import prove

    path, options = console.only_file(files), console.native(console.options_from(given))
    source, diagnostics = console.read_source(path, options)
    verdicts: list[str] = []
    first: list[str] = []
    alike = others = 0
    for proof in prove(source, options, console.language_of(path, given), diagnostics,
                       given["kernel"], every=given["every"]):
        found = proof.verdicts()
        if proof.first:
            first = found
            others += proof.choices - 1
        if proof.first or found != first:
            for line in proof.lines():
                click.echo(line)
        else:
            alike += 1
        verdicts += found
    console.Messages(given).show(diagnostics.items)
    counts = ", ".join(f"{verdicts.count(kind)} {kind}" for kind in dict.fromkeys(verdicts))
    if given["every"] and alike:
        counts += f"; {alike} other choices of tunables have the same answers"
    elif others:
        counts += f"; {others} other choices of tunables are not looked at (--every)"
    click.echo(counts or "no access")
    if REFUTED in verdicts:
        return console.INPUT_ERROR
    return console.SUCCESS if all(v == PROVED for v in verdicts) else UNPROVED
