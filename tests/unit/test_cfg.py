"""Control-flow graphs against definitions by brute force, and the edits of edges."""

from __future__ import annotations

import random

import pytest

from tritonc.ir.build import Builder
from tritonc.ir.cfg import Cfg, incoming, merge_edges, remove_unreachable, split_edge
from tritonc.ir.context import Context
from tritonc.ir.core import Block, Kernel, Op, ParameterInfo, Value
from tritonc.ir.types import I1, I32
from tritonc.opt.loops.canonicalize_loops import canonicalize_loops


def graph(edges: dict[str, str]) -> tuple[Kernel, dict[str, Block]]:
    """A kernel whose blocks branch as told: "a": "b c" is a conditional branch to b and c."""
    condition = Value(I1, "c")
    blocks = {name: Block(name) for name in edges}
    for name, targets in edges.items():
        to = [blocks[t] for t in targets.split()]
        operands = [condition] if len(to) == 2 else []
        blocks[name].ops.append(Op(("ret", "br", "cond_br")[len(to)], operands, blocks=to))
    kernel = Kernel("k", [condition], [ParameterInfo()], list(blocks.values()))
    return kernel, blocks


NESTED = {"entry": "outer", "outer": "pre end", "pre": "inner", "inner": "body next",
          "body": "inner", "next": "outer", "end": ""}


def test_orders_and_predecessors() -> None:
    kernel, block = graph(NESTED)
    cfg = Cfg(kernel)
    assert [b.name for b in cfg.order] == ["entry", "outer", "pre", "inner", "body", "next", "end"]
    assert cfg.predecessors[block["outer"]] == [block["entry"], block["next"]]
    assert cfg.predecessors[block["entry"]] == []
    assert all(cfg.reachable(b) for b in kernel.blocks)


def test_loops_of_a_nest() -> None:
    kernel, block = graph(NESTED)
    outer, inner = Cfg(kernel).loops
    assert outer.header is block["outer"] and inner.header is block["inner"]
    assert inner.parent is outer and (outer.depth, inner.depth) == (1, 2)
    assert outer.preheader is block["entry"] and inner.preheader is block["pre"]
    assert [b.name for b in outer.blocks] == ["outer", "pre", "inner", "body", "next"]
    assert outer.latch is block["next"] and inner.latch is block["body"]
    assert inner.exits == [(block["inner"], block["next"])]
    assert outer.exits == [(block["outer"], block["end"])]
    assert Cfg(kernel).innermost[block["pre"]].depth == 1
    assert block["end"] not in Cfg(kernel).innermost


def test_one_header_with_two_latches_is_one_loop() -> None:
    kernel, block = graph({"entry": "head", "head": "a end", "a": "b c", "b": "head", "c": "head",
                           "end": ""})
    (loop,) = Cfg(kernel).loops
    assert loop.latches == [block["b"], block["c"]] and loop.latch is None
    canonicalize_loops(kernel, Context())
    (again,) = Cfg(kernel).loops
    assert again.latch is not None


def test_twice_the_same_successor_is_one_predecessor() -> None:
    kernel, block = graph({"entry": "a a", "a": ""})
    assert Cfg(kernel).predecessors[block["a"]] == [block["entry"]]


def random_graph(seed: int) -> Kernel:
    rng = random.Random(seed)
    names = [f"b{i}" for i in range(rng.randint(1, 9))]
    edges = {name: " ".join(rng.choice(names[1:] or [name]) for _ in range(rng.randint(0, 2)))
             for name in names}
    if len(names) == 1:
        edges = {"b0": ""}
    return graph(edges)[0]


def reach(start: Block, without: Block | None) -> set[Block]:
    seen: set[Block] = set()
    stack = [start] if start is not without else []
    while stack:
        block = stack.pop()
        if block not in seen:
            seen.add(block)
            stack.extend(s for s in block.successors if s is not without)
    return seen


