"""Values of tunables and of meta-parameters: given, of the tuning file, else the cost model's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tritonc.frontend.lexer import Token
from tritonc.meta_parameters import BY_NAME, legal_text
from tritonc.options import Options
from tritonc.source import CompileError, Diagnostics, Note, fail
from tritonc.tune import tuning_file
from tritonc.tune.tuning_file import Entry

if TYPE_CHECKING:
    from tritonc.frontend.syntax import Program
    from tritonc.ir.core import Kernel, Module


class Bindings:
    """The values of one compilation, and who chose them.

    `meta` are the meta-parameters that were bound, `chosen` the tunables that the cost model
    chose, `tuned` the entry of the tuning file for each name whose value it gave; `tuning` is the
    path of that file if one of its entries was used.
    """

    def __init__(self, options: Options) -> None:
        self.meta: dict[str, int] = {}
        self.chosen: dict[str, int] = {}
        self.tuned: dict[str, Entry] = {}
        self.tuning: str | None = None
        self._options = options
        self._entries: dict[str, Entry] = {}  # of the tuning file, by kernel
        self._given_meta: dict[str, int] = {}  # for all kernels

    def read_tuning_file(self, path: str, tokens: Iterable[Token], diagnostics: Diagnostics
                         ) -> None:
        """Find the entries for the program of `tokens`.  Raises CompileError for a file that is
        malformed."""
        options = self._options
        entries = tuning_file.read(path)
        source = tuning_file.source_hash(tokens)
        self._entries = tuning_file.lookup(entries, source, options.arch, options.sizes)
        if tuning_file.is_stale(entries, source, options.arch, options.defines):
            diagnostics.warning(
                "stale-tuning", None, f"'{path}' was made for another text of this program; the "
                "cost model chooses", Note("tritonc tune measures again"))

    def of_program(self, program: Program, diagnostics: Diagnostics) -> dict[str, int]:
        """A value for each tunable: from outside, else the cost model's choice."""
        from tritonc import sema  # the preprocessor alone starts without it

        try:
            declared = sema.tunables(program, diagnostics)
        except CompileError:
            return dict(self._options.tune)  # the analysis reports it too, and what else is wrong
        given = self.split({t.name for t in declared})
        unbound = {t.name: t.values for t in declared if t.name not in given and t.values}
        if not unbound:
            return dict(given)
        from tritonc.backend.target.target import find  # where something is left to choose
        from tritonc.tune.model import choose

        def lower(binding: Mapping[str, int]) -> Module:
            return sema.analyze(program, {**given, **binding}, Diagnostics(limit=1), self._options)

        target = find(self._options.arch, self._options.ptx)
        self.chosen = choose(unbound, lower, target)
        return {**given, **self.chosen}

    def split(self, declared: set[str]) -> dict[str, int]:
        """The values given for tunables, by name: --tune first, then the tuning file, whose first
        kernel wins where several share a tunable.  Those that are no tunable but meta-parameters
        count for every kernel."""
        given: dict[str, int] = {}
        for name, value in self._options.tune.items():
            if name in declared or name not in BY_NAME:
                given[name] = value
            else:
                self._given_meta[name] = _legal(name, value)
        for entry in self._entries.values():
            for name, value in entry.tunables.items():
                if name in declared and name not in given:
                    given[name] = value
                    self._take(name, entry)
        return given

    def of_kernel(self, kernel: Kernel, tunables: Mapping[str, int]) -> dict[str, int]:
        """The meta-parameters of a kernel: given, else its entry's of the tuning file.  `tunables`
        are the program's, some of which may have a meta-parameter's name."""
        entry = self._entries.get(kernel.name)
        meta = {}
        if entry is not None:
            for name, value in entry.tunables.items():
                if name in BY_NAME and name not in tunables:
                    meta[name] = _legal(name, value)
                    if name not in self._given_meta:
                        self._take(name, entry)
        meta.update(self._given_meta)
        self.meta.update(meta)
        return dict(sorted(meta.items()))

    def _take(self, name: str, entry: Entry) -> None:
        self.tuned[name] = entry
        self.tuning = self._options.tuning


def _legal(name: str, value: int) -> int:
    """`value`, or CompileError if the meta-parameter cannot have it."""
    row = BY_NAME[name]
    if value not in row.legal:
        raise fail("meta-parameter", None, f"{name} = {value}: {name} ({row.owner}) can be "
                   f"{legal_text(row)}")
    return value
