"""Each pass on a small kernel of its own: before, after, and what it must leave alone."""

from __future__ import annotations

from typing import Any

import pytest
from rewriting import CONTEXT, body_text, check_same_meaning, parse

from tritonc.ir.core import Kernel
from tritonc.ir.text import print_kernel
from tritonc.ir.verify import verify
from tritonc.opt.canonicalize_loops import canonicalize_loops
from tritonc.opt.convert_if import convert_if
from tritonc.opt.cse import cse
from tritonc.opt.dce import dce
from tritonc.opt.expand_range import expand_range
from tritonc.opt.fold_constants import fold_constants
from tritonc.opt.hoist_addresses import hoist_addresses
from tritonc.opt.licm import licm
from tritonc.opt.simplify_cfg import simplify_cfg
from tritonc.opt.strength_reduce import strength_reduce


def after(function: Any, text: str, run: bool = True) -> str:
    """The body of the kernel after the pass, which must keep the meaning and be done at once."""
    kernel = parse(text)
    if run:
        check_same_meaning(kernel, lambda k: function(k, CONTEXT), seeds=6)
    else:
        verify(kernel)
        function(kernel, CONTEXT)
        verify(kernel)
    found = print_kernel(kernel)
    assert not function(kernel, CONTEXT)
    assert print_kernel(kernel) == found
    return body_text(kernel)


def kernel(body: str, parameters: str = "i32 %x, i32 %y, i1 %c, i32* %out0") -> str:
    return f"kernel @k({parameters}) {{\n{body.strip()}\n}}\n"


def names(text: str, block: str) -> list[str]:
    """The operations of a block of a printed kernel."""
    found, inside = [], False
    for line in text.splitlines():
        if not line.startswith(" "):
            inside = line.rstrip() == f"{block}:"
        elif inside:
            words = line.split("=", 1)[1].split() if "=" in line.split("{")[0] else line.split()
            found.append(words[0])
    return found


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


def test_fold_phi_of_equal_constants() -> None:
    found = after(fold_constants, kernel("""
entry:
  cond_br %c, a, b
a:
  %one = constant {value = 1} : i32
  br join
b:
  %uno = constant {value = 1} : i32
  br join
join:
  %p = phi [%one, a], [%uno, b] : i32
  store %out0, %p
  ret"""))
    assert names(found, "join") == ["constant", "store", "ret"]


def test_phi_of_zeros_of_both_signs_stays() -> None:
    found = after(fold_constants, kernel("""
entry:
  cond_br %c, a, b
a:
  %plus = constant {value = 0.0} : f32
  br join
b:
  %minus = constant {value = -0.0} : f32
  br join
join:
  %p = phi [%plus, a], [%minus, b] : f32
  store %out0, %p
  ret""", "i1 %c, f32* %out0"))
    assert "phi" in found


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


def test_negated_condition() -> None:
    found = after(simplify_cfg, kernel("""
entry:
  %true = constant {value = true} : i1
  %n = xor %c, %true : i1
  cond_br %n, a, b
a:
  store %out0, %x
  ret
b:
  store %out0, %y
  ret"""))
    assert "cond_br %c, b, a" in found


def test_short_circuit_is_threaded() -> None:
    """What `c && x < y` leaves: the branch in the middle knows its way from `entry`."""
    found = after(simplify_cfg, kernel("""
entry:
  %false = constant {value = false} : i1
  cond_br %c, right, middle
right:
  %d = icmp %x, %y {predicate = slt} : i1
  br middle
middle:
  %both = phi [%false, entry], [%d, right] : i1
  cond_br %both, yes, no
yes:
  store %out0, %x
  br no
no:
  ret"""))
    assert "phi" not in found
    assert "cond_br %c, right, no" in found and "cond_br %d, yes, no" in found


def test_threading_keeps_phis_of_the_target_right() -> None:
    found = after(simplify_cfg, kernel("""
entry:
  %true = constant {value = true} : i1
  cond_br %c, middle, right
right:
  %d = icmp %x, %y {predicate = slt} : i1
  br middle
middle:
  %either = phi [%true, entry], [%d, right] : i1
  %v = phi [%x, entry], [%y, right] : i32
  cond_br %either, yes, no
yes:
  %w = phi [%v, middle] : i32
  store %out0, %w
  br no
no:
  ret"""))
    assert "either" not in found


