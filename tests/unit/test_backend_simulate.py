"""The simulation reports each kind of wrong synchronisation, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulator.machine import handlers
from sketch import Program, parse

from tritonc.backend.target.machine_ops import ALL_OPS, MACHINE_OPS
from tritonc.interp.interpreter import InterpreterError

# Two warps: `row` has a thread for each of 64 elements, `turned` another thread for each, `copies`
# all 64 elements in both warps, two per thread.
HEADER = """
#row = #layout<shape=[64], register=[], lane=[1,2,4,8,16], warp=[32]>
#turned = #layout<shape=[64], register=[], lane=[2,4,8,16,32], warp=[1]>
#copies = #layout<shape=[64], register=[1], lane=[2,4,8,16,32], warp=[0]>
#buffer = #shared<shape=[64], offset=[1,2,4,8,16,32], alignment=16>
#swapped = #shared<shape=[64], offset=[1,2,4,8,16,48], alignment=16>
kernel @k(i32* %x, i32* %y) {num_warps = 2} {
entry:
  %r = range {start = 0, stop = 64} : i32<64; #row>
  %xs = splat %x : i32*<64; #row>
  %px = addptr %xs, %r : i32*<64; #row>
  %rt = range {start = 0, stop = 64} : i32<64; #turned>
  %rc = range {start = 0, stop = 64} : i32<64; #copies>
  %ys = splat %y : i32*<64; #turned>
  %py = addptr %ys, %rt : i32*<64; #turned>
  %ysr = splat %y : i32*<64; #row>
  %pyr = addptr %ysr, %r : i32*<64; #row>
  %yc = splat %y : i32*<64; #copies>
  %pyc = addptr %yc, %rc : i32*<64; #copies>
  %zero = constant {value = 0} : i32
  %one = constant {value = 1} : i32
"""
X = np.arange(64) * 3 + 1


def launch(body: str, check: bool = True) -> Any:
    """What y holds after the lines of `body`, from x = 1, 4, 7, ..."""
    text = HEADER + "".join(f"  {line.strip()}\n" for line in body.strip().split("\n"))
    program = Program(parse(text + "  ret\n}\n"), [X, np.zeros(64)], (1,))
    return program.run(check)["y"]


ALLOCATE = "%s = alloc_shared {offset = 0} : buffer<1 x i32<64>; #buffer>"


def fails(body: str, message: str, name: str = "run-race") -> None:
    with pytest.raises(InterpreterError, match=message) as caught:
        launch(body)
    assert caught.value.diagnostics[0].name == name
    assert caught.value.diagnostics[0].span is not None


EXCHANGE = f"""{ALLOCATE}
  %v = load %px : i32<64; #row>
  shared_store %s, %v
  barrier
  %w = shared_load %s : i32<64; #turned>
  store %py, %w"""


def test_an_exchange() -> None:
    np.testing.assert_array_equal(launch(EXCHANGE), X)


def test_a_swizzled_buffer_holds_the_same() -> None:
    np.testing.assert_array_equal(launch(EXCHANGE.replace("#buffer", "#swapped")), X)


def test_reading_what_another_thread_wrote() -> None:
    fails(EXCHANGE.replace("barrier\n", "\n"), "element .1. of what this shared_load reads")


def test_reading_what_the_same_thread_wrote_needs_no_barrier() -> None:
    body = EXCHANGE.replace("barrier\n", "\n").replace("#turned", "#row").replace("%py", "%pyr")
    np.testing.assert_array_equal(launch(body), X)


def test_copies_read_what_one_of_them_wrote() -> None:
    body = f"""{ALLOCATE}
      %v = load %pyc : i32<64; #copies>
      shared_store %s, %v
      %w = shared_load %s : i32<64; #copies>"""
    fails(body, "another thread wrote it")


def test_overwriting_what_another_thread_read() -> None:
    fails(f"""{EXCHANGE}
      shared_store %s, %r""", "overwrites")


def test_overwriting_what_another_thread_wrote() -> None:
    fails(f"""{ALLOCATE}
      shared_store %s, %r
      shared_store %s, %rt""", "overwrites")


def test_a_barrier_between_is_enough() -> None:
    launch(f"""{EXCHANGE}
      barrier
      shared_store %s, %r""")


def test_reading_what_was_never_stored() -> None:
    fails(f"""{ALLOCATE}
      %w = shared_load %s : i32<64; #row>""", "nothing was stored", "run-shared-memory")


def test_buffers_that_overlap() -> None:
    """The second buffer takes the last 16 elements of the first one's bytes."""
    fails(f"""{ALLOCATE}
      %t = alloc_shared {{offset = 192}} : buffer<1 x i32<64>; #buffer>
      shared_store %s, %r
      barrier
      shared_store %t, %r
      barrier
      %w = shared_load %s : i32<64; #row>""", "element .48. .* another buffer", "run-shared-memory")


def test_buffers_that_overlap_one_after_the_other() -> None:
    body = f"""{EXCHANGE}
      barrier
      %t = alloc_shared {{offset = 0}} : buffer<1 x i32<64>; #buffer>
      shared_store %t, %r"""
    launch(body)
    fails(body.replace("barrier\n      %t", "%t"), "overwrites")


def test_a_buffer_made_anew_holds_nothing() -> None:
    fails(f"""{ALLOCATE}
      shared_store %s, %r
      barrier
      {ALLOCATE.replace("%s", "%t")}
      %w = shared_load %t : i32<64; #row>""", "nothing was stored", "run-shared-memory")


def test_buffers_without_offsets_are_apart() -> None:
    alone = ALLOCATE.replace(" {offset = 0}", "")
    np.testing.assert_array_equal(launch(EXCHANGE.replace(ALLOCATE, alone)), X)
    fails(EXCHANGE.replace(ALLOCATE, alone).replace("barrier\n", "\n"), "another thread wrote it")


def test_stages_are_apart() -> None:
    body = """%s = alloc_shared {offset = 0} : buffer<2 x i32<64>; #buffer>
      %a = buffer_stage %s, %zero : buffer<1 x i32<64>; #buffer>
      %b = buffer_stage %s, %one : buffer<1 x i32<64>; #buffer>
      shared_store %a, %r
      shared_store %b, %rt
      barrier
      %w = shared_load %a : i32<64; #turned>
      store %py, %w"""
    np.testing.assert_array_equal(launch(body), np.arange(64))
    fails(body.replace("buffer_stage %s, %one", "buffer_stage %s, %zero"), "overwrites")
    two = "%two = add %one, %one : i32\n      "
    fails(two + body.replace("%s, %one", "%s, %two"), "stage 2 of 2", "run-out-of-bounds")


COPY = f"""{ALLOCATE}
  async_copy %s, %px
  async_commit
  async_wait {{pending = 0}}
  barrier
  %w = shared_load %s : i32<64; #turned>
  store %py, %w"""


def test_a_copy() -> None:
    np.testing.assert_array_equal(launch(COPY), X)


def test_a_copy_under_a_guard_brings_zeros() -> None:
    guard = """%five = constant {value = 5} : i32<64; #row>
      %in = icmp %r, %five {predicate = slt} : i1<64; #row>
      """
    got = launch(guard + COPY.replace("async_copy", "@%in async_copy"))
    np.testing.assert_array_equal(got, np.where(np.arange(64) < 5, X, 0))


@pytest.mark.parametrize(("old", "new", "message"), [
    ("async_wait {pending = 0}\n", "\n", "a copy into it is in flight"),
    ("async_wait {pending = 0}", "async_wait {pending = 1}", "a copy into it is in flight"),
    ("async_commit\n", "\n", "a copy into it is in flight"),
    ("barrier\n", "\n", "another thread wrote it"),
    ("async_wait {pending = 0}\n  barrier", "barrier\n  async_wait {pending = 0}",
     "another thread wrote it"),
    ("async_commit\n", "async_commit\n  shared_store %s, %r\n", "a copy into it is in flight"),
    ("async_commit\n", "async_commit\n  store %px, %r\n", "stored to while the copy"),
])
def test_copies_that_are_not_waited_for(old: str, new: str, message: str) -> None:
    assert old in COPY
    fails(COPY.replace(old, new), message)


def test_the_thread_that_copies_sees_its_copy_after_the_wait() -> None:
    body = COPY.replace("barrier\n", "\n").replace("#turned", "#row").replace("%py", "%pyr")
    np.testing.assert_array_equal(launch(body), X)


def test_a_copy_over_what_is_still_read() -> None:
    fails(f"""{EXCHANGE}
      async_copy %s, %px""", "what this async_copy overwrites")


def test_groups_end_in_order() -> None:
    body = """%s = alloc_shared {offset = 0} : buffer<2 x i32<64>; #buffer>
      %a = buffer_stage %s, %zero : buffer<1 x i32<64>; #buffer>
      %b = buffer_stage %s, %one : buffer<1 x i32<64>; #buffer>
      async_copy %a, %px
      async_commit
      async_copy %b, %px
      async_commit
      async_wait {pending = 1}
      barrier
      %w = shared_load %a : i32<64; #turned>
      store %py, %w"""
    np.testing.assert_array_equal(launch(body), X)
    fails(body.replace("shared_load %a", "shared_load %b"), "in flight")


def test_gathers() -> None:
    body = f"""%last = constant {{value = 63}} : i32<64; #turned>
      %back = sub %last, %rt : i32<64; #turned>
      {ALLOCATE}
      %v = load %px : i32<64; #row>
      shared_store %s, %v
      barrier
      %w = shared_gather %s, %back : i32<64; #turned>
      store %py, %w"""
    np.testing.assert_array_equal(launch(body), X[::-1])
    fails(body.replace("barrier\n", "\n"), "another thread wrote it")
    fails(body.replace("%s, %back", "%s, %beyond").replace(
        "%v =", "%beyond = add %rt, %rt : i32<64; #turned>\n      %v ="), "not below 64",
        "run-out-of-bounds")


def test_undefined_elements_stay_so_in_shared_memory() -> None:
    body = EXCHANGE.replace("%v = load", "%five = constant {value = 5} : i32<64; #row>\n"
                            "  %in = icmp %r, %five {predicate = slt} : i1<64; #row>\n"
                            "  @%in %v = load")
    fails(body, "element .5. of the value stored here is undefined", "run-undefined")


GLOBAL = """store %pyr, %r
  barrier
  %v = load %py : i32<64; #turned>"""


def test_global_memory() -> None:
    launch(GLOBAL)
    fails(GLOBAL.replace("barrier\n", "\n"), "loads y .* another thread of the instance")
    fails("""%v = load %py : i32<64; #turned>
      store %pyr, %r""", "stores to y")
    launch("""%v = load %py : i32<64; #turned>
      store %py, %rt""")


def test_scalars_are_read_by_all_threads_and_stored_by_one() -> None:
    fails("""store %y, %one
      %v = load %y : i32""", "loads y")
    fails("""%v = load %y : i32
      store %y, %one""", "stores to y")


def test_a_lock_needs_a_barrier_on_both_sides() -> None:
    body = """%old = atomic_cas %x, %one, %zero : i32
      barrier
      store %pyr, %r
      barrier
      store %x, %one {release = true}"""
    launch(body)
    first, second = body.replace("barrier\n", "\n", 1), body[::-1].replace("reirrab", "", 1)[::-1]
    fails(first, "has taken a lock")
    fails(second, "may still use memory")


def test_unchecked_operations_only_compute() -> None:
    np.testing.assert_array_equal(launch(EXCHANGE.replace("barrier\n", "\n"), check=False), X)


DOT = """
#r = #layout<shape=[32], register=[], lane=[1,2,4,8,16], warp=[0]>
#q = #layout<shape=[16], register=[], lane=[1,2,4,8,0], warp=[0]>
#c = #layout<shape=[4,8], register=[], lane=[1,2,4,8,16], warp=[0]>
#t = #layout<shape=[8,4], register=[], lane=[1,2,4,8,16], warp=[0]>
#a = #shared<shape=[4,8], offset=[1,2,4,8,16], alignment=16>
#b = #shared<shape=[8,4], offset=[1,2,4,8,16], alignment=16>
#bt = #shared<shape=[4,8], offset=[8,16,1,2,4], alignment=16>
kernel @k(f32* %x, f32* %y) {num_warps = 2} {
entry:
  %a = alloc_shared {offset = 0} : buffer<1 x f32<4, 8>; #a>
  %b = alloc_shared {offset = 128} : buffer<1 x f32<8, 4>; #b>
  %r = range {start = 0, stop = 32} : i32<32; #r>
  %i = reshape %r : i32<4, 8; #c>
  %j = reshape %r : i32<8, 4; #t>
  %left = sitofp %i : f32<4, 8; #c>
  %right = sitofp %j : f32<8, 4; #t>
  shared_store %a, %left
  shared_store %b, %right
  barrier
  %zero = constant {value = 0.0} : f32<4, 4; #d>
  %d = fma_dot %a, %b, %zero : f32<4, 4; #d>
  %xs = splat %x : f32*<4, 4; #d>
  %s = range {start = 0, stop = 16} : i32<16; #q>
  %at = reshape %s : i32<4, 4; #d>
  %p = addptr %xs, %at : f32*<4, 4; #d>
  store %p, %d
  ret
}
"""
RESULT = "#d = #layout<shape=[4,4], register=[], lane=[1,2,4,8,0], warp=[0]>"


def test_a_dot_of_buffers() -> None:
    a, b = np.arange(32.0).reshape(4, 8), np.arange(32.0).reshape(8, 4)
    program = Program(parse(RESULT + DOT), [np.zeros((4, 4)), np.zeros(1)], (1,))
    np.testing.assert_array_equal(program.run()["x"], a @ b)
    for line in ("shared_store %a, %left", "shared_store %b, %right"):  # one of them too late
        text = (RESULT + DOT).replace(f"  {line}\n", "").replace("barrier", f"barrier\n  {line}")
        with pytest.raises(InterpreterError, match="what this fma_dot reads: another thread"):
            Program(parse(text), [np.zeros((4, 4)), np.zeros(1)], (1,)).run()


def test_a_view_of_a_buffer_turned() -> None:
    turned = "= buffer_trans %s {permutation = [1, 0]} : buffer"
    text = (RESULT + DOT).replace("%d = fma_dot %a, %b,", f"""
  %at0 {turned.replace("%s", "%a")}<1 x f32<8, 4>; #b>
  %bt0 {turned.replace("%s", "%b")}<1 x f32<4, 8>; #bt>
  %d = fma_dot %bt0, %at0,""")
    a, b = np.arange(32.0).reshape(4, 8), np.arange(32.0).reshape(8, 4)
    program = Program(parse(text), [np.zeros((4, 4)), np.zeros(1)], (1,))
    np.testing.assert_array_equal(program.run()["x"], b.T @ a.T)


def test_bytes_of_every_type_pass_through_memory() -> None:
    for name, values in (("bf16", [1.5, -3.0]), ("f8e5m2", [0.25, 7.0]), ("i1", [1, 0]),
                         ("f64", [1e300, -0.0]), ("i8", [-5, 7]), ("f16", [0.5, 65504.0])):
        text = f"""
#l = #layout<shape=[2], register=[], lane=[1,0,0,0,0], warp=[]>
#m = #layout<shape=[2], register=[1], lane=[0,0,0,0,0], warp=[]>
#s = #shared<shape=[2], offset=[1], alignment=16>
kernel @k({name}* %x, {name}* %y) {{num_warps = 1}} {{
entry:
  %r = range {{start = 0, stop = 2}} : i32<2; #l>
  %a = splat %x : {name}*<2; #l>
  %p = addptr %a, %r : {name}*<2; #l>
  %v = load %p : {name}<2; #l>
  %s = alloc_shared {{offset = 16}} : buffer<1 x {name}<2>; #s>
  shared_store %s, %v
  barrier
  %w = shared_load %s : {name}<2; #m>
  %r2 = range {{start = 0, stop = 2}} : i32<2; #m>
  %b = splat %y : {name}*<2; #m>
  %q = addptr %b, %r2 : {name}*<2; #m>
  store %q, %w
  ret
}}
"""
        found = Program(parse(text), [np.array(values), np.zeros(2)], (1,)).run()
        np.testing.assert_array_equal(found["y"], found["x"])


def test_every_machine_operation_is_simulated() -> None:
    table = handlers()
    missing = [row.name for row in MACHINE_OPS.values()
               if row.meaning is None and row.name not in table]
    assert not missing
    assert not [name for name in table if name not in ALL_OPS]


@pytest.mark.parametrize("warps, meet", [("[64,32,128]", True), ("[128,64,32]", False)])
def test_warpgroups_meet_by_themselves(warps: str, meet: bool) -> None:
    """256 elements, a thread for each; they are read by other warps, of the same group or not."""
    text = f"""
#row = #layout<shape=[256], register=[], lane=[1,2,4,8,16], warp=[32,64,128]>
#other = #layout<shape=[256], register=[], lane=[1,2,4,8,16], warp={warps}>
#buffer = #shared<shape=[256], offset=[1,2,4,8,16,32,64,128], alignment=16>
kernel @k(i32* %y) {{num_warps = 8}} {{
entry:
  %r = range {{start = 0, stop = 256}} : i32<256; #row>
  %ro = range {{start = 0, stop = 256}} : i32<256; #other>
  %ys = splat %y : i32*<256; #other>
  %py = addptr %ys, %ro : i32*<256; #other>
  %s = alloc_shared {{offset = 0}} : buffer<1 x i32<256>; #buffer>
  shared_store %s, %r
  group_barrier
  %w = shared_load %s : i32<256; #other>
  store %py, %w
  ret
}}
"""
    program = Program(parse(text), [np.zeros(256)], (1,))
    if meet:
        np.testing.assert_array_equal(program.run()["y"], np.arange(256))
    else:
        with pytest.raises(InterpreterError, match="another thread wrote it"):
            program.run()
