"""Each pass on a small kernel of its own: before, after, and what it must leave alone."""

from __future__ import annotations

import re

import pytest
from passes_on_text import after, kernel, names
from rewriting import CONTEXT, parse

from tritonc.opt.convert_if import convert_if
from tritonc.opt.cse import cse
from tritonc.opt.dce import dce
from tritonc.opt.expand_range import expand_range
from tritonc.opt.fold_constants import fold_constants
from tritonc.opt.simplify_cfg import simplify_cfg

# expand_range

def test_expand_range() -> None:
    found = after(expand_range, kernel("""
entry:
  %r = get_global_range {axis = 1, extent = 8} : i32<8>
  %b = splat %out0 : i32*<8>
  %p = addptr %b, %r : i32*<8>
  store %p, %r
  ret"""), run=False)
    assert found == """entry:
  %0 = get_program_id {axis = 1} : i32
  %1 = constant {value = 8} : i32
  %2 = mul %0, %1 : i32
  %3 = range {start = 0, stop = 8} : i32<8>
  %4 = splat %2 : i32<8>
  %r = add %3, %4 : i32<8>
  %b = splat %out0 : i32*<8>
  %p = addptr %b, %r : i32*<8>
  store %p, %r
  ret"""


# fold_constants

def test_fold_branch_phi_and_arithmetic() -> None:
    found = after(fold_constants, kernel("""
entry:
  %two = constant {value = 2} : i32
  %three = constant {value = 3} : i32
  %less = icmp %two, %three {predicate = slt} : i1
  cond_br %less, yes, no
yes:
  %six = mul %two, %three : i32
  br join
no:
  %bad = sdiv %two, %x : i32
  br join
join:
  %p = phi [%six, yes], [%bad, no] : i32
  %q = add %p, %two : i32
  store %out0, %q
  ret"""))
    assert "cond_br" not in found and "no:" not in found and "phi" not in found
    assert "%q = constant {value = 8} : i32" in found


def test_loop_phi_that_never_changes_goes() -> None:
    found = after(fold_constants, COUNT.replace("%xs = add %v, %one : i32", "br2").replace(
        "  br2\n", "").replace("[%xs, body]", "[%v, body]"))
    assert names(found, "head").count("phi") == 1


@pytest.mark.parametrize("line", [
    "%r = sdiv %one, %zero : i32", "%r = urem %one, %zero : i32", "%r = shl %one, %wide : i32",
])
def test_what_the_program_is_told_about_is_not_folded(line: str) -> None:
    kernel_ = parse(kernel(f"""
entry:
  %one = constant {{value = 1}} : i32
  %zero = constant {{value = 0}} : i32
  %wide = constant {{value = 32}} : i32
  {line}
  store %out0, %r
  ret"""))
    assert not fold_constants(kernel_, CONTEXT)


# dce

COUNT = kernel("""
entry:
  %zero = constant {value = 0} : i32
  %one = constant {value = 1} : i32
  %five = constant {value = 5} : i32
  br head
head:
  %i = phi [%zero, entry], [%next, body] : i32
  %v = phi [%x, entry], [%xs, body] : i32
  %m = icmp %i, %five {predicate = slt} : i1
  cond_br %m, body, exit
body:
  %xs = add %v, %one : i32
  %next = add %i, %one : i32
  br head
exit:
  store %out0, %i
  ret""")


def test_dce_of_a_cycle_of_phis() -> None:
    found = after(dce, COUNT)
    assert "%v" not in found and "%xs" not in found and "%i = phi" in found


def test_dce_keeps_effects_and_volatile_loads() -> None:
    found = after(dce, kernel("""
entry:
  %a = load %out0 : i32
  %b = load %out0 {volatile} : i32
  %d = add %a, %x : i32
  %old = atomic_rmw %out0, %x {kind = add} : i32
  memory_barrier
  ret"""))
    assert names(found, "entry") == ["load", "atomic_rmw", "memory_barrier", "ret"]


# cse

def test_cse_in_the_dominance_tree() -> None:
    found = after(cse, kernel("""
entry:
  %a = add %x, %y : i32
  cond_br %c, yes, no
yes:
  %b = add %y, %x : i32
  %m = mul %b, %b : i32
  br join
no:
  %n = mul %a, %a : i32
  br join
join:
  %p = phi [%m, yes], [%n, no] : i32
  %q = phi [%n, no], [%m, yes] : i32
  %z = mul %a, %a : i32
  %r = add %p, %q : i32
  %s = add %r, %z : i32
  store %out0, %s
  ret"""))
    assert found.count("= add %x") == 1 and "%q" not in found
    assert found.count("mul") == 3, "neither side of the branch dominates the join"


