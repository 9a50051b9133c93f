"""Blocks of a cluster, executed: each an instance of its own, which waits where all have to meet.

A sum over the cluster is one operation here.  Each block gives its part and pauses (`frame.pause`:
when it may go on, and what it does then); the last to come lets all go on.  A block that has ended
without giving its part would be waited for in vain: that is reported.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tritonc.interp import arrays
from tritonc.interp.frame import Frame
from tritonc.ir.core import Op
from tritonc.ir.types import scalar, shape


def get_cluster_rank(frame: Frame, op: Op) -> Any:
    return np.int32(frame.instance.rank)


def cluster_arrive(frame: Frame, op: Op) -> None:
    frame.instance.state["arrived"] = True


def cluster_reduce(frame: Frame, op: Op) -> None:
    """Give this block's part, and pause until all parts are there."""
    cluster, rank = frame.instance.cluster, frame.instance.rank
    assert cluster is not None, "no cluster was launched"
    if not frame.instance.state.get("arrived"):
        frame.fail(op, "run-race", "this block has not told the others that they may write to it")
    turn = frame.instance.state[op] = frame.instance.state.get(op, -1) + 1
    parts = cluster.given.setdefault((op, turn), {})
    value = op.operands[0]
    unknown = frame.undefined.get(value)
    parts[rank] = (np.array(frame.read(value)), unknown)

    def ready() -> bool:
        missing = cluster.ended - parts.keys()
        if missing:
            frame.fail(op, "run-race", f"block {min(missing)} of the cluster has ended without "
                       "its part of this sum")
        return len(parts) == cluster.size

    def go_on() -> None:
        everywhere = op.attributes.get("all")  # then all blocks add up in the same order
        order = sorted(parts, key=lambda other: other if everywhere else distance(
            other, rank, cluster.size))
        total, cause = parts[order[0]][0].copy(), op
        extents = shape(op.result.type)
        mask = owned(op, extents, rank) & False if everywhere else ~owned(op, extents, rank)
        for other in order:
            array, undefined = parts[other]
            if other != order[0]:
                total = arrays.combine(scalar(op.result.type), op.attributes["kind"], total, array)
            if undefined is not None:
                mask, cause = mask | undefined[0], undefined[1]
        frame.define(op.result, total if extents else total[()], mask, cause)

    frame.pause = ready, go_on


def distance(other: int, rank: int, size: int) -> int:
    """The place of another block among those that send to one; 0 is its own.

    >>> [distance(other, 1, 3) for other in range(3)], [distance(other, 1, 4) for other in range(4)]
    ([2, 0, 1], [1, 0, 3, 2])
    """
    return other ^ rank if size & (size - 1) == 0 else (other - rank) % size


def owned(op: Op, extents: tuple[int, ...], rank: int) -> Any:
    """Which elements of a sum the block owns."""
    index = np.arange(int(np.prod(extents, dtype=np.int64))).reshape(extents)
    owner = np.zeros(extents, np.int64)
    for i, bit in enumerate(op.attributes["owner"]):
        owner += (index & bit != 0).astype(np.int64) << i
    return owner == rank
