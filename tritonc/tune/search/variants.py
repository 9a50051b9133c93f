"""What passes make of a kernel, for many choices of meta-parameters at once.

Most combinations of meta-parameters give a kernel that another one gives too: a buffer has no more
stages than fit, one slice is what a large tile gets anyway, and who binds what a pass would choose
itself changes nothing.  Assembling each would take most of a search.  So the passes run on all of
them together: a kernel is one state, a pass that asks for a meta-parameter splits it by the
answers, and states of equal text become one again.  It is exact, knows no pass, and takes the time
of the passes once for each state.

    num_warps:    None 4 8                     select_dots, choose_warps
                   |   |  \\
                   +-4-+   8                   None means 4 here: one state
                   |       |
    num_stages:  None 2 3  None 2 3            pipeline
"""

import gc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

from tritonc.ir.context import Context
from tritonc.ir.copies import copy_kernel
from tritonc.ir.core import Kernel
from tritonc.ir.syntax.text import print_kernel
from tritonc.meta_parameters import META_PARAMETERS
from tritonc.pass_manager import Pass, PassError, run
from tritonc.records import NamedTuple, dataclass
from tritonc.source import CompileError

# Who may read meta-parameters: that others do not is checked here.  Passes that fit what they do
# into registers ask how many blocks shall be resident (`register_budget`); `specialize` asks
# whether blocks will be persistent, `raw_operands` whether TMA will load.
_READERS = frozenset(row.owner for row in META_PARAMETERS) | {
    "compute_pieces", "delay_loads", "load_ahead", "rematerialize", "raw_operands", "single_trips",
    "specialize"}


class Variant(NamedTuple):
    """A kernel after the passes, and the choices that give it, by their numbers.

    Choices that cannot be compiled have a `reason` and no digest."""

    members: tuple[int, ...]
    digest: str = ""  # of the kernel's text
    reason: str = ""


class _Asked(Mapping[str, int]):
    """Meta-parameters that remember what was asked for."""

    def __init__(self, values: Mapping[str, int]) -> None:
        self._values = values
        self.answers: dict[str, int | None] = {}

    def __getitem__(self, name: str) -> int:
        self.answers[name] = self._values.get(name)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        raise TypeError("passes ask for meta-parameters by name")

    def __len__(self) -> int:
        raise TypeError("passes ask for meta-parameters by name")


@dataclass
class _State:
    kernel: Kernel
    members: list[int]


def variants(kernel: Kernel, context: Context, choices: Sequence[Mapping[str, int]],
             passes: Sequence[Pass], level: int) -> list[Variant]:
    """What `passes` make of a kernel for each of `choices`, which bind meta-parameters.

    The kernel is used up.  Variants come in the order of their first members."""
    states = [_State(kernel, list(range(len(choices))))]
    found: list[Variant] = []
    collects = gc.isenabled()
    gc.disable()  # kernels hold on to each other in circles: it would look at all, over and over
    try:
        for row in passes:
            reader = row.name in _READERS
            states = [after for state in states
                      for after in _after(state, row, reader, context, choices, level, found)]
            if reader and len(states) > 1:
                states = [state for state, _ in _merged(states)]
        found += [Variant(tuple(state.members), digest) for state, digest in _merged(states)]
    finally:
        if collects:
            gc.enable()
            gc.collect()
    return sorted(found)


def _after(state: _State, row: Pass, reader: bool, context: Context,
           choices: Sequence[Mapping[str, int]], level: int, found: list[Variant]
           ) -> Iterator[_State]:
    """What a pass makes of a state: as many as it gets different answers.  What it refuses goes to
    `found`."""
    rest = state.members
    while rest:
        asked = _Asked(choices[rest[0]])
        kernel = copy_kernel(state.kernel) if reader and len(rest) > 1 else state.kernel
        reason = ""
        try:
            run(kernel, replace(context, meta=asked), [row], level=level)
        except CompileError as error:
            reason = str(error.diagnostics[0].message)
        except PassError as error:
            reason = str(error)
        assert reader or not asked.answers, f"{row.name} owns no meta-parameter, but reads one"
        alike = [i for i in rest if all(choices[i].get(name) == answer
                                        for name, answer in asked.answers.items())]
        members = set(alike)
        rest = [i for i in rest if i not in members]
        if reason:
            found.append(Variant(tuple(alike), "", reason))
        else:
            yield _State(kernel, alike)


def _merged(states: Sequence[_State]) -> list[tuple[_State, str]]:
    """States of different text, with the text's digest."""
    by_digest: dict[str, _State] = {}
    for state in states:
        digest = sha256(print_kernel(state.kernel).encode()).hexdigest()[:16]
        known = by_digest.setdefault(digest, state)
        if known is not state:
            known.members = sorted([*known.members, *state.members])
    return [(state, digest) for digest, state in by_digest.items()]
