"""Attention and its like on simulated tensor cores: products that run ahead, stages, masks."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from programs import ROOT, Setting, check, compiled, simulate
from simulator.machine import handlers

from tritonc import driver
from tritonc.backend.shared.shared_memory import allocation
from tritonc.backend.target.machine_ops import ALL_OPS
from tritonc.interp.interpreter import InterpreterError
from tritonc.ir.cfg import Cfg
from tritonc.ir.core import Kernel, Op
from tritonc.ir.types import Buffer, shape
from tritonc.launch.interpreter import launch
from tritonc.launch.run_problems import run_problems
from tritonc.options import NATIVE, Options
from tritonc.source import Diagnostics, SourceFile

PLAIN, CAUSAL = (ROOT / "samples" / f"{name}.tc" for name in ("attention", "attention_causal"))
CHAIN = ROOT / "tests" / "run" / "chained_products.tc"
MASKS = ROOT / "tests" / "run" / "masks_of_whole_tiles.tc"
BACKWARD = ROOT / "samples" / "attention_backward.tc"
LATENT, PAGES, LENGTHS, BLOCKS, SCALED, PASSES, BIAS = (
    ROOT / "bench" / "ways" / "attention" / f"{name}.tc" for name in (
        "latent", "pages", "loaded_lengths", "block_list", "scaled_queries", "two_passes",
        "bias"))
FLOAT8 = ROOT / "bench" / "suite" / "attention_fp8.tc"
PREFILL, RING_STEP, BYTES, LISTED = (ROOT / "bench" / "unseen" / f"{name}.tc" for name in (
    "paged_prefill", "ring_step", "kv8_prefill", "flex_blocks"))


def setting(path: Path, values: str) -> Setting:
    return Setting(path, tuple((n, v) for n, _, v in (
        pair.partition("=") for pair in values.split(","))))


@pytest.mark.parametrize("path, values", [
    (PLAIN, "H=1,S=200,TM=64,TN=32"), (PLAIN, "H=2,S=1,TM=64,TN=64"),
    (PLAIN, "H=1,S=290,D=128,TM=128,TN=128"),  # persistent: waits that come before the copies
    (CAUSAL, "H=2,S=130,TM=64,TN=32"), (CAUSAL, "H=1,S=200,TM=128,TN=64"),
    *((CHAIN, f"M=3,N=300,T={count}") for count in (0, 64, 65, 257)),
    *((MASKS, f"N=16385,FROM={count}") for count in (0, 8192, 16400)),
    *((BACKWARD, f"D=64,BH=1,{values}") for values in (
        "TM=64,TN=128,QM=64,QN=128,S=300", "TM=128,TN=64,QM=128,QN=64,S=260",
        "TM=64,TN=64,QM=64,QN=64,S=20")),
    (FLOAT8, "D=64,BH=1,TM=128,TN=64,S=200"),
    (LATENT, "H=1,TM=64,TN=64,S=130"), (LATENT, "H=2,TM=128,TN=128,S=130"),
    (PAGES, "H=2,S=200,TM=64,TN=32"), (PAGES, "H=2,S=300,D=128,TM=128,TN=128"),
    *((path, f"H=2,S={count},D=128,TM=128,TN=128") for path, count in (
        (LENGTHS, 300), (BLOCKS, 512), (SCALED, 130), (PASSES, 300))),
    (PASSES, "H=2,S=130,TM=128,TN=128"),
    (BIAS, "H=2,S=304,D=128,TM=128,TN=128"),  # of which a stage is there at a time
    (PREFILL, "NEW=40,BQ=128,BK=64"),  # pages of 16 rows
    (LISTED, "H=1,BN=128"),  # rows of blocks that a table names are counted
], ids=lambda value: getattr(value, "stem", value))
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_simulated(path: Path, values: str, target: str, thorough: bool) -> None:
    if target == "sm_80" and path in (
            BACKWARD, CAUSAL, MASKS, PAGES, LENGTHS, BLOCKS, SCALED, PASSES,
            BIAS, PREFILL, LISTED) and not thorough:
        pytest.skip("needs --thorough")  # what they are about is of sm_90a
    simulate(setting(path, values), target)


def test_without_a_producer_warp_nothing_waits_before_the_copies(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `specialize_warps` refuses, the pipeline is made again: text that is rotated for roles
    waits for copies that come later in it."""
    monkeypatch.setattr("tritonc.backend.pipeline.tma.specialize_warps._apart", lambda *_: False)
    for result, data in compiled(setting(PLAIN, "H=1,S=290,D=128,TM=128,TN=128"), "sm_90a"):
        assert not any(op.name == "start_producer" for op in data.kernel.ops())
        check(result, data)