def test_no_threading_past_a_phi_that_is_read_later() -> None:
    found = parse(kernel("""
entry:
  %true = constant {value = true} : i1
  cond_br %c, middle, right
right:
  %d = icmp %x, %y {predicate = slt} : i1
  br middle
middle:
  %either = phi [%true, entry], [%d, right] : i1
  %v = phi [%x, entry], [%y, right] : i32
  cond_br %either, yes, no
yes:
  store %out0, %v
  br no
no:
  ret"""))
    assert not simplify_cfg(found, CONTEXT)


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


# canonicalize_loops

def test_preheader_and_one_latch() -> None:
    found = after(canonicalize_loops, kernel("""
entry:
  %zero = constant {value = 0} : i32
  %one = constant {value = 1} : i32
  %five = constant {value = 5} : i32
  cond_br %c, head, other
other:
  br head
head:
  %i = phi [%zero, entry], [%one, other], [%next, body], [%skip, odd] : i32
  %m = icmp %i, %five {predicate = slt} : i1
  cond_br %m, body, exit
body:
  %next = add %i, %one : i32
  %o = icmp %next, %x {predicate = eq} : i1
  cond_br %o, odd, head
odd:
  %skip = add %next, %one : i32
  br head
exit:
  store %out0, %i
  ret"""))
    assert names(found, "head.preheader") == ["phi", "br"]
    assert names(found, "head.latch") == ["phi", "br"]
    assert "[%" in found.split("head:")[1].splitlines()[1]
    assert found.split("head:")[1].splitlines()[1].count("[%") == 2


# licm

LOOP = """
entry:
  %zero = constant {{value = 0}} : i32
  %one = constant {{value = 1}} : i32
  %lanes = range {{start = 0, stop = 8}} : i32<8>
  %base = splat %out0 : i32*<8>
  %p = addptr %base, %lanes : i32*<8>
  %five = constant {{value = 5}} : i32
  br head
head:
  %i = phi [%zero, entry], [%next, latch] : i32
  %s = phi [%zero, entry], [%sum, latch] : i32
  %m = icmp %i, %five {{predicate = slt}} : i1
  {head}
  cond_br %m, body, exit
body:
  {body}
  br latch
latch:
  %next = add %i, %one : i32
  br head
exit:
  %w = splat %s : i32<8>
  store %p, %w
  ret"""


def looped(body: str, head: str = "%h = add %x, %i : i32") -> str:
    return kernel(LOOP.format(body=body.strip(), head=head))


def test_licm_hoists_scalars_and_work_on_tiles() -> None:
    found = after(licm, looped("""
  %k = mul %x, %y : i32
  %t = splat %k : i32<8>
  %u = mul %lanes, %t : i32<8>
  %f = splat %y : i32<8>
  %it = splat %i : i32<8>
  %v = add %u, %it : i32<8>
  %vf = add %v, %f : i32<8>
  %r = reduce %vf {kind = add, axes = [0]} : i32
  %sum = add %s, %r : i32"""))
    assert names(found, "entry")[-4:] == ["mul", "splat", "mul", "br"]
    # a splat alone is not worth registers for the length of the loop
    assert names(found, "body") == ["splat", "splat", "add", "add", "reduce", "add", "br"]


def test_licm_leaves_traps_and_loads_that_may_not_run() -> None:
    found = after(licm, looped("""
  %d = sdiv %x, %y : i32
  %e = sdiv %x, %five : i32
  %l = load %out0 : i32
  %n = add %d, %l : i32
  %o = add %n, %e : i32
  %sum = add %s, %o : i32"""))
    assert names(found, "body") == ["sdiv", "load", "add", "add", "add", "br"]


def test_licm_hoists_a_load_that_each_run_makes() -> None:
    found = after(licm, looped("%sum = add %s, %l : i32", "%l = load %out0 : i32"))
    assert "load" in names(found, "entry")
    found = after(licm, looped("store %out0, %i\n  %sum = add %s, %l : i32",
                               "%l = load %out0 : i32"))
    assert "load" in names(found, "head")
    found = after(licm, looped("%sum = add %s, %l : i32", "%l = load %out0 {volatile} : i32"))
    assert "load" in names(found, "head")


