"""Passes on the addresses of loops: before, after, and what they must leave alone."""

from __future__ import annotations

from typing import Any

import pytest
from passes_on_text import after, kernel, names
from rewriting import CONTEXT, body_text, parse

from tritonc.ir.core import Kernel
from tritonc.opt.addresses.hoist_addresses import hoist_addresses
from tritonc.opt.addresses.strength_reduce import strength_reduce
from tritonc.opt.dce import dce
from tritonc.opt.loops.licm import licm

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