def loop_of_products(kernel: Kernel) -> list[Op]:
    """The operations of the innermost loop that starts two products."""
    for loop in reversed(Cfg(kernel).loops):
        ops = [op for block in loop.blocks for op in block.ops]
        if sum(op.name == "wgmma" for op in ops) == 2:
            return ops
    raise AssertionError("no loop of two products")


def test_products_and_softmax_overlap() -> None:
    (result, _), = compiled(setting(PLAIN, "TM=128,TN=128"), "sm_90a")
    assert result.module is not None
    names = [(op.name, op.attributes.get("pending"))
             for op in loop_of_products(result.module.kernels[0])]
    order = [name for name in names if name[0] in (
        "wait_full", "wgmma", "wgmma_wait", "exp2", "any_other", "scale", "barrier")]
    # The assembler moves no wait for a product over the loop that is a wait for a stage.
    assert order == [("wait_full", None), ("wgmma", None), ("wgmma", None), ("wgmma_wait", 1),
                     ("exp2", None), ("exp2", None), ("any_other", None), ("wait_full", None),
                     ("wgmma_wait", 0), ("scale", None)]
    assert ("select", None) not in names[: names.index(("cond_br", None))]
    starts = [i for i, name in enumerate(names) if name[0] == "wgmma"]
    assert ("fmul", None) not in names[starts[0] : starts[1]]  # the tensor cores would wait for it
    assert result.module.kernels[0].attributes["producer_warps"]


@pytest.mark.parametrize("heads, stages", [(64, [2, 2, 2]), (128, [1, 2, 3])])
def test_queries_of_the_next_program_come_early(heads: int, stages: list[int]) -> None:
    """Their buffer has two stages, or one that the last iteration releases when its first product
    has read it: then there is a third stage of what the second product reads.  Bodies of which one
    runs share what they keep all the time."""
    (result, _), = compiled(setting(PLAIN, f"D={heads},TM=128,TN=128"), "sm_90a")
    assert result.module is not None
    kernel = result.module.kernels[0]
    buffers = [op.result.type for op in kernel.ops()
             if op.name == "alloc_shared" and op.attributes.get("continues")]
    assert [buffer.stages for buffer in buffers if isinstance(buffer, Buffer)] == stages
    released = [[op.guard is not None for op in loop.ops() if op.name == "arrive_empty"]
                for loop in Cfg(kernel).loops if loop.depth == 2]
    assert released == [[True, False, False] if stages[0] == 1 else [False, False]]


def started_and_waited_for(kernel: Kernel) -> list[list[tuple[str, int | None]]]:
    """What happens around products in the loops that read them from a buffer."""
    seen = ("wgmma", "wgmma_wait", "exp2", "arrive_empty", "shared_store")
    found = []
    for loop in Cfg(kernel).loops:
        ops = [op for block in loop.blocks for op in block.ops]
        if any(op.name == "arrive_empty" for op in ops):
            found.append([(op.name, op.attributes.get("pending")) for op in ops
                          if op.name in seen])
    return found


def gradients(values: str) -> dict[str, list[tuple[str, int | None]]]:
    """The loops of dK and dV, and of dQ."""
    results = [result for result, _ in compiled(setting(BACKWARD, values), "sm_90a")]
    assert results[0].module is not None
    return {kernel.name: found[0] for kernel in results[0].module.kernels
            if (found := started_and_waited_for(kernel))}