def test_licm_leaves_two_loops_at_once() -> None:
    found = after(licm, kernel("""
entry:
  %zero = constant {value = 0} : i32
  %one = constant {value = 1} : i32
  %three = constant {value = 3} : i32
  br outer
outer:
  %i = phi [%zero, entry], [%i1, next] : i32
  %s = phi [%zero, entry], [%t, next] : i32
  %m = icmp %i, %three {predicate = slt} : i1
  cond_br %m, pre, exit
pre:
  br inner
inner:
  %j = phi [%zero, pre], [%j1, body] : i32
  %t = phi [%s, pre], [%t1, body] : i32
  %k = icmp %j, %three {predicate = slt} : i1
  cond_br %k, body, next
body:
  %a = mul %x, %y : i32
  %b = mul %i, %x : i32
  %ab = add %a, %b : i32
  %t1 = add %t, %ab : i32
  %j1 = add %j, %one : i32
  br inner
next:
  %i1 = add %i, %one : i32
  br outer
exit:
  store %out0, %s
  ret"""))
    assert "mul" in names(found, "entry")
    assert names(found, "pre") == ["mul", "add", "br"]


# strength_reduce

POINTERS = "i32* %p, i32* %q, i32 %x, i32* %out0, i64* %out1"

MOVING = """
entry:
  %zero = constant {{value = 0}} : i32
  %one = constant {{value = 1}} : i32
  %three = constant {{value = 3}} : i32
  %lanes = range {{start = 0, stop = 8}} : i32<8>
  %nought = constant {{value = 0}} : i32<8>
  %pb = splat %p : i32*<8>
  %p0 = addptr %pb, %lanes : i32*<8>
  %qb = splat %q : i32*<8>
  %q0 = addptr %qb, %lanes : i32*<8>
  %ob = splat %out1 : i64*<8>
  %o = addptr %ob, %lanes : i64*<8>
  %step = splat %x : i32<8>
  %two = constant {{value = 2}} : i32<8>
  br head
head:
  %i = phi [%zero, entry], [%next, {latch}] : i32
  {phis}
  %m = icmp %i, %three {{predicate = slt}} : i1
  cond_br %m, body, exit
body:
  {body}
  %next = add %i, %one : i32
  br head
exit:
  {exit}
  ret"""


STORE_PP = "%e = ptrtoint %pp : i64<8>\n  store %o, %e"


def moving(phis: str, body: str, exit: str = STORE_PP, latch: str = "body") -> str:
    return kernel(MOVING.format(phis=phis.strip(), body=body.strip(), exit=exit, latch=latch),
                  POINTERS)


def cleaned(kernel: Kernel, context: Any) -> bool:
    changed = strength_reduce(kernel, context)
    return dce(kernel, context) or changed


def test_moving_pointers_share_an_offset() -> None:
    found = after(cleaned, moving("""
  %pp = phi [%p0, entry], [%p1, body] : i32*<8>
  %qq = phi [%q0, entry], [%q1, body] : i32*<8>""", """
  %p1 = addptr %pp, %step : i32*<8>
  %q1 = addptr %qq, %step : i32*<8>""", """
  %e = ptrtoint %pp : i64<8>
  %f = ptrtoint %qq : i64<8>
  %g = xor %e, %f : i64<8>
  store %o, %g"""))
    assert names(found, "head") == ["phi", "phi", "splat", "addptr", "splat", "addptr", "icmp",
                                    "cond_br"]
    assert names(found, "body") == ["add", "add", "br"]
    assert "sext %x : i64" in found.split("head:")[0]


def test_other_steps_have_other_offsets() -> None:
    found = after(cleaned, moving("""
  %pp = phi [%p0, entry], [%p1, body] : i32*<8>
  %qq = phi [%q0, entry], [%q1, body] : i32*<8>""", """
  %p1 = addptr %pp, %step : i32*<8>
  %q1 = addptr %qq, %two : i32*<8>""", """
  %e = ptrtoint %pp : i64<8>
  %f = ptrtoint %qq : i64<8>
  %g = xor %e, %f : i64<8>
  store %o, %g"""))
    assert names(found, "head").count("phi") == 3


def test_a_chain_of_moves_and_uses_in_between() -> None:
    found = after(cleaned, moving("""
  %pp = phi [%p0, entry], [%p2, body] : i32*<8>
  %acc = phi [%nought, entry], [%acc1, body] : i32<8>""", """
  %p1 = addptr %pp, %two : i32*<8>
  %v = load %p1 : i32<8>
  %acc1 = add %acc, %v : i32<8>
  %si = splat %i : i32<8>
  %p2 = addptr %p1, %si : i32*<8>""", """
  %e = sext %acc : i64<8>
  store %o, %e"""))
    assert "%pp = phi" not in found and "pp.offset = phi" in found
    assert found.count("i32*<8>") == 3, "a base, its lanes, and one address in the loop"


