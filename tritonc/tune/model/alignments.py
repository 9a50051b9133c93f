"""How the operands of a launch must lie, so that its copies bring several elements at once.

Where strides are parameters, operands may lie in several ways, transposed or not.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tritonc.backend.memory.versions.assumed import Assumed
from tritonc.backend.memory.versions.assumed_facts import assumed_facts
from tritonc.backend.memory.versions.bodies import turned
from tritonc.backend.target.target import Target
from tritonc.ir.core import Kernel, Value
from tritonc.ir.types import Type, is_int, is_pointer
from tritonc.tune.model.cluster_times import optimised
from tritonc.tune.model.loops import factors

Facts = list[dict[str, Any]]  # as `choice.holds` has them


def aligned(kernel: Kernel, target: Target) -> Facts:
    """What must hold of arguments so that copies bring several elements of an operand at once: the
    facts that a version of the kernel tests, also of products of arguments, as of a plane."""
    kernel = optimised(kernel, target)
    body = assumed_facts(kernel, False, operands=True)
    found = _facts(kernel, body.units, _those(body, is_int))
    for value, n in _those(body, is_int).items():
        if len(product := factors(value, kernel)) > 1:
            found.append({"arguments": [kernel.parameters.index(v) for v in product],
                          "multiple_of": n})
    return found


def asked(kernel: Kernel, target: Target) -> list[tuple[Facts, Facts]]:
    """What entries ask for, also of pointers, in each way in which operands may lie that transposes
    one at most; and what those in turn ask for, whose epilogue only TMA hides: logits of 1024 x
    50257 x 1024 under a cap 429 us, by 128 x 128 343, with words 229 and, by 128 x 256, 202.  Where
    there are several ways, one body serves each: there results ask, and the signs of TMA."""
    kernel = optimised(kernel, target)

    def facts(way: frozenset[Value] = frozenset()) -> Assumed:
        return assumed_facts(kernel, False, not_one=way, operands=True)

    first, found = facts(), list[tuple[Facts, Facts]]()
    others = turned(kernel, first, facts)
    for body in (first, *others):
        way = frozenset(first.units.keys() - body.units.keys())
        whole = assumed_facts(kernel, False, not_one=way)
        signs = assumed_facts(kernel, True, not_one=way).signs if others else ()
        of, pointers = whole if others else body, _those(whole, is_pointer)
        twice = {v: 2 * n for v, n in _those(body, is_int).items()}
        if len(way) < 2:
            found.append((
                _facts(kernel, of.units, {**_those(of, is_int), **pointers}, signs),
                _facts(kernel, of.units, {**_those(whole, is_int), **twice, **pointers}, signs)))
    return found


def _those(body: Assumed, kind: Callable[[Type], bool]) -> dict[Value, int]:
    return {v: n for v, n in body.multiples.items() if kind(v.type)}


def _facts(kernel: Kernel, units: Iterable[Value], multiples: Mapping[Value, int],
           signs: Iterable[Value] = ()) -> Facts:
    """What holds of parameters."""
    found: Facts = []
    for value, fact in (*((v, {"at_least": 1, "at_most": 1}) for v in units),
                        *((v, {"multiple_of": n}) for v, n in multiples.items()),
                        *((v, {"at_least": 0}) for v in signs)):
        while value.op is not None and value.op.name in ("truncate", "sext", "zext"):
            (value,) = value.op.operands
        if value in kernel.parameters:
            found.append({"argument": kernel.parameters.index(value), **fact})
    return found