def test_chains_of_products_overlap() -> None:
    """Sums run beside the exponentials of the next iteration, where there are registers for them;
    else two products start together, and the sums when both have ended."""
    start = [("wgmma", None)]
    found = gradients("D=128,TM=64,TN=128")
    assert found["gradients_of_kv"] == [
        *start * 2, ("wgmma_wait", 1), ("exp2", None), ("wgmma_wait", 0), *start * 2,
        ("wgmma_wait", 0), ("arrive_empty", None)]
    found = gradients("D=64,TM=64,TN=128")
    assert found["gradients_of_kv"] == [
        *start * 4, ("wgmma_wait", 3), ("exp2", None), ("wgmma_wait", 2), ("wgmma_wait", 0),
        ("arrive_empty", None)]
    found = gradients("D=128,QM=128,QN=64")
    assert found["gradient_of_q"] == [
        *start * 3, ("wgmma_wait", 2), ("exp2", None), ("wgmma_wait", 1), ("wgmma_wait", 0),
        ("arrive_empty", None)]


def test_blocks_of_one_warpgroup_stand_beside_each_other() -> None:
    """Products wait for each other there: a second block fills the time, not a producer warp."""
    results = [result for result, _ in compiled(
        setting(BACKWARD, "D=128,TM=64,TN=64,QM=64,QN=64"), "sm_90a")]
    assert results[0].module is not None
    for kernel in results[0].module.kernels[1:]:
        assert kernel.attributes["num_warps"] == 4 and kernel.attributes["min_blocks"] == 2
        assert "producer_warps" not in kernel.attributes
        assert kernel.attributes["shared_bytes"] < 113 << 10


def test_an_operand_is_made_while_products_run() -> None:
    """Rows of v are converted into one of two buffers while a product reads the other."""
    (result, _), = compiled(setting(FLOAT8, "D=128,TM=128,TN=128"), "sm_90a")
    assert result.module is not None
    assert started_and_waited_for(result.module.kernels[0]) == [
        [("wgmma", None), ("wgmma", None), ("wgmma_wait", 1), ("arrive_empty", None),
         ("exp2", None), ("exp2", None), ("shared_store", None), ("wgmma_wait", 0)]]


def test_maps_are_made_while_rows_are_on_their_way() -> None:
    """Rows of q, and of k by the threads' own copies; the engine brings those of v.  It stores no
    results: their map would be waited for."""
    def stored_by_threads(source: SourceFile, options: Options, kinds: tuple[str, ...]
                          ) -> driver.Result:
        tune = {**options.tune, "tma_store": 0}
        return driver.compile(source, replace(options, tune=tune), kinds)

    (result, _), = compiled(setting(PLAIN, "TM=128,TN=128"), "sm_90a", make=stored_by_threads)
    assert result.module is not None
    kernel = result.module.kernels[0]
    home = next(b for b in kernel.blocks if any(op.name == "claim_slot" for op in b.ops))
    names = [op.name for op in home.ops]
    set_up = ["async_copy", "load", "claim_slot", "start_producer", "shared_store", "async_wait",
              "proxy_fence", "barrier", "arrive_full", "tma_load"]
    assert [name for name in names if name in set_up] == [*set_up[:3], "barrier", *set_up[3:]]


@pytest.mark.parametrize("path, values, ordered", [
    (PLAIN, "TM=128,TN=128", False), (CAUSAL, "TM=128,TN=128", True), (CAUSAL, "TM=64", True)])
def test_the_longest_instances_come_first(path: Path, values: str, ordered: bool) -> None:
    """In persistent blocks too, of few columns; of others they take rounds to and fro."""
    (result, _), = compiled(setting(path, values), "sm_90a")
    assert result.module is not None
    kernel = result.module.kernels[0]
    assert any(r.name == "row" for op in kernel.ops() for r in op.results) == ordered
    assert any(op.name == "tma_load" for op in kernel.ops())  # boxes begin at known places


def test_short_rows_are_for_blocks_of_one_warpgroup() -> None:
    """By default: three of them fill a multiprocessor, and none of them is persistent."""
    (result, _), = compiled(Setting(PLAIN, ()), "sm_90a")
    assert result.module is not None
    kernel = result.module.kernels[0]
    assert (kernel.attributes["num_warps"], kernel.attributes["min_blocks"]) == (4, 3)
    assert all(op.name != "get_num_multiprocessors" for op in kernel.ops())


