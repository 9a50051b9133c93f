"""The module around the kernels: signatures, shared memory, constants, checks, source lines."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from backend_programs import PROGRAMS
from machine_programs import execute, ptx
from programs import PTXAS, ptxas
from sketch import Program, Sketch, parse, same
from test_backend_passes import lowered

from tritonc import driver
from tritonc.backend import assemble, llvm, parts
from tritonc.backend.ahead import Ahead
from tritonc.backend.target.target import find
from tritonc.ir.types import F16, F32, I1, I32, I64, SCALARS
from tritonc.options import Options
from tritonc.source import CompileError, SourceFile, Span


def test_the_entry_has_exactly_the_parameters() -> None:
    k = Sketch("every_type", 1)
    for e in SCALARS.values():
        k._parameter(f"v_{e}", e, 0, {})
        k.pointer(f"p_{e}", e, [0])
    text = ptx(lowered(k.done()), "sm_80")
    head = text[text.index(".entry") : text.index(")\n")]
    kinds = [re.sub(r" every_type_param_\d+(\[\d+\])?,?", "", line).strip()
             for line in head.splitlines()[1:]]
    half = ".param .align 2 .b8"
    want = {"i1": ".param .u8", "i8": ".param .u8", "i16": ".param .u16", "i32": ".param .u32",
            "i64": ".param .u64", "f16": half, "bf16": half, "tf32": ".param .f32",
            "f32": ".param .f32", "f64": ".param .f64", "f8e4m3": ".param .u8",
            "f8e5m2": ".param .u8"}
    assert kinds[::2] == [want[name] for name in SCALARS]
    assert all(kind.startswith(".param .u64 .ptr .global .align") for kind in kinds[1::2])


def test_a_boolean_parameter_is_a_byte() -> None:
    k = Sketch("k", 1)
    flag = k._parameter("flag", I1, True, {})
    out = k.pointer("out", I32, [0])
    k.store(out, k.build.value("select", flag, k.number(7), k.number(9)))
    program = k.done()
    same(program.run(), execute(lowered(program)))


def copy_program(**info: object) -> Program:
    k = Sketch("copy", 2)
    x = k.pointer("x", F32, np.arange(256), **info)
    y = k.pointer("y", F32, np.zeros(256), **info)
    r = k.arange(256)
    k.store(k.at(y, r), k.load(k.at(x, r)))
    return lowered(k.done())


def test_promises_about_parameters() -> None:
    text = llvm.emit(copy_program(no_alias=True, multiple_of=48).module, find("sm_80"), Options())
    head = next(line for line in text.splitlines() if line.startswith("define ptx_kernel"))
    assert "noalias readonly align 16 %arg0" in head and "noalias align 16 %arg1" in head
    text = llvm.emit(copy_program().module, find("sm_80"), Options())
    head = next(line for line in text.splitlines() if line.startswith("define ptx_kernel"))
    assert "noalias" not in head and "readonly align 4 %arg0" in head


def test_launch_bounds() -> None:
    program = copy_program()
    program.kernel.attributes.update(min_blocks=3, max_registers=64)
    text = ptx(program, "sm_80")
    assert ".reqntid 64, 1, 1" in text and ".minnctapersm 3" in text and ".maxnreg 64" in text


def test_shared_memory_is_static_while_it_can_be() -> None:
    program = lowered(PROGRAMS["matmul"]())
    size = program.kernel.attributes["shared_bytes"]
    assert not llvm.uses_dynamic_shared(program.kernel, find("sm_80"))
    assert f"shared_matmul[{size}]" in ptx(program, "sm_80")
    program.kernel.attributes["shared_bytes"] = 48 * 1024 + 16
    assert llvm.uses_dynamic_shared(program.kernel, find("sm_80"))
    text = ptx(program, "sm_80")
    assert ".extern .shared .align 1024 .b8 dynamic_shared[]" in text


CONSTANTS = """
constant @numbers : f32[4] = [1.5, -0, inf, 3]
constant @small : i8[3] = [-1, 2, 127]
constant @later : i32[8]