def test_cse_of_phis_that_become_equal_around_a_loop() -> None:
    found = after(cse, kernel("""
entry:
  %zero = constant {value = 0} : i32
  %one = constant {value = 1} : i32
  br head
head:
  %i = phi [%zero, entry], [%next, body] : i32
  %m = icmp %i, %one {predicate = slt} : i1
  cond_br %m, body, exit
body:
  %next = add %i, %one : i32
  %other = add %one, %i : i32
  br head
exit:
  store %out0, %i
  ret"""))
    assert names(found, "body") == ["add", "br"]


def test_cse_minds_the_order_of_what_does_not_commute() -> None:
    found = after(cse, kernel("""
entry:
  %a = sub %x, %y : i32
  %b = sub %y, %x : i32
  %d = mul %a, %b : i32
  store %out0, %d
  ret"""))
    assert found.count("sub") == 2


def test_cse_tells_numbers_apart() -> None:
    found = after(cse, kernel("""
entry:
  %a = constant {value = 0.0} : f32
  %b = constant {value = -0.0} : f32
  %d = constant {value = 0.0} : f32
  %e = fadd %a, %d : f32
  %g = fsub %e, %b : f32
  store %out0, %g
  ret""", "f32* %out0"))
    assert found.count("constant") == 2


@pytest.mark.parametrize("between,loads", [
    ("", 1), ("  %q = addptr %out0, %one : i32*\n  store %q, %x\n", 2), ("  memory_barrier\n", 2),
    ("  %old = atomic_rmw %out0, %x {kind = add} : i32\n", 2),
])
def test_cse_of_loads_up_to_the_next_write(between: str, loads: int) -> None:
    found = after(cse, kernel(f"""
entry:
  %one = constant {{value = 1}} : i32
  %a = load %out0 : i32
{between}  %b = load %out0 : i32
  %s = sub %a, %b : i32
  store %out0, %s
  ret"""))
    assert found.count("load") == loads


def test_cse_of_loads_not_across_blocks_nor_guards() -> None:
    found = after(cse, kernel("""
entry:
  %a = load %out0 : i32
  %g = load %out0 : i32
  cond_br %c, next, next2
next:
  br next2
next2:
  %b = load %out0 : i32
  %s = add %a, %b : i32
  %t = add %s, %g : i32
  store %out0, %t
  ret"""))
    assert found.count("load") == 2


# simplify_cfg

def test_chains_merge_and_empty_blocks_go() -> None:
    found = after(simplify_cfg, kernel("""
entry:
  br a
a:
  %p = phi [%x, entry] : i32
  cond_br %c, b, d
b:
  br e
d:
  br e
e:
  %q = add %p, %y : i32
  store %out0, %q
  ret"""))
    assert found == """entry:
  %q = add %x, %y : i32
  store %out0, %q
  ret"""


def test_preheader_and_latch_stay() -> None:
    text = kernel("""
entry:
  %zero = constant {value = 0} : i32
  %one = constant {value = 1} : i32
  cond_br %c, pre, exit
pre:
  br head
head:
  %i = phi [%zero, pre], [%next, latch] : i32
  %next = add %i, %one : i32
  %m = icmp %next, %y {predicate = eq} : i1
  cond_br %m, exit, latch
latch:
  br head
exit:
  ret""")
    found = parse(text)
    assert not simplify_cfg(found, CONTEXT)


# convert_if

def test_convert_triangle_and_diamond() -> None:
    found = after(convert_if, kernel("""
entry:
  %one = constant {value = 1} : i32
  cond_br %c, a, b
a:
  %p = add %x, %one : i32
  br b
b:
  %q = phi [%x, entry], [%p, a] : i32
  %l = icmp %q, %y {predicate = slt} : i1
  cond_br %l, d, e
d:
  br f
e:
  %r = mul %q, %q : i32
  br f
f:
  %s = phi [%q, d], [%r, e] : i32
  store %out0, %s
  ret"""))
    assert "cond_br" not in found
    assert "select %c, %p, %x" in found and "select %l, %q, %r" in found