def test_moves_under_a_branch() -> None:
    found = after(cleaned, moving("""
  %pp = phi [%p0, entry], [%p2, join] : i32*<8>""", """
  %odd = icmp %i, %one {predicate = eq} : i1
  cond_br %odd, then, join
then:
  %p1 = addptr %pp, %step : i32*<8>
  br join
join:
  %p2 = phi [%pp, body], [%p1, then] : i32*<8>
  %v = load %p2 : i32<8>
  store %p2, %v""", latch="join").replace("addptr %pp, %step", "addptr %pp, %two"))
    assert names(found, "join")[:1] == ["phi"] and "phi [%pp, body]" not in found


def test_tiles_of_integers() -> None:
    found = after(cleaned, moving("""
  %t = phi [%lanes, entry], [%t2, body] : i32<8>""", """
  %t1 = sub %t, %step : i32<8>
  %t2 = add %t1, %two : i32<8>""", """
  %e = sext %t : i64<8>
  store %o, %e"""))
    assert "%t = phi" not in found and "t.offset = phi" in found


@pytest.mark.parametrize("line", [
    "%p1 = addptr %pp, %lanes : i32*<8>",  # not one scalar
    "%p1 = addptr %q0, %two : i32*<8>",  # not from the phi
])
def test_other_moves_stay(line: str) -> None:
    found = parse(moving("%pp = phi [%p0, entry], [%p1, body] : i32*<8>", line))
    assert not strength_reduce(found, CONTEXT)


# hoist_addresses

def hoisted(kernel: Kernel, context: Any) -> bool:
    changed = licm(kernel, context)
    changed |= hoist_addresses(kernel, context)
    return dce(kernel, context) or changed


def test_counter_in_steps_of_the_tile_is_split() -> None:
    text = moving("%acc = phi [%nought, entry], [%acc1, body] : i32<8>", """
  %eight = constant {value = 8} : i32
  %k = mul %i, %eight : i32
  %ks = splat %k : i32<8>
  %rk = add %lanes, %ks : i32<8>
  %a = addptr %pb, %rk : i32*<8>
  %v = load %a : i32<8>
  %acc1 = add %acc, %v : i32<8>""", """
  %e = sext %acc : i64<8>
  store %o, %e""")
    found = after(hoisted, text)
    assert names(found, "body") == ["mul", "sext", "splat", "addptr", "load", "add", "add", "br"]


def addresses(scalar: str, body: str) -> str:
    """A loop that stores the address which it computes from `scalar`."""
    return moving(f"%k = phi [{scalar}, entry], [%k1, body] : i32",
                  body + "\n  %k1 = add %k, %one : i32", "")


WRAPS = """
  %ks = splat %k : i32<8>
  %rk = add %lanes, %ks : i32<8>
  %a = addptr %pb, %rk : i32*<8>
  %e = ptrtoint %a : i64<8>
  store %o, %e"""


def test_no_split_where_the_narrow_sum_may_wrap() -> None:
    """k starts at x, which may be the greatest integer: then k + 1 is the least."""
    found = parse(addresses("%x", WRAPS))
    assert not hoist_addresses(found, CONTEXT)


@pytest.mark.parametrize("widening", ["sext", "zext"])
def test_no_split_through_a_widening_of_a_sum_that_may_wrap(widening: str) -> None:
    found = parse(addresses("%x", WRAPS.replace(
        "%a = addptr %pb, %rk", f"%rw = {widening} %rk : i64<8>\n  %a = addptr %pb, %rw")))
    assert not hoist_addresses(found, CONTEXT)


def test_nothing_is_left_of_a_part_that_cannot_be_split() -> None:
    found = parse(addresses("%zero", """
  %is = splat %i : i32<8>
  %ri = add %lanes, %is : i32<8>
  %a1 = addptr %pb, %ri : i32*<8>
  %l2 = add %lanes, %two : i32<8>
  %ks = splat %k : i32<8>
  %t = xor %lanes, %ks : i32<8>
  %lt = mul %l2, %t : i32<8>
  %a = addptr %a1, %lt : i32*<8>
  %e = ptrtoint %a : i64<8>
  store %o, %e"""))
    before = names(body_text(found), "entry").count("constant")
    assert hoist_addresses(found, CONTEXT)
    assert names(body_text(found), "entry").count("constant") == before


