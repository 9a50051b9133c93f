"""A producer warp and consumer warpgroups, each a process of its own, of which any may be first: do
all come to their ends?

The simulator runs a kernel's text as one thread does that makes the copies, too; here each role
runs its own part of the text, scalars and barriers alone.
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from programs import ROOT, Setting, compiled

from tritonc import driver
from tritonc.backend.shared.shared_memory import allocation
from tritonc.ir.core import Block, Kernel, Op, Value
from tritonc.ir.numeric.numbers import evaluate, fit
from tritonc.ir.types import Buffer, Scalar, Tile
from tritonc.options import Options
from tritonc.source import SourceFile

WAYS = ROOT / "bench" / "ways" / "attention"
CONSUMERS = 2
PRODUCER = ("wait_empty", "tma_load")
CONSUMER = ("wait_full", "arrive_empty", "arrive_full")


class Barrier:
    """A barrier of one stage: phases that have ended, and what has come of the one that runs."""

    def __init__(self) -> None:
        self.phase, self.came = 0, 0

    def come(self, number: int, wanted: int) -> None:
        self.came += number
        if self.came == wanted:
            self.phase, self.came = self.phase + 1, 0


class Launch:
    """One block; `loaded` are the numbers that scalars are loaded as, in turn."""

    def __init__(self, kernel: Kernel, grid: tuple[int, ...], processors: int,
                 parameters: dict[str, int], loaded: list[int]) -> None:
        self.kernel, self.grid, self.processors = kernel, grid, processors
        self.parameters, self.loaded = parameters, loaded
        self.barriers: dict[tuple[Op, int], Barrier] = defaultdict(Barrier)
        self.program: tuple[int, ...] = ()
        self.chance = random.Random(0)

    def ends(self, program: tuple[int, ...], seed: int) -> bool:
        """Whether all roles of a block end, in an order that the seed says."""
        self.barriers.clear()
        self.program = program
        running = {0: self.run(PRODUCER, False)} | {
            i: self.run(CONSUMER, i == 1) for i in range(1, CONSUMERS + 1)}
        rng, waiting = random.Random(seed), set[int]()
        while running:
            turn = rng.choice([*running])
            waits = next(running[turn], None)
            if waits is None:
                del running[turn]
            waiting = waiting | {turn} if waits else set()
            if running and waiting >= running.keys():
                return False
        return True

    def run(self, role: tuple[str, ...], first: bool) -> Iterator[bool]:
        """Whether it waits, whenever it meets a barrier."""
        values: dict[Value, Any] = {
            v: self.parameters.get(v.name, 1) for v in self.kernel.parameters}
        block, before = self.kernel.entry, self.kernel.entry
        while True:
            phis = [(op.result, values.get(op.operands[op.blocks.index(before)]))
                    for op in block.phis()]
            values |= phis
            for op in block.ops[len(phis):-1]:
                if op.name in role and (op.guard is None or values[op.guard]):
                    yield from self.meet(op, values, first)
                elif len(op.results) == 1 and isinstance(op.result.type, Scalar):
                    values[op.result] = self.compute(op, values)
            end = block.terminator
            if end.name == "ret":
                return
            before, block = block, self.leads(end, values, role is PRODUCER)

    def leads(self, end: Op, values: dict[Value, Any], producer: bool) -> Block:
        if end.name == "br":
            return end.blocks[0]
        if "passes" in end.attributes:  # readers go either way, the producer that one
            return end.blocks[end.attributes["passes"] if producer else self.chance.randrange(2)]
        found = values.get(end.operands[0])
        assert found is not None or end.attributes.get("facts"), end
        return end.blocks[0 if found in (True, None) else 1]

    def meet(self, op: Op, values: dict[Value, Any], first: bool) -> Iterator[bool]:
        copies = op.name == "tma_load"
        barrier = self.barrier(op.operands[1 if copies else 0], values)
        if op.name in ("wait_full", "wait_empty"):
            while barrier.phase % 2 == values[op.operands[1]] % 2:
                yield True
        elif copies:
            block = next(b for b in self.kernel.blocks if op in b.ops)
            expects = next(o for o in reversed(block.ops[: block.ops.index(op)])
                           if o.name == "expect_full" and o.operands[0] is op.operands[1])
            t = op.operands[0].type
            assert isinstance(t, Buffer)
            barrier.come(t.stage_bytes, expects.attributes["bytes"])
        elif op.name == "arrive_empty":
            barrier.come(1, CONSUMERS)
        elif first:
            barrier.come(1, 1)
        yield False

    def barrier(self, view: Value, values: dict[Value, Any]) -> Barrier:
        assert view.op is not None
        stage = values[view.op.operands[1]] if view.op.name == "buffer_stage" else 0
        return self.barriers[allocation(view)[0], stage]

    def compute(self, op: Op, values: dict[Value, Any]) -> Any:
        axis = op.attributes.get("axis", 0)
        if op.name in ("get_program_id", "get_num_programs"):
            known = self.program if op.name == "get_program_id" else self.grid
            return (*known, *([0 if known is self.program else 1] * 3))[axis]
        if op.name == "get_num_multiprocessors":
            return self.processors
        if op.name == "constant":
            return op.attributes["value"]
        if op.name == "load":
            return self.loaded[self.program[-1] % len(self.loaded)]
        inputs = [values.get(v) for v in op.operands]
        if None in inputs or not op.pure or op.info.meaning is None or any(
                isinstance(v.type, Tile) for v in op.operands):
            return None
        return evaluate(op.info, op, [fit(v.type, n) for v, n in zip(
            op.operands, inputs, strict=True)])[0]


@pytest.mark.parametrize("name", ["causal", "documents", "loaded_lengths", "global_tokens",
                                  "window"])
def test_all_roles_come_to_their_ends(name: str) -> None:
    """Programs of one iteration, of several and of none follow each other."""
    setting = Setting(WAYS / f"{name}.tc", (("D", "128"), ("TM", "128"), ("TN", "128")))
    (result, _), = compiled(setting, "sm_90a")
    assert result.module is not None
    kernel = result.module.kernels[0]
    assert kernel.attributes["producer_warps"]
    for length, processors in itertools.product((128, 300), (1, 3)):
        launch = Launch(kernel, (-(-length // 128), 3), processors,
                        {"S": length, "window": 200}, [length, 1, 128])
        for program in itertools.product(*map(range, launch.grid)):
            assert all(launch.ends(program, seed) for seed in range(2))


def test_sums_behind_the_last_copy_may_lie_where_copies_were() -> None:
    """Two warps that share a row exchange their sums there once all operands have been read: the
    producer stays, without which waits that came early would come before their copies."""
    source = SourceFile("k.tc", (ROOT / "samples" / "attention.tc").read_text(encoding="utf-8"))
    result = driver.compile(source, Options(
        arch="sm_90a", tune={"TM": 64, "TN": 32, "num_warps": 8}), ("manifest",))
    assert result.module is not None
    assert "producer_warps" in result.module.kernels[0].attributes