@pytest.mark.parametrize("side", [
    "%p = sdiv %x, %y : i32",  # may trap
    "%p = load %out0 : i32",
    "%p = add %x, %y : i32\n  store %out0, %p",
    "%a1 = add %x, %y : i32\n  %a2 = mul %a1, %y : i32\n  %a3 = add %a2, %y : i32\n"
    "  %a4 = mul %a3, %x : i32\n  %p = add %a4, %y : i32",  # too long
])
def test_what_is_not_converted(side: str) -> None:
    found = parse(kernel(f"""
entry:
  cond_br %c, a, b
a:
  {side}
  br b
b:
  %q = phi [%x, entry], [%p, a] : i32
  store %out0, %q
  ret"""))
    assert not convert_if(found, CONTEXT)


LOOP = """
entry:
  %one = constant {{value = 1}} : i32
  %three = constant {{value = 3}} : i32
  %few = and %y, %three : i32
  %zero = constant {{value = 0}} : i32
  %x0 = splat %x : i32<16, 16>
  %h = constant {{value = 0.0}} : f16<16, {depth}>
  %t = trans %h {{permutation = [1, 0]}} : f16<{depth}, 16>
  %z = constant {{value = 0.0}} : f32<16, 16>
  br loop
loop:
  %i = phi [%zero, entry], [%j, join] : i32
  %acc = phi [%z, entry], [%next, join] : f32<16, 16>
  %more = icmp %i, %few {{predicate = slt}} : i1
  cond_br %more, body, exit
body:
  %d = dot %h, %t, {sum} : f32<16, 16>
  cond_br %c, {first}
side:
  {side}
  br join
join:
  %next = phi [%d, body], [%e, side] : f32<16, 16>
  %j = add %i, %one : i32
  br loop
exit:
  %s = reduce %acc {{kind = fadd, axes = [0, 1]}} : f32
  %r = fptosi %s : i32
  store %out0, %r
  ret"""
FACTOR = ("%f = constant {value = 0.5} : f32<16>\n  %g = reshape %f : f32<16, 1>\n"
          "  %k = broadcast %g : f32<16, 16>\n  %e = fmul %d, %k : f32<16, 16>")
MASK = ("%n = constant {value = -inf} : f32<16, 16>\n  %w = icmp %x0, %x0 {predicate = slt} : "
        "i1<16, 16>\n  %e = select %w, {arms} : f32<16, 16>")


@pytest.mark.parametrize("side, first, expected", [
    (FACTOR, "side, join", [r"select %\d+, %f, %\d+", r"fmul %d, %\d+"]),
    (FACTOR, "join, side", [r"select %\d+, %\d+, %f", r"fmul %d, %\d+"]),
    (FACTOR.replace("fmul", "fadd"), "side, join", ["value = -0.0", r"fadd %d, %\d+"]),
    (MASK.replace("{arms}", "%d, %n"), "side, join", ["xor %c", r"or %w, %\d+", "%d, %n"]),
    (MASK.replace("{arms}", "%n, %d"), "side, join", [r"and %w, %\d+", "%n, %d"]),
    (MASK.replace("{arms}", "%n, %d"), "join, side", ["xor %c", r"and %w, %\d+", "%n, %d"]),
    ("%e = fneg %d : f32<16, 16>", "side, join", ["splat %c", "%e, %d"]),
])
def test_tiles_beside_a_product(side: str, first: str, expected: list[str]) -> None:
    found = after(convert_if, kernel(LOOP.format(side=side, first=first, depth=64, sum="%z")))
    body = found[found.index("body:"):]
    assert "cond_br" not in body
    for text in expected:
        assert re.search(text, body), text


@pytest.mark.parametrize("depth, sum", [(8, "%z"), (64, "%acc")])
def test_work_that_takes_long_or_waits_for_a_sum_keeps_its_branch(depth: int, sum: str) -> None:
    found = parse(kernel(LOOP.format(side=FACTOR, first="side, join", depth=depth, sum=sum)))
    assert not convert_if(found, CONTEXT)


def test_tiles_keep_their_branch() -> None:
    found = parse(kernel("""
entry:
  %z = splat %x : i32<8>
  cond_br %c, a, b
a:
  %w = splat %y : i32<8>
  br b
b:
  %q = phi [%z, entry], [%w, a] : i32<8>
  %r = reduce %q {kind = add, axes = [0]} : i32
  store %out0, %r
  ret"""))
    assert not convert_if(found, CONTEXT)
