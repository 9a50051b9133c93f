"""What the interpreter computes, and what it reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tritonc.interp.interpreter import InterpreterError, Memory, run
from tritonc.interp.spread import Spread
from tritonc.ir import rules
from tritonc.ir.core import Module
from tritonc.ir.ops import OPS, SYNC, OpInfo
from tritonc.ir.syntax.parse import parse_module
from tritonc.ir.verify import check
from tritonc.source import CompileError, Diagnostics, SourceFile

TABLE = OPS | {
    "arrive": OpInfo("arrive", (), rules.nothing, "Counts.", effects=frozenset({SYNC})),
    "turn": OpInfo("turn", ("a",), lambda types, *_: (types[0],), "The tile reversed.",
                   lambda m, op, a: a[::-1]),
}


def module(body: str, parameters: str = "", top: str = "") -> Module:
    text = f"{top}\nkernel @k({parameters}) {{\nentry:\n{body}\n  ret\n}}\n"
    diagnostics = Diagnostics()
    found = parse_module(SourceFile("k.tir", text), diagnostics, TABLE)
    check(found, diagnostics, TABLE)
    return found


def execute(body: str, parameters: str = "", arguments: Any = (), memory: Memory | None = None,
            grid: tuple[int, ...] = (1,), top: str = "", **options: Any) -> None:
    run(module(body, parameters, top), "k", list(arguments), memory or Memory(), grid, table=TABLE,
        **options)


def on_arrays(body: str, *arrays: Any, types: str = "f32* f32*", extra: str = "",
              more: Any = (), **options: Any) -> list[Any]:
    """Run with a pointer %a, %b ... to each array; what the arrays hold afterwards."""
    memory = Memory()
    names = "abcdefgh"[: len(arrays)]
    addresses = [memory.allocate(a, n) for a, n in zip(arrays, names, strict=True)]
    parameters = ", ".join(f"{t} %{n}" for t, n in zip(types.split(), names, strict=True))
    execute(body, parameters + extra, [*addresses, *more], memory, **options)
    return [memory.read(a) for a in addresses]


def pointers(name: str, t: str, extent: int, base: str = "r") -> str:
    """%pNAME, a tile of `extent` pointers from %NAME on."""
    return (f"  %{name}s = splat %{name} : {t}*<{extent}>\n"
            f"  %p{name} = addptr %{name}s, %{base} : {t}*<{extent}>\n")


RANGE8 = "  %r = range {start = 0, stop = 8} : i32<8>\n"
F8 = np.arange(8, dtype=np.float32)


def error(body: str, *arrays: Any, **options: Any) -> tuple[str, str, str]:
    """Name, place and message of the error that the run ends in."""
    with pytest.raises(InterpreterError) as caught:
        on_arrays(body, *arrays, **options)
    item = caught.value.diagnostics[0]
    assert any("in instance" in note.message for note in item.notes)
    line = item.span.file.line_text(item.span.line).strip() if item.span else ""
    notes = "; ".join(note.message for note in item.notes)
    return item.name, line, f"{item.message} ({notes})"


# Programs

def test_masked_sum_over_instances() -> None:
    n = 1000
    x, y = np.arange(n, dtype=np.float32), np.full(n, 3, np.float32)
    body = ("  %r = get_global_range {axis = 0, extent = 128} : i32<128>\n"
            "  %ns = splat %n : i32<128>\n"
            "  %c = icmp %r, %ns {predicate = slt} : i1<128>\n"
            + pointers("a", "f32", 128) + pointers("b", "f32", 128) +
            "  @%c %x = load %pa : f32<128>\n  @%c %y = load %pb : f32<128>\n"
            "  %z = fadd %x, %y : f32<128>\n  @%c store %pb, %z")
    got = on_arrays(body, x, y, extra=", i32 %n", more=[n], grid=(8,))
    assert (got[1] == x + 3).all() and (got[0] == x).all()


def test_loop_with_phis_that_exchange() -> None:
    body = ("  %zero = constant {value = 0} : i32\n  %one = constant {value = 1} : i32\n"
            "  br loop\nloop:\n"
            "  %i = phi [%zero, entry], [%j, body] : i32\n"
            "  %x = phi [%zero, entry], [%y, body] : i32\n"
            "  %y = phi [%one, entry], [%s, body] : i32\n"
            "  %c = icmp %i, %n {predicate = slt} : i1\n  cond_br %c, body, end\n"
            "body:\n  %s = add %x, %y : i32\n  %j = add %i, %one : i32\n  br loop\n"
            "end:\n  store %a, %x")
    got = on_arrays(body, np.zeros(1, np.int32), types="i32*", extra=", i32 %n", more=[20])
    assert got[0][0] == 6765


@pytest.mark.parametrize("name, dtype, bits", [
    ("bf16", np.uint16, [0x3F80, 0xC000]), ("f16", np.float16, [1.0, -2.0]),
    ("f8e4m3", np.uint8, [0x38, 0xC0]), ("f8e5m2", np.uint8, [0x3C, 0xC0]),
    ("f64", np.float64, [1.0, -2.0]), ("i8", np.int8, [1, -2]), ("i64", np.int64, [1, -2])])
def test_elements_of_each_width_in_memory(name: str, dtype: Any, bits: list[Any]) -> None:
    body = ("  %r = range {start = 0, stop = 2} : i32<2>\n" + pointers("a", name, 2)
            + f"  %x = load %pa : {name}<2>\n")
    kind = "f" if name[0] in "fb" else ""
    body += f"  %y = {kind}add %x, %x : {name}<2>\n  store %pa, %y\n"
    convert = "fpcast" if kind else "sitofp"
    to_f32 = f"  %z = {convert} %y : f32<2>\n" + pointers("b", "f32", 2) + "  store %pb, %z"
    got = on_arrays(body + to_f32, np.array(bits, dtype), np.zeros(2, np.float32),
                    types=f"{name}* f32*")
    assert got[1].tolist() == [2.0, -4.0]


def test_constant_tables_are_the_programs_or_the_hosts() -> None:
    top = "constant @t : i32[8] = [1, 2, 3]"
    body = ("  %t = constant_table {symbol = t} : i32 constant*\n" + RANGE8
            + "  %ts = splat %t : i32 constant*<8>\n  %pt = addptr %ts, %r : i32 constant*<8>\n"
            "  %x = load %pt : i32<8>\n" + pointers("a", "i32", 8) + "  store %pa, %x")
    empty = np.zeros(8, np.int32)
    assert on_arrays(body, empty, types="i32*", top=top)[0].tolist() == [1, 2, 3, 0, 0, 0, 0, 0]
    memory = Memory()
    memory.define("t", np.arange(8, dtype=np.int32))
    a = memory.allocate(empty, "a")
    execute(body, "i32* %a", [a], memory, top=top)
    assert memory.read(a).tolist() == list(range(8))


def test_instances_know_their_place() -> None:
    body = ("  %x = get_program_id {axis = 0} : i32\n  %y = get_program_id {axis = 1} : i32\n"
            "  %z = get_program_id {axis = 2} : i32\n  %nx = get_num_programs {axis = 0} : i32\n"
            "  %nz = get_num_programs {axis = 2} : i32\n"
            "  %m = mul %y, %nx : i32\n  %i = add %m, %x : i32\n  %v = add %i, %z : i32\n"
            "  %w = mul %v, %nz : i32\n"
            "  %p = addptr %a, %i : i32*\n  store %p, %w")
    got = on_arrays(body, np.zeros(6, np.int32), types="i32*", grid=(2, 3))
    assert got[0].tolist() == list(range(6))


def test_printf() -> None:
    lines: list[str] = []
    execute('  %r = range {start = -1, stop = 1} : i32<2>\n  %f = sitofp %r : f32<2>\n'
            '  printf %r, %r, %f {format = "%3d %u %.2f 100%% %lld\\n"}', output=lines.append)
    assert lines == [" -1 4294967295 -1.00 100% %lld\n", "  0 0 0.00 100% %lld\n"]


def test_atomics_happen_element_by_element() -> None:
    body = (RANGE8 + "  %two = constant {value = 2} : i32<8>\n  %h = sdiv %r, %two : i32<8>\n"
            + pointers("a", "i32", 8, "h") + pointers("b", "i32", 8) +
            "  %one = constant {value = 1} : i32<8>\n"
            "  %old = atomic_rmw %pa, %one {kind = add} : i32<8>\n  store %pb, %old")
    got = on_arrays(body, np.zeros(4, np.int32), np.zeros(8, np.int32), types="i32* i32*")
    assert got[0].tolist() == [2] * 4 and got[1].tolist() == [0, 1] * 4


@pytest.mark.parametrize("kind, name, start, value, want", [
    ("fadd", "f16", 1.5, 2, 3.5), ("fmax", "f32", 1.5, -2, 1.5), ("umax", "i32", 5, -1, -1),
    ("smin", "i32", 5, -1, -1), ("and", "i32", 6, 3, 2), ("xchg", "f32", 1, 7, 7)])
def test_kinds_of_atomics(kind: str, name: str, start: Any, value: Any, want: Any) -> None:
    body = (f"  %v = constant {{value = {value}}} : {name}\n"
            f"  %old = atomic_rmw %a, %v {{kind = {kind}}} : {name}")
    dtype = {"f16": np.float16, "f32": np.float32, "i32": np.int32}[name]
    assert on_arrays(body, np.array([start], dtype), types=f"{name}*")[0][0] == want


def test_spin_lock_is_fair() -> None:
    """The last instance must come first: the others spin until it has written."""
    body = ("  %i = get_program_id {axis = 0} : i32\n  %n = get_num_programs {axis = 0} : i32\n"
            "  %one = constant {value = 1} : i32\n  %zero = constant {value = 0} : i32\n"
            "  %after = sub %n, %i : i32\n  %mine = sub %after, %one : i32\n  br spin\nspin:\n"
            "  %now = atomic_rmw %a, %zero {kind = add} : i32\n"
            "  %c = icmp %now, %mine {predicate = eq} : i1\n  cond_br %c, go, spin\n"
            "go:\n  %old = atomic_rmw %a, %one {kind = add} : i32\n"
            "  %p = addptr %b, %old : i32*\n  store %p, %i")
    got = on_arrays(body, np.zeros(1, np.int32), np.zeros(9, np.int32), types="i32* i32*",
                    grid=(9,), step_limit=100_000)
    assert got[1].tolist() == list(range(8, -1, -1))


def test_spinning_on_a_volatile_load_is_fair() -> None:
    """Instance 0 waits for what instance 1 stores."""
    body = ("  %i = get_program_id {axis = 0} : i32\n  %zero = constant {value = 0} : i32\n"
            "  %c = icmp %i, %zero {predicate = eq} : i1\n  cond_br %c, spin, set\nspin:\n"
            "  %x = load %a {volatile = true} : i32\n"
            "  %d = icmp %x, %zero {predicate = ne} : i1\n  cond_br %d, end, spin\n"
            "set:\n  store %a, %i\n  br end\nend:")
    got = on_arrays(body, np.zeros(1, np.int32), types="i32*", grid=(2,), step_limit=100_000)
    assert got[0][0] == 1


def test_loops_that_do_not_end() -> None:
    spin = "  br spin\nspin:\n  %x = atomic_rmw %a, %one {kind = xchg} : i32\n  br spin\nout:\n"
    body = "  %one = constant {value = 1} : i32\n" + spin
    assert error(body, np.zeros(1, np.int32), types="i32*", grid=(3,), step_limit=5000)[0] == (
        "run-too-long")


# Reports

def test_out_of_bounds_names_element_and_buffer() -> None:
    body = ("  %r = range {start = 0, stop = 4} : i32<4>\n"
            "  %c = range {start = 0, stop = 32} : i32<32>\n"
            "  %k = constant {value = 32} : i32<4>\n  %q = mul %r, %k : i32<4>\n"
            "  %r1 = reshape %q : i32<4, 1>\n  %c1 = reshape %c : i32<1, 32>\n"
            "  %r2 = broadcast %r1 : i32<4, 32>\n  %c2 = broadcast %c1 : i32<4, 32>\n"
            "  %o = add %r2, %c2 : i32<4, 32>\n  %s = splat %a : f32*<4, 32>\n"
            "  %p = addptr %s, %o : f32*<4, 32>\n  %x = load %p : f32<4, 32>")
    name, line, message = error(body, np.zeros(3 * 32 + 17, np.float32), types="f32*")
    assert name == "run-out-of-bounds" and line.startswith("%x = load")
    assert message.startswith("load out of bounds: element [3, 17] reads 4 bytes at a + 452 "
                              "(buffer 'a' has 452 bytes)")


def test_out_of_bounds_below_behind_and_nowhere() -> None:
    body = "  %p = addptr %a, %i : i32*\n  store %p, %i"
    for index, place in ((-1, "a - 4 (buffer 'a' has 8 bytes)"), (2, "a + 8 (buffer"),
                         (1 << 30, "a + 4294967296 (buffer 'a'")):
        name, _, message = error(body, np.zeros(2, np.int32), types="i32*", extra=", i32 %i",
                                 more=[index])
        assert name == "run-out-of-bounds"
        assert message.startswith(f"store out of bounds: writes 4 bytes at {place}")
    null = "  %z = constant {value = 64} : i64\n  %p = inttoptr %z : f32*\n  %x = load %p : f32"
    assert "at address 0x40, which is in no buffer" in error(null, F8, types="f32*")[2]


def test_a_guard_excuses_what_it_masks_off() -> None:
    body = (RANGE8 + pointers("a", "f32", 8) + pointers("b", "f32", 8)
            + "  %n = constant {value = 3} : i32<8>\n"
            "  %c = icmp %r, %n {predicate = slt} : i1<8>\n"
            "  @%c %x = load %pa : f32<8>\n  @%c store %pb, %x")
    got = on_arrays(body, F8[:3], np.zeros(3, np.float32))
    assert got[1].tolist() == [0, 1, 2]
    none = body.replace("value = 3", "value = 0")
    assert on_arrays(none, F8[:0], np.zeros(0, np.float32))[1].size == 0


def test_a_tile_over_two_buffers() -> None:
    body = ("  %r = range {start = 0, stop = 2} : i32<2>\n  %as = splat %a : f32*<2>\n"
            "  %bs = splat %b : f32*<2>\n  %z = constant {value = 0} : i32<2>\n"
            "  %c = icmp %r, %z {predicate = eq} : i1<2>\n"
            "  %p = select %c, %as, %bs : f32*<2>\n  %x = load %p : f32<2>\n"
            "  %y = fadd %x, %x : f32<2>\n  store %p, %y")
    got = on_arrays(body, F8[3:4], F8[5:6])
    assert got[0].tolist() == [6] and got[1].tolist() == [10]


def test_padding_may_be_read_but_not_used() -> None:
    memory = Memory()
    a, b = memory.allocate(F8[:6], "a", pad=8), memory.allocate(np.zeros(8, np.float32), "b")
    body = RANGE8 + pointers("a", "f32", 8) + pointers("b", "f32", 8) + "  %x = load %pa : f32<8>\n"
    execute(body, "f32* %a, f32* %b", [a, b], memory)
    with pytest.raises(InterpreterError) as caught:
        execute(body + "  store %pb, %x", "f32* %a, f32* %b", [a, b], memory)
    assert caught.value.diagnostics[0].message == (
        "element [6] of the value stored here is undefined")
    with pytest.raises(InterpreterError, match=r"store out of bounds: element \[6\] writes"):
        execute(RANGE8 + pointers("a", "i32", 8) + "  store %pa, %r", "i32* %a", [a], memory)
    further = body.replace("stop = 8", "stop = 9").replace("<8>", "<9>")
    with pytest.raises(InterpreterError, match=r"element \[8\] reads 4 bytes at a \+ 32"):
        execute(further, "f32* %a, f32* %b", [a, b], memory)


def test_misaligned() -> None:
    body = ("  %i = ptrtoint %a : i64\n  %two = constant {value = 2} : i64\n"
            "  %j = add %i, %two : i64\n  %p = inttoptr %j : f32*\n  %x = load %p : f32")
    name, _, message = error(body, F8, types="f32*")
    assert name == "run-misaligned" and "at a + 2, not a multiple of 4" in message


UNDEFINED = RANGE8 + ("  %n = constant {value = 3} : i32<8>\n"
                      "  %c = icmp %r, %n {predicate = slt} : i1<8>\n"
                      "  %in, %out = cmpp %c : i1<8>\n") + pointers("a", "f32", 8) + (
    "  @%in %x = load %pa : f32<8>\n")


def test_undefined_elements_stay_out_of_the_way() -> None:
    body = UNDEFINED + pointers("b", "f32", 8) + (
        "  %zero = constant {value = 0.0} : f32<8>\n"
        "  %y = fadd %x, %x : f32<8>\n  %s = select %in, %y, %zero : f32<8>\n"
        "  %m = psi [%out, %zero], [%in, %y] : f32<8>\n  %t = fadd %s, %m : f32<8>\n"
        "  %b1 = fcmp %x, %zero {predicate = oge} : i1<8>\n  %b2 = and %in, %b1 : i1<8>\n"
        "  %b3 = or %out, %b1 : i1<8>\n  %b4 = and %b3, %in : i1<8>\n"
        "  %v = select %b2, %t, %zero : f32<8>\n  %w = select %b4, %v, %zero : f32<8>\n"
        "  store %pb, %w")
    assert on_arrays(body, F8, np.ones(8, np.float32))[1].tolist() == [0, 4, 8, 0, 0, 0, 0, 0]


def test_each_result_of_a_function_is_undefined_by_itself() -> None:
    body = UNDEFINED + pointers("b", "f32", 8) + (
        '  %any, %sum = reduce_with %in, %x {axis = 0, function = "i1 %a, f32 %b, i1 %c, f32 %d'
        ' -> %p, %s; %p = or %a, %c : i1; %s = fadd %b, %d : f32"} : i1, f32\n'
        "  %one = constant {value = 1.0} : f32<8>\n  %all = splat %any : i1<8>\n")
    assert on_arrays(body + "  @%all store %pb, %one", F8, np.zeros(8, np.float32))[1].all()
    name, _, message = error(body + "  %s = splat %sum : f32<8>\n  store %pb, %s", F8,
                             np.zeros(8, np.float32))
    assert name == "run-undefined" and message.startswith("element [0] of the value")


@pytest.mark.parametrize("use, line, what", [
    ("  store %pa, %x", "store", "element [3] of the value stored here is undefined"),
    ("  %y = fneg %x : f32<8>\n  store %pa, %y", "store", "element [3] of the value"),
    ("  %s = reduce %x {kind = fadd, axes = [0]} : f32\n  %q = addptr %a, %n0 : f32*\n"
     "  store %a, %s", "store", "the value stored here is undefined"),
    ("  %i = fptosi %x : i32<8>\n  %q = addptr %as, %i : f32*<8>\n  %z = load %q : f32<8>", "%z",
     "element [3] of the address of this load"),
    ("  %g = fcmp %x, %x {predicate = oeq} : i1<8>\n  @%g store %pa, %x", "@%g",
     "element [3] of the guard"),
    ("  %v = reduce %x {kind = fmax, axes = [0]} : f32\n"
     "  %k = fcmp %v, %v {predicate = oeq} : i1\n  cond_br %k, one, one\none:", "cond_br",
     "the condition of this branch"),
    ("  %u = undef : f32\n  store %a, %u", "store", "it was never assigned"),
    ("  %m = psi [%in, %x] : f32<8>\n  store %pa, %m", "store", "no predicate of these values"),
    ('  printf %x {format = "%f"}', "printf", "element [3] of a value printed here"),
    ("  %l = constant {value = 32} : i32<8>\n  %sh = shl %r, %l : i32<8>\n"
     "  %f = sitofp %sh : f32<8>\n  store %pa, %f", "store", "shifted past the width"),
])
def test_undefined_elements_are_reported_where_they_are_seen(
        use: str, line: str, what: str) -> None:
    body = UNDEFINED + "  %n0 = constant {value = 0} : i32\n" + use
    name, place, message = error(body, F8, types="f32*")
    assert name == "run-undefined" and place.startswith(line) and what in message


def test_undefined_through_shapes_and_dots() -> None:
    """Row 0 of a is defined, so row 0 of a @ b is; the transpose makes it a column."""
    body = ("  %r = range {start = 0, stop = 4} : i32<4>\n  %one = constant {value = 1} : i32<4>\n"
            "  %c = icmp %r, %one {predicate = slt} : i1<4>\n  %c1 = reshape %c : i1<4, 1>\n"
            "  %m = broadcast %c1 : i1<4, 4>\n  %as = splat %a : f32*<4, 4>\n"
            "  @%m %x = load %as : f32<4, 4>\n  %b = constant {value = 1.0} : f32<4, 4>\n"
            "  %d = dot %x, %b, %b : f32<4, 4>\n"
            "  %t = trans %d {permutation = [1, 0]} : f32<4, 4>\n"
            "  %u = scan %t {kind = fadd, axis = 0} : f32<4, 4>\n"
            "  %mt = trans %m {permutation = [1, 0]} : i1<4, 4>\n"
            "  %all = constant {value = true} : i1<4, 4>\n  @%mt store %as, %u\n")
    assert on_arrays(body, F8[2:3], types="f32*")[0][0] == 4 * (4 * 2 + 1)
    name, _, message = error(body + "  @%all store %as, %u\n", F8, types="f32*")
    assert name == "run-undefined" and message.startswith("element [0, 1] of the value")


def test_a_value_defined_anew_in_a_loop() -> None:
    """Undefined in the first turn, defined in the second: only then stored."""
    body = ("  %u = undef : i32\n  %z = constant {value = 0} : i32\n"
            "  %one = constant {value = 1} : i32\n  br loop\nloop:\n"
            "  %i = phi [%z, entry], [%one, loop] : i32\n  %x = phi [%u, entry], [%y, loop] : i32\n"
            "  %y = add %i, %one : i32\n  %k = add %x, %one : i32\n"
            "  %c = icmp %i, %one {predicate = slt} : i1\n  cond_br %c, loop, end\nend:\n"
            "  store %a, %k")
    assert on_arrays(body, np.zeros(1, np.int32), types="i32*")[0][0] == 2


def test_division_by_zero() -> None:
    body = (RANGE8 + "  %q = sdiv %r, %r : i32<8>")
    name, line, message = error(body, F8, types="f32*")
    assert name == "run-division-by-zero" and line.startswith("%q") and "element [0]" in message
    guarded = (RANGE8 + "  %z = constant {value = 0} : i32<8>\n"
               "  %c = icmp %r, %z {predicate = ne} : i1<8>\n  @%c %q = sdiv %r, %r : i32<8>\n")
    on_arrays(guarded, F8, types="f32*")
    use = guarded + "  %s = sitofp %q : f32<8>\n" + pointers("a", "f32", 8) + "  store %pa, %s"
    assert error(use, F8, types="f32*")[0] == "run-undefined"


def test_store_to_constant_memory() -> None:
    body = ("  %t = constant_table {symbol = t} : f32 constant*\n"
            "  %i = ptrtoint %t : i64\n  %p = inttoptr %i : f32*\n"
            "  %x = constant {value = 1.0} : f32\n  store %p, %x")
    assert error(body, F8, types="f32*", top="constant @t : f32[2]")[0] == "run-constant-store"


def test_promises_and_assertions() -> None:
    body = "  %n = constant {value = 12} : i32\n"
    on_arrays(body + "  %m = assume_multiple %n {n = 4} : i32", F8, types="f32*")
    name, _, message = error(body + "  %m = assume_multiple %n {n = 8} : i32", F8, types="f32*")
    assert name == "run-assumption" and "12 is not a multiple of 8" in message
    byte = "  %b = truncate %n : i8\n  %m = assume_multiple %b {n = 4096} : i8"
    assert error(body + byte, F8, types="f32*")[0] == "run-assumption"
    body += "  %c = icmp %n, %n {predicate = ne} : i1\n"
    assert error(body + "  assume %c", F8, types="f32*")[0] == "run-assumption"
    name, _, message = error(body + '  assert %c {message = "n is odd"}', F8, types="f32*")
    assert name == "run-assertion" and "assertion failed: n is odd" in message
    on_arrays(body + '  @%c assert %c {message = "never"}', F8, types="f32*")


def test_arguments_are_checked() -> None:
    for kernel, arguments in (("other", []), ("k", [1])):
        with pytest.raises(CompileError):
            run(module(""), kernel, arguments, Memory(), (1,))


def test_masked_loads_with_another_number() -> None:
    body = (UNDEFINED.replace("load %pa", "load %pa {other = 7.0}") + pointers("b", "f32", 8)
            + "  store %pb, %x")
    assert on_arrays(body, F8, F8)[1].tolist() == [0, 1, 2, 7, 7, 7, 7, 7]


# Machine operations

def test_machine_operations_with_a_meaning_need_no_handler() -> None:
    body = UNDEFINED + ("  %t = turn %x : f32<8>\n  %m = turn %in : i1<8>\n  @%m store %pa, %t")
    assert on_arrays(body, F8, types="f32*")[0].tolist() == [0, 1, 2, 3, 4, 2, 1, 0]


def test_operations_that_nobody_knows_are_an_internal_error() -> None:
    with pytest.raises(NotImplementedError, match="arrive"):
        execute("  arrive")


# What repeats its elements is read as what it repeats

REPEATED = (RANGE8 + pointers("a", "f32", 8)
            + "  %ns = splat %n : i32<8>\n  %c = icmp %r, %ns {predicate = slt} : i1<8>\n"
            "  %two = constant {value = 2.0} : f32\n  %twos = splat %two : f32<8>\n"
            "  %y = fadd %twos, %twos : f32<8>\n  %row = reshape %r : i32<1, 8>\n"
            "  %all = broadcast %row : i32<4, 8>\n  %ms = splat %n : i32<4, 8>\n"
            "  %sums = sub %all, %ms : i32<4, 8>\n"
            "  %least = reduce %sums {kind = \"smax\", axes = [0]} : i32<8>\n"
            "  %f = sitofp %least : f32<8>\n  %z = fadd %y, %f : f32<8>\n  @%c store %pa, %z")


def test_tiles_that_repeat_their_elements() -> None:
    (got,) = on_arrays(REPEATED, np.zeros(8, np.float32), types="f32*", extra=", i32 %n", more=[3])
    assert got.tolist() == [1, 2, 3, 0, 0, 0, 0, 0]
    kernel = module(REPEATED, "f32* %a, i32 %n").kernels[0]
    spread = Spread(kernel)
    ops = {op.results[0].name: op for op in kernel.entry.ops if op.results}
    assert {op.result.name for op in spread.needless} == {"as", "ns", "all"}
    assert spread.operands(ops["sums"]) == [ops["row"].result, ops["ms"].result]
    assert spread.operands(ops["y"])[0].name == "two"  # one must have the shape
    assert spread.operands(ops["y"])[1].name == "twos"


def test_undefined_elements_of_what_repeats() -> None:
    body = (RANGE8 + pointers("a", "i32", 8) + "  %u = undef : i32\n  %us = splat %u : i32<8>\n"
            "  %x = add %r, %us : i32<8>\n  store %pa, %x")
    name, line, message = error(body, np.zeros(8, np.int32), types="i32*")
    assert (name, line) == ("run-undefined", "store %pa, %x")
    assert "element [0]" in message and "never assigned" in message