kernel @k(f32* %out) {
  %t = constant_table {symbol = numbers} : f32 constant*
  %s = constant_table {symbol = small} : i8 constant*
  %z = constant_table {symbol = later} : i32 constant*
  %i = constant {value = 3} : i32
  %p = addptr %t, %i : f32 constant*
  %v = load %p : f32
  %w = load %s : i8
  %f = sitofp %w : f32
  %u = load %z : i32
  %g = sitofp %u : f32
  %x = fadd %v, %f : f32
  %y = fadd %x, %g : f32
  store %out, %y
  ret
}
"""


def test_constant_memory() -> None:
    module = parse(re.sub(r"\{\n", "{\nentry:\n", CONSTANTS, count=1))
    module.kernels[0].attributes["num_warps"] = 1
    program = Program(module, [np.zeros(1, np.float32)], (1,))
    assert execute(program)["out"] == [2.0] and program.run()["out"] == [2.0]
    text = ptx(program, "sm_80")
    assert ".const .align 16 .b8 later[32]" in text
    assert "ld.const" in text


def test_a_parameter_cannot_point_to_constants() -> None:
    module = parse("kernel @k(f32 constant* %p) {\nentry:\n  ret\n}\n")
    module.kernels[0].attributes["num_warps"] = 1
    with pytest.raises(CompileError) as caught:
        llvm.emit(module, find("sm_80"), Options())
    assert caught.value.diagnostics[0].name == "constant-parameter"


def checked() -> Program:
    k = Sketch("checked", 2)
    x = k.pointer("x", F32, np.arange(64))
    r = k.arange(64)
    value = k.load(k.at(x, r))
    n = k.integer("n", 64)
    k.build.emit("assert", k.less(r, n), message='"quoted" \\ text')
    k.build.emit("printf", n, k.number(2.5, F16), k.number(1, I64), format="%d %f %ld\n")
    k.build.emit("printf", r, value, format="%d: %f\n")
    k.store(k.at(x, r), value)
    return lowered(k.done())


def test_checks_cost_nothing_unless_wanted() -> None:
    plain = ptx(checked(), "sm_80")
    assert "vprintf" not in plain and "__assertfail" not in plain
    text = ptx(checked(), "sm_80", device_assert=True)
    assert text.count("call.uni") >= 3 and "__assertfail" in text and "vprintf" in text
    assert 'declare i32 @vprintf(ptr, ptr)' in llvm.emit(
        checked().module, find("sm_80"), Options(device_assert=True))


@pytest.mark.skipif(PTXAS is None, reason="needs ptxas")
def test_ptxas_accepts_checks_and_lines(tmp_path: Path) -> None:
    ptxas(ptx(checked(), "sm_80", device_assert=True), "sm_80", tmp_path)
    ptxas(ptx(located(), "sm_80", line_info=True), "sm_80", tmp_path)


def located() -> Program:
    """Every operation stands on a line of its own."""
    program = copy_program()
    source = SourceFile('a "b".tc', "line\n" * 100)
    program.kernel.span = Span(source, 0, 4)
    for i, op in enumerate(program.kernel.ops()):
        op.span = Span(source, 5 * i + 5, 5 * i + 9)
    return program


def test_source_lines() -> None:
    text = ptx(located(), "sm_80", line_info=True)
    lines = {int(n) for n in re.findall(r"\.loc\s+1 (\d+) ", text)}
    assert ".file\t1 \"a 'b'.tc\"" in text and len(lines) > 3
    assert ".loc" not in ptx(located(), "sm_80") and ".debug_info" not in text


def test_a_missing_instruction_is_reported_where_it_stands() -> None:
    program = lowered(PROGRAMS["matmul nt"](), target="sm_80")
    copies = [op for op in program.kernel.ops() if op.name == "async_copy"]
    for op in copies:
        op.span = Span(SourceFile("m.tc", "a @ b"), 0, 5)
    with pytest.raises(CompileError) as caught:
        llvm.emit(program.module, find("sm_75"), Options())
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.name == "target-lacks-feature" and str(diagnostic.span) == "m.tc:1:1"


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_levels_of_optimisation(level: int) -> None:
    program = lowered(PROGRAMS["softmax"]())
    text = ptx(program, "sm_80", opt_level=level)
    assert "shfl.sync" in text
    if level:
        assert text.count("\n") <= ptx(program, "sm_80", opt_level=0).count("\n")


def test_contraction_where_it_is_marked() -> None:
    def program(contract: bool) -> Program:
        k = Sketch("k", 2)
        x = k.pointer("x", F32, np.zeros(64))
        r = k.arange(64)
        a = k.load(k.at(x, r))
        given = {"contract": True} if contract else {}
        k.store(k.at(x, r), k.fadd(k.build.value("fmul", a, a, **given), a, **given))
        return lowered(k.done())

    assert "fma.rn.f32" in ptx(program(True), "sm_80")
    plain = ptx(program(False), "sm_80")
    assert "fma.rn.f32" not in plain and "mul.rn.f32" in plain


_PRINT = """
import sys
sys.path[:0] = {path!r}
from backend_programs import PROGRAMS
from machine_programs import ptx
from test_backend_passes import lowered
for name in ("matmul one warp", "softmax", "histogram"):
    print(ptx(lowered(PROGRAMS[name]()), "sm_80"))
