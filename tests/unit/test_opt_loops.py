"""Passes that prepare loops and empty them: before, after, and what they must leave alone."""

from __future__ import annotations

from passes_on_text import after, kernel, names

from tritonc.opt.loops.canonicalize_loops import canonicalize_loops
from tritonc.opt.loops.late_sums import late_sums
from tritonc.opt.loops.licm import licm

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


# late_sums

def test_a_sum_behind_a_loop_stands_before_what_reads_it() -> None:
    """Where the exit has phis, too."""
    found = after(late_sums, kernel("""
entry:
  %zero = constant {value = 0} : i32
  %step = constant {value = 4} : i32
  %four = range {start = 0, stop = 4} : i32<4>
  br head
head:
  %i = phi [%zero, entry], [%next, body] : i32
  %sum = phi [%x, entry], [%more, body] : i32
  %stay = icmp %i, %step {predicate = sle} : i1
  cond_br %stay, body, exit
body:
  %all = splat %i : i32<4>
  %tile = add %all, %four : i32<4>
  %part = reduce %tile {kind = add, axes = [0]} : i32
  %more = add %sum, %part : i32
  %next = add %i, %step : i32
  br head
exit:
  %total = phi [%sum, head] : i32
  store %out0, %total
  ret"""))
    assert names(found, "exit") == ["phi", "store", "ret"]
    assert names(found, "head.exit") == ["reduce", "add", "br"]
