"""The interpreter of Triton-IR: the reference that says what a program means.

`run` executes a kernel instance by instance over NumPy arrays, at any stage of compilation, and
reports what machine code would leave unsaid: accesses outside of buffers, misaligned ones, division
by zero, promises that do not hold, and use of elements that are *undefined*.

Undefined elements come from loads that were masked off, from variables never assigned, from shifts
past the width, and from the padding of a buffer.  They may be computed with, and what depends on
them is undefined in turn; `frame.undefined` holds their mask per value, beside the arrays.  They
become an error where they would be seen: stored, used as an address or a guard, or deciding a
branch.

Instances are unordered; here they run one after the other, the first axis fastest, or in another
order that `run` is asked for.  `interp.races` finds those that depend on it.  An instance that
iterations of a loop with an atomic in it may be waiting for another one's lock, so that after
`_PATIENCE` iterations the others get theirs.

Machine operations are taught to the interpreter by `handlers`, a function per name:

    handler(frame, op) -> results

The results are one array, a tuple of arrays, or None for none (or if the handler called
`frame.define` itself); arrays are in the held form of `ir.formats`, other types of values are
whatever the handlers agree on.  `frame.read(value)` gives an operand's array, `frame.guard(op)` its
mask, `frame.gather` and `frame.scatter` reach memory, and `frame.instance.state` is a dict of the
instance's own: its shared memory, its barriers."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from random import Random
from typing import Any

import numpy as np

from tritonc.interp.frame import (
    Cluster,
    Frame,
    Handler,
    Instance,
    InterpreterError,
    Launch,
    Plan,
    Step,
    Warn,
)
from tritonc.interp.memory import Memory
from tritonc.interp.overflow import Overflow
from tritonc.interp.races import Races
from tritonc.interp.spread import Spread
from tritonc.interp.steps import step_of
from tritonc.ir.core import Block, Kernel, Module, Op, ParameterInfo, Value
from tritonc.ir.numeric import numbers
from tritonc.ir.numeric.formats import register_dtype
from tritonc.ir.ops import OPS, OpInfo
from tritonc.ir.types import element, is_float, is_pointer
from tritonc.source import fail

__all__ = ["STEP_LIMIT", "Frame", "Handler", "Instance", "InterpreterError", "Memory", "run"]

STEP_LIMIT = 20_000_000  # operations of one instance
FORWARD, REVERSE, INTERLEAVED, RANDOM = "forward", "reverse", "interleaved", "random"
ORDERS = (FORWARD, REVERSE, INTERLEAVED, RANDOM)
_PATIENCE = 64  # iterations of a loop with an atomic in it, before other instances get theirs


def _show(text: str) -> None:
    print(text, end="")


def run(module: Module, kernel_name: str, arguments: Sequence[int | float], memory: Memory,
        grid: tuple[int, ...], *, table: Mapping[str, OpInfo] = OPS,
        handlers: Mapping[str, Handler] | None = None, step_limit: int = STEP_LIMIT,
        output: Callable[[str], Any] = _show, order: str = FORWARD, races: bool = False,
        after: Mapping[Block | Op, Sequence[Step]] | None = None, warn: Warn | None = None
        ) -> None:
    """Run `kernel_name` on `grid` instances; pointers among `arguments` are addresses of `memory`.

    `table` has the rows of all operations, `handlers` executes those that have no meaning in it.
    `order` is that of the instances, one of `ORDERS` or "random:SEED"; `races`: whether two of them
    that touch one byte without an order are an error; `after`: steps of a debugger, by the
    operation that they follow or the block that they begin; `warn` takes warnings.  Raises
    InterpreterError, or CompileError where the arguments do not fit."""
    kernel = next((k for k in module.kernels if k.name == kernel_name), None)
    if kernel is None:
        raise fail("run-arguments", None, f"there is no kernel '{kernel_name}'")
    if len(arguments) != len(kernel.parameters):
        raise fail("run-arguments", kernel.span, f"kernel '{kernel_name}' takes "
                   f"{len(kernel.parameters)} arguments, found {len(arguments)}")
    for constant in module.constants:
        memory.define_table(constant)
    launch = Launch(kernel, memory, grid, table, handlers or {}, step_limit, output)
    launch.warn = warn
    launch.interleaved = order == INTERLEAVED
    if races and prod(grid) > 1:
        launch.races = Races(grid)
    values: dict[Value, Any] = {}
    for parameter, info, argument in zip(kernel.parameters, kernel.info, arguments, strict=True):
        e = element(parameter.type)
        values[parameter] = register_dtype(e).type(numbers.fit(e, argument))
        if launch.races is not None and is_pointer(parameter.type) and info.read_only:
            launch.races.read_only.add(int(argument))
        if not is_float(e):
            _check_promises(kernel, parameter, info, int(numbers.fit(e, argument)))
    with np.errstate(all="ignore"):
        _prepare(launch, after or {})
        _schedule(launch, values, order)


def _prepare(launch: Launch, after: Mapping[Block | Op, Sequence[Step]]) -> None:
    """Make the plans.  Operations of no step (constants) leave their values in `constants`.

    `after` has steps that follow an operation, or stand at a block's start."""
    plans: dict[Block, Plan] = {}
    if not after and not launch.handlers:
        launch.spread = Spread(launch.kernel)
    overflow = (None if launch.warn is None or launch.handlers
                else Overflow(launch.kernel, launch.warn))
    for position, block in enumerate(launch.kernel.blocks):
        steps: list[Step] = [*after.get(block, ())]
        ops: list[Op | None] = [None for _ in steps]
        for op in block.ops[:-1]:
            step = step_of(launch, op) if op.name != "phi" else None
            if step is not None:
                steps.append(step if overflow is None else overflow.step(launch, op, step))
                ops.append(op)
            more = after.get(op, ())
            steps += more
            ops += [None for _ in more]
        plans[block] = Plan(position, steps, block.terminator,
                            pauses=any(op.name == "cluster_reduce" for op in block.ops))
        launch.plans.append((plans[block], ops))
    for block, plan in plans.items():
        plan.targets = [plans[target] for target in block.successors]
        plan.moves = [[(phi.result, phi.operands[phi.blocks.index(block)])
                       for phi in target.phis()] for target in block.successors]
    launch.entry = plans[launch.kernel.entry]