def test_sums_are_made_beside_the_products() -> None:
    (result, _), = compiled(setting(PLAIN, "TM=128,TN=64"), "sm_90a")
    assert result.module is not None
    ops = loop_of_products(result.module.kernels[0])
    sums = [i for i, op in enumerate(ops) if op.attributes.get("kind") == "fadd"]
    starts = [i for i, op in enumerate(ops) if op.name == "wgmma"]
    wait = next(i for i, op in enumerate(ops) if op.name == "wgmma_wait")
    assert len(sums) == 2 and starts[1] < sums[0] < wait < sums[1]  # across lanes; in a thread


RISING = """
kernel void scaled(const half* a align(16), const half* b align(16), const half* c align(16),
                   const float* top, half* y, int n) {
  int rm[128] = 0 ... 128;
  int rw[64] = 0 ... 64;
  const half* pb[64, 64] = b + rw[:, newaxis] * 64 + rw;
  const half* pc[64, 64] = c + rw[:, newaxis] * 64 + rw;
  half A[128, 64] = *(a + rm[:, newaxis] * 64 + rw);
  float acc[128, 64] = 0;
  float most[128] = 0;
  for (int i = 0; i < n; i += 1) {
    float next[128] = max(most, *(top + (i * 128 + rm) * 2));
    acc = acc * exp2(most - next)[:, newaxis];
    acc += dot((half[128, 64])dot(A, trans(*pb)), *pc);
    most = next;
    pb += 64 * 64;
    pc += 64 * 64;
  }
  *(y + rm[:, newaxis] * 64 + rw) = acc;
}
"""


def test_scores_of_two_products_overlap_with_the_softmax() -> None:
    """As those of one: the second product adds to the first.  Persistent blocks have no room for a
    result beside both stages of the keys: threads store it."""
    (result, _), = compiled(setting(LATENT, "D=128,TM=128,TN=128"), "sm_90a")
    assert result.module is not None
    kernel = result.module.kernels[0]
    found = min(started_and_waited_for(kernel), key=len)
    assert [one for one in found if one[0] != "arrive_empty"] == [
        ("wgmma", None), ("wgmma_wait", 0), *[("wgmma", None)] * 2, ("wgmma_wait", 1),
        *[("exp2", None)] * 2, ("wgmma_wait", 0)]
    assert len(started_and_waited_for(kernel)) > 1 and kernel.attributes["producer_warps"]
    assert "tma_store" not in [op.name for op in kernel.ops()]


def test_a_bias_has_one_stage_where_two_leave_no_room_for_results() -> None:
    """Blocks are persistent so: the next program's operands are there when it begins."""
    (result, _), = compiled(setting(BIAS, "D=128,TM=128,TN=128"), "sm_90a")
    assert result.module is not None
    kernel = result.module.kernels[0]
    assert "tma_store" in [op.name for op in kernel.ops()]
    (stages,) = {allocation(op.operands[0])[0].result.type for op in kernel.ops()
                 if op.name == "shared_load" and op.operands[0].op is not None
                 and op.operands[0].op.name == "buffer_stage"}
    assert isinstance(stages, Buffer) and stages.stages == 1


def test_warps_ask_for_the_factors_of_their_own_rows() -> None:
    """Not where other threads have them: these lie in threads as they were loaded."""
    made = driver.compile(SourceFile("t.tc", RISING), Options(arch="sm_90a"), ("manifest",))
    assert made.module is not None
    names = [op.name for op in made.module.kernels[0].ops()]
    assert names.count("wgmma") % 4 == 0 and "start_producer" in names  # one runs ahead
    assert "shared_load" in names and "scale" not in names


@pytest.mark.gpu
@pytest.mark.parametrize("arch", [NATIVE, "sm_80"])
@pytest.mark.parametrize("values", ["TM=64,D=64,H=3,S=1000", "TM=128,D=64,H=2,S=129",
                                    "TM=128,D=128,H=3,S=1", "TM=128,D=128,H=40,S=1100"])
@pytest.mark.parametrize("path", [PLAIN, CAUSAL], ids=lambda path: path.stem)
def test_on_the_gpu(path: Path, values: str, arch: str) -> None:
    tiles = setting(path, f"{values},TN=128" if arch == NATIVE else values)
    options, sizes = tiles.options(arch=arch)
    for outcome in run_problems(tiles.source, options, "tc", Diagnostics(), device="cuda",
                                sizes=sizes):
        assert outcome.ok, outcome.line()