@pytest.mark.parametrize("seed", range(60))
def test_dominators_by_definition(seed: int) -> None:
    kernel = random_graph(seed)
    cfg = Cfg(kernel)
    live = reach(kernel.entry, None)
    assert set(cfg.order) == live
    for a in kernel.blocks:
        assert cfg.reachable(a) == (a in live)
        left = reach(kernel.entry, a)
        for b in kernel.blocks:
            assert cfg.dominates(a, b) == (b not in left if a in live else b not in live), (a, b)
    for block in cfg.order[1:]:
        above = cfg.immediate_dominator[block]
        assert above is not None and above is not block and cfg.dominates(above, block)
        strict = [b for b in cfg.order if b is not block and cfg.dominates(b, block)]
        assert all(cfg.dominates(b, above) for b in strict)
        assert block in cfg.children[above]


@pytest.mark.parametrize("seed", range(60))
def test_loops_by_definition(seed: int) -> None:
    kernel = random_graph(seed)
    cfg = Cfg(kernel)
    for loop in cfg.loops:
        for block in loop.blocks:
            assert cfg.dominates(loop.header, block)
            assert any(latch in reach(block, None) for latch in loop.latches)
        for latch in loop.latches:
            assert loop.header in latch.successors and latch in loop
        for inside, outside in loop.exits:
            assert inside in loop and outside not in loop and outside in inside.successors
        if loop.parent:
            assert loop.block_set < loop.parent.block_set
    back = {(a, b) for a in cfg.order for b in a.successors if cfg.dominates(b, a)}
    assert back == {(latch, loop.header) for loop in cfg.loops for latch in loop.latches}


def kernel_with_phi() -> tuple[Kernel, dict[str, Block], Op]:
    """Two ways into a loop, which counts from 1 or from 2."""
    kernel, block = graph({"entry": "left right", "left": "head", "right": "head",
                           "head": "body end", "body": "head", "end": ""})
    one = Builder(block["left"], 0).constant(1, I32)
    two = Builder(block["right"], 0).constant(2, I32)
    phi = Op("phi", [one, two, one], None, (I32,),
             blocks=[block["left"], block["right"], block["body"]])
    phi.operands[2] = phi.result
    block["head"].ops.insert(0, phi)
    return kernel, block, phi


def test_preheader_merges_the_entries_of_phis() -> None:
    kernel, block, phi = kernel_with_phi()
    (loop,) = Cfg(kernel).loops
    assert loop.preheader is None
    canonicalize_loops(kernel, Context())
    preheader = Cfg(kernel).loops[0].preheader
    assert preheader is not None
    assert preheader.phis()[0].blocks == [block["left"], block["right"]]
    assert phi.blocks == [block["body"], preheader]
    assert incoming(phi, preheader) is preheader.phis()[0].result
    assert incoming(phi, block["body"]) is phi.result
    assert kernel.blocks.index(preheader) == kernel.blocks.index(block["head"]) - 1
    assert not canonicalize_loops(kernel, Context())


def test_merge_of_equal_values_makes_no_phi() -> None:
    kernel, block, phi = kernel_with_phi()
    phi.operands[1] = phi.operands[0]
    middle = merge_edges(kernel, [block["left"], block["right"]], block["head"], "m")
    assert middle.phis() == [] and incoming(phi, middle) is block["left"].ops[0].result


def test_split_edge_moves_the_phi() -> None:
    kernel, block, phi = kernel_with_phi()
    middle = split_edge(kernel, block["left"], block["head"])
    assert phi.blocks[0] is middle and block["left"].successors == [middle]
    assert middle.successors == [block["head"]]
    assert Cfg(kernel).predecessors[block["head"]] == [block["right"], middle, block["body"]]


def test_remove_unreachable_drops_phi_operands() -> None:
    kernel, block, phi = kernel_with_phi()
    block["entry"].ops[-1] = Op("br", [], blocks=[block["left"]])
    assert remove_unreachable(kernel)
    assert block["right"] not in kernel.blocks
    assert phi.blocks == [block["left"], block["body"]] and len(phi.operands) == 2
    assert not remove_unreachable(kernel)