def _check_promises(kernel: Kernel, parameter: Value, info: ParameterInfo, argument: int) -> None:
    """Raise CompileError where an argument is not what the source promises of it.

    Of a pointer the power of two counts: the addresses here are made up, those of a GPU are
    multiples of such a power only."""
    multiple, least, greatest = info.multiple_of, info.least, info.greatest
    if is_pointer(parameter.type):
        multiple &= -multiple
    wrong = (f"not a multiple of {multiple}" if argument % multiple else
             f"less than {least}" if least is not None and argument < least else
             f"more than {greatest}" if greatest is not None and argument > greatest else "")
    if wrong:
        raise fail("run-assumption", info.span or kernel.span, f"argument '{parameter.name}' is "
                   f"{argument}, which is {wrong}")


def _execute(frame: Frame, plan: Plan) -> Iterator[None]:
    """Execute an instance from `plan` to its end.  Yields where other instances have their turn."""
    limit, turns, interleaved = frame.launch.step_limit, 0, frame.launch.interleaved
    own = False  # whether anything of the instance's own changed from one iteration to the next
    while True:
        for step in plan.steps:
            step(frame)
            if plan.pauses and frame.pause is not None:
                ready, go_on = frame.pause
                while not ready():
                    yield
                frame.pause = None
                go_on()
        frame.steps += len(plan.steps) + 1
        terminator = plan.terminator
        if frame.steps > limit:
            frame.fail(terminator, "run-too-long",
                       f"more than {limit} operations executed: a loop that does not end?")
        if not plan.targets:
            if frame.instance.cluster is not None:
                frame.instance.cluster.ended.add(frame.instance.rank)
            return
        way = 0
        if len(plan.targets) == 2:
            condition = terminator.operands[0]
            if frame.undefined:
                frame.require(terminator, condition, None, "the condition of this branch")
            way = 0 if frame.values[condition] else 1
        moves = plan.moves[way]
        target = plan.targets[way]
        back = target.position <= plan.position
        if moves:
            own = own or not back or any(not np.array_equal(frame.values[to], frame.values[source])
                                         for to, source in moves) if frame.synchronised else True
            _move(frame, moves)
        if back and frame.synchronised:
            frame.synchronised = False
            turns += 1
            if turns == _PATIENCE:
                turns, frame.at, frame.idle, own = 0, terminator, not own, False
                yield
        elif interleaved:
            frame.idle = False
            yield
        plan = target