"""


def test_the_same_bytes_under_every_hash_seed() -> None:
    outputs = set()
    for seed in ("1", "77"):
        done = subprocess.run([sys.executable, "-c", _PRINT.format(path=sys.path)],
                              capture_output=True, text=True, env={"PYTHONHASHSEED": seed,
                                                                  "PATH": "/usr/bin"})
        assert done.returncode == 0, done.stderr
        outputs.add(done.stdout)
    assert len(outputs) == 1


def test_a_restricted_parameter_that_is_read_and_written() -> None:
    """Threads read what others have written: LLVM must not take it for their own."""
    k = Sketch("add", 2)
    x = k.pointer("x", F32, np.zeros(256), no_alias=True)
    r = k.arange(256)
    k.store(k.at(x, r), k.load(k.at(x, r)))
    text = llvm.emit(lowered(k.done()).module, find("sm_80"), Options())
    assert "noalias" not in next(line for line in text.splitlines() if "ptx_kernel" in line)


def test_early_cse_leaves_out_multiply_adds() -> None:
    """Code generation is faster, and gives what it gave."""
    path = Path(__file__).parents[2] / "samples" / "matmul.tc"
    source, options = SourceFile(str(path), path.read_text()), Options()
    text = driver.compile(source, options, ("ll",)).outputs["ll"]
    plain = text.replace(f' "{assemble.PRODUCTS}"', "")
    assert plain != text and "coroutine" not in text
    assert assemble.assemble(plain, find("sm_80"), options) == assemble.assemble(
        text, find("sm_80"), options)
    assert assemble.PRODUCTS not in llvm.emit(copy_program().module, find("sm_80"), options)


def test_parts_of_a_module_give_its_ptx(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads share the kernels of a large module; only labels have other numbers."""
    path = Path(__file__).parents[2] / "samples" / "attention.tc"
    options = Options(arch="sm_90a", small_clusters=True)
    source, target = SourceFile(str(path), path.read_text()), find("sm_90a")
    text = driver.compile(source, options, ("ll",)).outputs["ll"]
    assert len(parts.split(text)) > 1
    threaded = assemble.assemble(text, target, options)
    assert threaded == assemble.assemble(text, target, options)
    monkeypatch.setattr(parts, "LEAST", 1 << 30)
    assert len(parts.split(text)) == 1

    def plain(ptx: str) -> str:
        return re.sub(r"BB[0-9]+_", "BB_", ptx)

    assert plain(assemble.assemble(text, target, options)) == plain(threaded)


def test_what_shares_code_is_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = "".join(f"\ndefine ptx_kernel void @k{i}() {{\n  ret void\n}}\n" for i in range(2))
    monkeypatch.setattr(parts, "LEAST", 1)
    assert len(parts.split(kernels)) == 2
    for beside in ("declare void @llvm.nvvm.barrier0()",
                   "define internal float @tritonc.f(float %a0) #4 {\n  ret float %a0\n}"):
        assert len(parts.split(f"{kernels}{beside}\n")) == 2
    for shared in ("declare i32 @vprintf(ptr, ptr)", "define void @helper() {\n  ret void\n}",
                   "define internal void @tritonc.f() #5 {\n  ret void\n}"):
        assert len(parts.split(f"{kernels}{shared}\n")) == 1
    shared = "@shared_k1 = internal addrspace(3) global [4 x i8] poison, align 4"
    first, second = (kernels.replace("k1() {", f"k1() {{\n  store i8 0, ptr addrspace(3) {name}")
                     for name in ("@shared_k1", "@shared_k10"))
    assert not any(shared in part for part in parts.split(f"{shared}\n{second}"))
    alone, with_memory = parts.split(f"{shared}\n{first}")
    assert shared not in alone and shared in with_memory
    text, options = f'target triple = "{assemble.TRIPLE}"\n{kernels}', Options(arch="sm_90a")
    threaded = assemble.assemble(text, find("sm_90a"), options)  # without globals
    monkeypatch.setattr(parts, "LEAST", 1 << 30)
    assert threaded == assemble.assemble(text, find("sm_90a"), options)


def test_kernels_whose_ptx_is_made_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is that of the module; a kernel that has another name since is made again."""
    path = Path(__file__).parents[2] / "samples" / "attention_backward.tc"
    options = Options(arch="sm_90a", small_clusters=True)
    source, target = SourceFile(str(path), path.read_text()), find("sm_90a")
    made = driver.compile(source, options, ("ptx", "ll")).outputs
    assert driver.compile(source, options, ("ptx",)).outputs["ptx"] == made["ptx"]
    result = driver.compile(source, options, ("manifest",))
    assert result.module is not None
    threads = Ahead(result.module.constants, target, options, final=False)
    first, second, _ = kernels = result.module.kernels
    monkeypatch.setattr(parts, "LEAST", 1)
    threads.begin(first)
    threads.begin(second)
    second.name = "renamed"
    threads.settle(kernels)
    found = threads.ptx()
    assert found.count(".visible .entry ") == len(kernels) and ".entry renamed(" in found


def test_many_addresses_of_a_pointer() -> None:
    """Beyond the first, its name changes, so that LLVM need not compare each with all before it;
    nothing is left of that in the PTX."""
    k = Sketch("squares", 1)
    x = k.pointer("x", F32, np.arange(4099))
    y = k.pointer("y", F32, np.zeros(1 << 15))
    r = k.arange(1 << 15)
    k.store(k.at(y, r), k.load(k.at(x, k.urem(k.mul(r, r), k.full(4099, I32, 1 << 15)))))
    program = lowered(k.done())
    text = llvm.emit(program.module, find("sm_80"), Options())
    assert 1 < text.count("= call ptr addrspace(1) @llvm.launder") < 8
    assert "launder" not in ptx(program, "sm_80")
    got = execute(program, "sm_80")["y"]
    assert np.array_equal(got, np.arange(1 << 15, dtype=np.int64) ** 2 % 4099)