def without(name: str) -> Callable[[Kernel], None]:
    def drop(kernel: Kernel) -> None:
        for block in kernel.blocks:
            block.ops = [op for op in block.ops if op.name != name]
    return drop


def wait_late(kernel: Kernel) -> None:
    ops = loop_of_products(kernel)
    next(op for op in ops if op.attributes.get("pending") == 1).attributes["pending"] = 2


@pytest.mark.parametrize("sabotage, message", [
    (without("wait_empty"), "what this tma_load overwrites"),
    (without("arrive_empty"), "waits forever: nothing releases"),
    (without("wait_full"), "nothing was stored there|a copy into it is in flight"),
    (wait_late, "undefined|in flight"),
])
def test_sabotage_is_seen(sabotage: Callable[[Kernel], None], message: str) -> None:
    (result, data), = compiled(setting(CHAIN, "M=3,N=700,T=700"), "sm_90a")
    assert result.module is not None
    sabotage(result.module.kernels[0])
    with pytest.raises(InterpreterError) as caught:
        launch(result.module, data, ALL_OPS, handlers())
    assert re.search(message, caught.value.diagnostics[0].message)


def test_causal_gradients_have_two_blocks_beside_each_other() -> None:
    """Their loops begin at the program's place but end with the sequence, so they are long: at
    d = 128 small tiles, of which two blocks are resident, are faster than a block of 128 rows.  The
    gradient of q has one sum less, and room for those."""
    (result, *_) = [result for result, _ in compiled(setting(BACKWARD, "D=128"), "sm_90a")]
    assert result.manifest is not None
    assert [row["tile"] for row in result.manifest["kernels"][1:]] == [[64, 1], [128, 1]]


def test_a_producer_warp_is_not_ahead_of_lengths_that_are_loaded() -> None:
    """It could not know how often the loop runs: blocks do not stay, and it serves one program."""
    path = ROOT / "bench" / "ways" / "attention" / "loaded_lengths.tc"
    (result, *_) = [result for result, _ in compiled(setting(path, "D=128"), "sm_90a")]
    assert result.module is not None
    assert result.module.kernels[0].attributes.get("producer_warps")


def test_pages_are_parts_of_a_tile() -> None:
    """A box for each page of 16 rows, whose number a scalar load brings, by the producer warp."""
    (result, _), = compiled(setting(PREFILL, "BQ=128,BK=128"), "sm_90a")
    assert result.module is not None
    (kernel,) = result.module.kernels
    loads = [op for op in kernel.ops() if op.name == "tma_load" and "row" in op.attributes]
    assert {op.attributes["row"] for op in loads} == {*range(0, 128, 16)}
    assert {op.attributes["box"] for op in loads} == {(64, 16)}
    assert all("nothing" in op.attributes for op in loads if op.attributes["row"])
    assert any(op.name == "start_producer" for op in kernel.ops())


def test_rows_that_are_loaded_before_a_loop_lie_as_it_makes_them() -> None:
    """Running results of another step: no row goes between warps in the loop of the products."""
    (result, _), = compiled(setting(RING_STEP, "BM=128,BN=128"), "sm_90a")
    assert result.module is not None
    loops = [[*loop.ops()] for loop in Cfg(result.module.kernels[0]).loops]
    (ops,) = [ops for ops in loops if {"wait_full", "wgmma"} < {op.name for op in ops}
              and all(op.name != "store" for op in ops)]
    assert all(op.name not in ("shared_store", "barrier") and not (
        op.name == "convert_layout" and len(shape(op.result.type)) == 1) for op in ops)


def test_a_stage_is_given_back_when_its_bytes_have_come() -> None:
    """Its arrival depends on what threads load of it, which it could overtake else."""
    (result, _), = compiled(setting(BYTES, "BM=128,BN=128"), "sm_90a", ("ptx", "manifest"))
    ptx = result.outputs["ptx"].splitlines()
    loaded: set[str] = set()
    held = []
    for i, line in enumerate(ptx):
        if "ld.shared.v4" in line:
            loaded |= set(re.findall(r"%r\d+", line.partition("[")[0]))
        if "mbarrier.arrive.shared" in line:
            held.append(any(loaded & set(re.findall(r"%r\d+", one)) for one in ptx[i - 12 : i]
                            if "or.b32" in one))
    assert any(held)