def test_bounded_counter_is_split() -> None:
    found = after(hoisted, addresses("%zero", WRAPS).replace("%k1 = add %k, %one",
                                                             "%k1 = add %i, %one"))
    assert names(found, "body").count("splat") == 1


def test_differences_are_split_too() -> None:
    found = after(hoisted, addresses("%zero", """
  %is = splat %i : i32<8>
  %rk = sub %lanes, %is : i32<8>
  %a = addptr %pb, %rk : i32*<8>
  %e = ptrtoint %a : i64<8>
  store %o, %e"""))
    assert names(found, "body")[:4] == ["sub", "sext", "splat", "addptr"]


def test_rows_times_pitch_keep_a_narrow_sum() -> None:
    """(lanes + k) * x may wrap: the tile lanes * x leaves the loop, the sum stays."""
    found = after(hoisted, addresses("%zero", """
  %ks = splat %k : i32<8>
  %rk = add %lanes, %ks : i32<8>
  %off = mul %rk, %step : i32<8>
  %a = addptr %pb, %off : i32*<8>
  %e = ptrtoint %a : i64<8>
  store %o, %e"""))
    assert "mul" in names(found, "entry")
    assert names(found, "body") == ["mul", "splat", "add", "addptr", "ptrtoint", "store", "add",
                                    "add", "br"]


def test_pointers_of_rows_broadcast_over_columns() -> None:
    found = after(hoisted, addresses("%zero", """
  %col = reshape %pb : i32*<8, 1>
  %wide = broadcast %col : i32*<8, 8>
  %eight = constant {value = 8} : i32
  %k8 = mul %i, %eight : i32
  %ks = splat %k8 : i32<8>
  %rk = add %lanes, %ks : i32<8>
  %row = reshape %rk : i32<1, 8>
  %rows = broadcast %row : i32<8, 8>
  %a = addptr %wide, %rows : i32*<8, 8>
  %v = ptrtoint %a : i64<8, 8>
  %e = reduce %v {kind = add, axes = [1]} : i64<8>
  store %o, %e"""))
    assert names(found, "body")[:5] == ["mul", "sext", "splat", "addptr", "ptrtoint"]
    assert names(found, "entry").count("addptr") == 2, "of the output, and the fixed part"


def test_an_offset_from_a_table_stays_and_the_rest_goes() -> None:
    found = after(hoisted, addresses("%zero", """
  %five = constant {value = 5} : i32<8>
  %ks = splat %k : i32<8>
  %t1 = xor %lanes, %ks : i32<8>
  %t = and %t1, %five : i32<8>
  %a1 = addptr %pb, %t : i32*<8>
  %is = splat %i : i32<8>
  %ri = add %lanes, %is : i32<8>
  %a2 = addptr %a1, %ri : i32*<8>
  %a = addptr %a2, %step : i32*<8>
  %e = ptrtoint %a : i64<8>
  store %o, %e"""))
    assert names(found, "body").count("addptr") == 2
    assert "add %lanes" not in found


def test_sixty_four_bits_need_no_proof() -> None:
    found = after(hoisted, addresses("%x", """
  %kl = sext %k : i64
  %ks = splat %kl : i64<8>
  %ll = sext %lanes : i64<8>
  %xl = sext %x : i64
  %xs = splat %xl : i64<8>
  %rk = add %ll, %ks : i64<8>
  %off = mul %rk, %xs : i64<8>
  %a = addptr %pb, %off : i32*<8>
  %e = ptrtoint %a : i64<8>
  store %o, %e"""))
    assert names(found, "body").count("addptr") == 1
    assert names(found, "body")[:3] == ["sext", "mul", "splat"]


def test_two_axes_and_unsigned_widening() -> None:
    found = after(hoisted, addresses("%zero", """
  %ks = splat %i : i32<8>
  %rk = add %ks, %lanes : i32<8>
  %ru = zext %rk : i64<8>
  %a1 = addptr %pb, %ru : i32*<8>
  %a = addptr %a1, %lanes : i32*<8>
  %e = ptrtoint %a : i64<8>
  store %o, %e"""))
    assert names(found, "body").count("addptr") == 1