def _move(frame: Frame, moves: list[tuple[Value, Value]]) -> None:
    """All phis of a block at once: they read before any is written."""
    values, undefined = frame.values, frame.undefined
    found = [values[source] for _, source in moves]
    for known in (undefined, frame.overflowed):
        if known:
            _move_marks(known, moves)
    for (target, _), array in zip(moves, found, strict=True):
        values[target] = array


def _move_marks(known: dict[Value, Any], moves: list[tuple[Value, Value]]) -> None:
    found = [known.get(source) for _, source in moves]
    for (target, _), mask in zip(moves, found, strict=True):
        if mask is None:
            known.pop(target, None)
        else:
            known[target] = mask


def _schedule(launch: Launch, arguments: dict[Value, Any], order: str) -> None:
    """Run all instances: each to its end, unless it waits for others; then all by turns."""
    def begin() -> Iterator[tuple[Frame, Iterator[None]]]:
        assert launch.entry is not None
        size = launch.kernel.attributes.get("cluster", 1)
        for index in _indices(launch.grid, order):
            cluster = Cluster(size) if size > 1 else None
            for rank in range(size):
                instance = Instance(index, rank, cluster)
                frame = Frame(launch, instance, launch.constants | arguments,
                              dict(launch.undefined))
                yield frame, _execute(frame, launch.entry)

    fresh, paused = begin(), deque[tuple[Frame, Iterator[None]]]()
    if launch.interleaved:
        paused.extend(fresh)
    done = object()
    idle = 0  # how many instances in a row had their turn, and nothing changed
    while True:
        changes = launch.changes
        started = next(fresh, None)
        if started is not None and next(started[1], done) is not done:
            paused.append(started)
        if not paused:
            if started is None:
                return
            continue
        resumed = paused.popleft()
        ended = next(resumed[1], done) is done
        if not ended:
            paused.append(resumed)
        still = not ended and resumed[0].idle and started is None and changes == launch.changes
        idle = idle + 1 if still else 0
        if launch.races is not None and idle > 2 * len(paused):
            _deadlock(paused)


def _deadlock(paused: deque[tuple[Frame, Iterator[None]]]) -> None:
    """Report that all instances that are left wait for each other."""
    frame = paused[0][0]
    assert frame.at is not None
    many = f"all {len(paused)} remaining instances wait" if len(paused) > 1 else (
        "the remaining instance waits")
    frame.fail(frame.at, "run-deadlock", f"a deadlock: {many} for memory that no instance changes")


def _indices(grid: tuple[int, ...], order: str) -> Iterator[tuple[int, ...]]:
    """The instances in an order; the first axis is the fastest."""
    every: Iterator[tuple[int, ...]] = (
        tuple(reversed(index)) for index in product(*(range(extent) for extent in reversed(grid))))
    if order == REVERSE:
        return reversed(list(every))
    if order.startswith(RANDOM):
        shuffled = list(every)
        Random(order.partition(":")[2]).shuffle(shuffled)
        return iter(shuffled)
    return every
