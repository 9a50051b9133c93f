"""The kernels on which every pass of the backend is tested, with what they compute.

Data are small integers, also in floats, so that sums are exact in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sketch import Program, Sketch

from tritonc.ir.types import BF16, F16, F32, I32, Scalar, make

Programs = dict[str, Callable[[], Program]]
ALONE = {"no_alias": True, "multiple_of": 16}


def data(*extents: int, seed: int = 0, low: int = -8, high: int = 9) -> Any:
    return np.random.default_rng(seed).integers(low, high, extents)


def vector_add(n: int = 1000, tile: int = 256, warps: int = 4, **info: Any) -> Program:
    k = Sketch("add", warps)
    a, b = data(n).astype(np.float32), data(n, seed=1).astype(np.float32)
    x, y = k.pointer("x", F32, a, **info), k.pointer("y", F32, b, **info)
    z = k.pointer("z", F32, np.zeros(n), **info)
    count = k.integer("n", n)
    r = k.indices(0, tile)
    inside = k.less(r, count)
    left = k.load_or_zero(k.at(x, r), inside)
    right = k.load_or_zero(k.at(y, r), inside)
    k.store(k.at(z, r), k.fadd(left, right), inside)
    k.grid = (-(-n // tile),)
    program = k.done()
    program.expected["z"] = a + b
    return program


def matmul(m: int = 40, n: int = 50, depth: int = 37, tile: tuple[int, int, int] = (32, 32, 16),
           a_transposed: bool = False, b_transposed: bool = False, warps: int | None = 4,
           e: Scalar = F32, start: int = 0) -> Program:
    """c = a @ b + start, masked; the operand named so is stored transposed."""
    tm, tn, tk = tile
    k = Sketch("matmul", warps)
    a, b = data(m, depth), data(depth, n, seed=1)
    pa = k.pointer("a", e, a.T if a_transposed else a, **ALONE)
    pb = k.pointer("b", e, b.T if b_transposed else b, **ALONE)
    pc = k.pointer("c", F32, np.zeros((m, n)), **ALONE)
    vm, vn, vk = (k.integer(name, v) for name, v in (("m", m), ("n", n), ("depth", depth)))
    rm, rn, rk = k.indices(0, tm), k.indices(1, tn), k.arange(tk)
    p = k.matrix(pa, rm, rk, (tm, tk), a_transposed, vm if a_transposed else vk)
    q = k.matrix(pb, rk, rn, (tk, tn), b_transposed, vk if b_transposed else vn)
    step_a = k.number(tk) if not a_transposed else k.mul(vm, k.number(tk))
    step_b = k.number(tk) if b_transposed else k.mul(vn, k.number(tk))
    turns = k.udiv(k.add(vk, k.number(tk - 1)), k.number(tk))
    with k.loop(turns, k.full(start, F32, tm, tn), p, q, vk) as loop:
        total, p, q, left = loop.values
        deep = k.less(rk, left)
        ma = k.build.value("and", k.less(rm, vm, (tm, tk), 0), k.spread(deep, (tm, tk)))
        mb = k.build.value("and", k.spread(deep, (tk, tn), 0), k.less(rn, vn, (tk, tn)))
        product = k.dot(k.load_or_zero(p, ma), k.load_or_zero(q, mb), total)
        loop.next = [product, k.addptr(p, k.spread(step_a, (tm, tk))),
                     k.addptr(q, k.spread(step_b, (tk, tn))), k.sub(left, k.number(tk))]
    mc = k.build.value("and", k.less(rm, vm, (tm, tn), 0), k.less(rn, vn, (tm, tn)))
    k.store(k.rows(pc, rm, vn, rn), loop.values[0], mc)
    k.grid = (-(-m // tm), -(-n // tn))
    program = k.done()
    program.expected["c"] = (a @ b + start).astype(np.float32)
    return program


def transpose(rows: int = 40, columns: int = 70, tile: tuple[int, int] = (32, 64),
              warps: int = 4) -> Program:
    k = Sketch("transpose", warps)
    a = data(rows, columns)
    x = k.pointer("x", F32, a)
    y = k.pointer("y", F32, np.zeros((columns, rows)))
    vr, vc = k.integer("rows", rows), k.integer("columns", columns)
    rr, rc = k.indices(0, tile[0]), k.indices(1, tile[1])
    back = tile[::-1]
    mask = k.build.value("and", k.less(rr, vr, tile, 0), k.less(rc, vc, tile))
    turned = k.build.value("and", k.less(rc, vc, back, 0), k.less(rr, vr, back))
    v = k.load_or_zero(k.rows(x, rr, vc, rc), mask)
    k.store(k.rows(y, rc, vr, rr), k.trans(v, permutation=(1, 0)), turned)
    k.grid = (-(-rows // tile[0]), -(-columns // tile[1]))
    program = k.done()
    program.expected["y"] = a.T.astype(np.float32)
    return program


def reduce_axis(extents: tuple[int, ...], axes: tuple[int, ...], kind: str = "fadd",
                warps: int = 4) -> Program:
    """y = x reduced; the tile is the whole array."""
    k = Sketch("reduce", warps)
    a = data(*extents)
    e = F32 if kind[0] == "f" else I32
    size = int(np.prod(extents))
    x = k.pointer("x", e, a)
    left = tuple(n for d, n in enumerate(extents) if d not in axes)
    function = {"add": np.sum, "max": np.max, "min": np.min}[kind.lstrip("fsu")]
    want = function(a, axis=axes)
    y = k.pointer("y", e, np.zeros_like(want))
    flat = k.arange(size)
    index = k.reshape(flat, type=make(I32, extents)) if len(extents) > 1 else flat
    total = k.reduce(k.load(k.at(x, index)), kind=kind, axes=axes)
    if left:
        out = k.arange(int(np.prod(left)))
        out = k.reshape(out, type=make(I32, left)) if len(left) > 1 else out
        k.store(k.at(y, out), total)
    else:
        k.store(y, total)
    program = k.done()
    program.expected["y"] = want
    return program


def softmax_like(rows: int = 8, columns: int = 100, tile: tuple[int, int] = (4, 128),
                 warps: int = 4) -> Program:
    """y = x - max over the row + sum over the row."""
    k = Sketch("softmax", warps)
    a = data(rows, columns)
    x, y = k.pointer("x", F32, a, **ALONE), k.pointer("y", F32, np.zeros((rows, columns)), **ALONE)
    vc = k.integer("columns", columns)
    rr, rc = k.indices(0, tile[0]), k.arange(tile[1])
    mask = k.less(rc, vc, tile)
    v = k.load(k.rows(x, rr, vc, rc), mask, other=-1e30)
    zero = k.select(mask, v, k.full(0, F32, *tile))
    low = k.spread(k.reduce(v, kind="fmax", axes=(1,)), tile, 0)
    total = k.spread(k.reduce(zero, kind="fadd", axes=(1,)), tile, 0)
    k.store(k.rows(y, rr, vc, rc), k.fadd(k.fsub(v, low), total), mask)
    k.grid = (-(-rows // tile[0]),)
    program = k.done()
    a = a.astype(np.float32)
    program.expected["y"] = a - a.max(1, keepdims=True) + a.sum(1, keepdims=True)
    return program


def scan(extents: tuple[int, ...] = (4, 64), axis: int = 1, warps: int = 2) -> Program:
    k = Sketch("scan", warps)
    a = data(*extents)
    x, y = k.pointer("x", I32, a), k.pointer("y", I32, np.zeros(extents))
    index = k.reshape(k.arange(int(np.prod(extents))), type=make(I32, extents))
    k.store(k.at(y, index), k.scan(k.load(k.at(x, index)), kind="add", axis=axis))
    program = k.done()
    program.expected["y"] = np.cumsum(a, axis)
    return program


def outer(rows: int = 16, columns: int = 64, warps: int = 4) -> Program:
    """y[i, j] = a[i] + b[j]: broadcasts of loads along both axes."""
    k = Sketch("outer", warps)
    a, b = data(rows), data(columns, seed=1)
    pa, pb = k.pointer("a", F32, a), k.pointer("b", F32, b)
    y = k.pointer("y", F32, np.zeros((rows, columns)))
    ri, rj = k.arange(rows), k.arange(columns)
    left = k.spread(k.load(k.at(pa, ri)), (rows, columns), 0)
    right = k.spread(k.load(k.at(pb, rj)), (rows, columns))
    k.store(k.rows(y, ri, columns, rj), k.fadd(left, right))
    program = k.done()
    program.expected["y"] = (a[:, np.newaxis] + b).astype(np.float32)
    return program


def table_lookup(n: int = 256, warps: int = 2) -> Program:
    """y[i] = x[t[i]], y[t[i] ^ 1] untouched: addresses that come from memory."""
    k = Sketch("lookup", warps)
    order, a = np.random.default_rng(3).permutation(n), data(n, seed=1)
    t, x = k.pointer("t", I32, order), k.pointer("x", F32, a)
    y, z = k.pointer("y", F32, np.zeros(n)), k.pointer("z", F32, np.zeros(n))
    r = k.arange(n)
    places = k.load(k.at(t, r))
    v = k.load(k.at(x, places))
    k.store(k.at(y, r), v)
    k.store(k.at(z, places), k.load(k.at(x, r)))
    program = k.done()
    want = np.zeros(n, np.float32)
    want[order] = a
    program.expected |= {"y": a[order].astype(np.float32), "z": want}
    return program


def chosen_pointers(n: int = 128, warps: int = 2) -> Program:
    """Pointers selected by loaded flags, then used in another layout."""
    k = Sketch("chosen", warps)
    flags, a, b = data(n, low=0, high=2), data(n, seed=1), data(n, seed=2)
    f = k.pointer("f", I32, flags)
    x, y = k.pointer("x", F32, a), k.pointer("y", F32, b)
    z = k.pointer("z", F32, np.zeros((n // 8, 8)))
    r = k.arange(n)
    want = k.icmp(k.load(k.at(f, r)), k.full(1, I32, n), predicate="eq")
    p = k.select(want, k.at(x, r), k.at(y, r))
    turned = k.trans(k.reshape(p, type=make(p.type.element, (8, n // 8))), permutation=(1, 0))
    k.store(k.rows(z, k.arange(n // 8), 8, k.arange(8)), k.load(turned))
    program = k.done()
    program.expected["z"] = np.where(flags, a, b).reshape(8, n // 8).T.astype(np.float32)
    return program


def atomic_sum(n: int = 512, tile: int = 128, warps: int = 4) -> Program:
    """total += sum of x by a scalar atomic whose old value is stored too."""
    k = Sketch("atomic_sum", warps)
    a = data(n, low=0)
    x, total = k.pointer("x", I32, a), k.pointer("total", I32, np.zeros(1))
    old = k.pointer("old", I32, np.zeros(n // tile))
    r = k.indices(0, tile)
    part = k.reduce(k.load(k.at(x, r)), kind="add", axes=(0,))
    before = k.atomic_rmw(total, part, kind="add")
    k.store(k.addptr(old, k.get_program_id(axis=0)), before)
    k.grid = (n // tile,)
    program = k.done()
    parts = a.reshape(-1, tile).sum(1)
    program.expected |= {"total": a.sum(keepdims=True), "old": np.cumsum(parts) - parts}
    return program


def histogram(n: int = 256, bins: int = 16, warps: int = 2, small: bool = False) -> Program:
    """A tile of atomics on loaded addresses; `small` holds it in copies and uses the results."""
    k = Sketch("histogram", warps)
    n = 8 if small else n
    a = data(n, low=0, high=bins)
    x, h = k.pointer("x", I32, a), k.pointer("h", I32, np.zeros(bins))
    ticket = k.pointer("ticket", I32, np.zeros(n))
    r = k.arange(n)
    old = k.atomic_rmw(k.at(h, k.load(k.at(x, r))), k.full(1, I32, n), kind="add")
    if small:
        k.store(k.at(ticket, r), old)
    program = k.done()
    program.expected["h"] = np.bincount(a, minlength=bins)
    if small:
        program.expected["ticket"] = [int((a[:i] == a[i]).sum()) for i in range(n)]
    return program


def locked(n: int = 64, warps: int = 2) -> Program:
    """Instances add to one row under a lock: read, add, write, then give the lock back."""
    k = Sketch("locked", warps)
    a = data(4, n)
    x, y = k.pointer("x", F32, a), k.pointer("y", F32, np.zeros(n))
    lock = k.pointer("lock", I32, np.zeros(1))
    r = k.arange(n)
    mine = k.add(k.spread(k.mul(k.get_program_id(axis=0), k.number(n)), (n,)), r)
    zero, one = k.number(0), k.number(1)
    wait, go = k.block("wait"), k.block("go")
    k.emit("br", blocks=[wait])
    k.build.block = wait
    old = k.atomic_cas(lock, zero, one)
    k.emit("cond_br", k.icmp(old, zero, predicate="eq"), blocks=[go, wait])
    k.build.block = go
    p = k.at(y, r)
    k.store(p, k.fadd(k.load(p), k.load(k.at(x, mine))))
    k.atomic_rmw(lock, zero, kind="xchg")
    k.grid = (4,)
    program = k.done()
    program.expected |= {"y": a.sum(0).astype(np.float32), "lock": np.zeros(1)}
    return program


def pointer_loop(n: int = 300, tile: int = 64, turns: int = 5, warps: int = 2) -> Program:
    """A sum over strips of x by a pointer phi; `turns` 0 stores zeros."""
    k = Sketch("strips", warps)
    a = data(turns, tile)
    x, y = k.pointer("x", F32, a if turns else np.zeros(1)), k.pointer("y", F32, np.zeros(tile))
    count = k.integer("turns", turns)
    r = k.arange(tile)
    with k.loop(count, k.full(0, F32, tile), k.at(x, r)) as loop:
        total, p = loop.values
        loop.next = [k.fadd(total, k.load(p)), k.addptr(p, k.full(tile, I32, tile))]
    k.store(k.at(y, r), loop.values[0])
    program = k.done()
    program.expected["y"] = a.sum(0).astype(np.float32)
    return program


def nested_dots(turns: tuple[int, int] = (2, 3), size: int = 16, warps: int = 4) -> Program:
    """y[i] = sum over j of x[j] @ (w + i): an outer loop that stores, an inner one of dots."""
    k = Sketch("nested", warps)
    outer_turns, inner_turns = turns
    a, b = data(max(inner_turns, 1), size, size), data(max(inner_turns, 1), size, size, seed=1)
    x, w = k.pointer("x", F32, a, **ALONE), k.pointer("w", F32, b, **ALONE)
    y = k.pointer("y", F32, np.ones((max(outer_turns, 1), size, size)), **ALONE)
    vo, vi = k.integer("outer", outer_turns), k.integer("inner", inner_turns)
    r = k.arange(size)
    extents = (size, size)
    px, pw, py = (k.rows(p, r, size, r) for p in (x, w, y))
    with k.loop(vo, py) as outside:
        (out,) = outside.values
        with k.loop(vi, k.full(0, F32, *extents), px, pw) as inside:
            total, p, q = inside.values
            right = k.fadd(k.load(q), k.spread(k.sitofp(outside.index, type=F32), extents))
            step = k.full(size * size, I32, *extents)
            loop_next = [k.dot(k.load(p), right, total), k.addptr(p, step), k.addptr(q, step)]
            inside.next = loop_next
        k.store(out, inside.values[0])
        outside.next = [k.addptr(out, k.full(size * size, I32, *extents))]
    program = k.done()
    want = np.ones((max(outer_turns, 1), size, size))
    for i in range(outer_turns):
        want[i] = sum(a[j] @ (b[j] + i) for j in range(inner_turns))
    program.expected["y"] = want.astype(np.float32)
    return program


def chained_dots(size: int = 32, warps: int = 4) -> Program:
    """(a @ b) @ c: the second dot stages what the first one computed."""
    k = Sketch("chained", warps)
    arrays = [data(size, size, seed=s, low=-3, high=4) for s in range(3)]
    pa, pb, pc = (k.pointer(n, F32, v, **ALONE) for n, v in zip("abc", arrays, strict=True))
    y = k.pointer("y", F32, np.zeros((size, size)), **ALONE)
    r = k.arange(size)
    a, b, c = (k.load(k.rows(p, r, size, r)) for p in (pa, pb, pc))
    zero = k.full(0, F32, size, size)
    k.store(k.rows(y, r, size, r), k.dot(k.dot(a, b, zero), c, zero))
    program = k.done()
    program.expected["y"] = (arrays[0] @ arrays[1] @ arrays[2]).astype(np.float32)
    return program


def in_place(n: int = 64, shift: int = 1, warps: int = 2) -> Program:
    """x[i] = x[i + shift] within the tile, then again: reads what other threads wrote."""
    k = Sketch("in_place", warps)
    a = data(n + 2 * shift)
    x = k.pointer("x", I32, a)
    r = k.arange(n)
    for _ in range(2):
        k.store(k.at(x, r), k.load(k.at(x, k.add(r, k.full(shift, I32, n)))))
    program = k.done()
    want = a.copy()
    for _ in range(2):
        want[:n] = want[shift : n + shift].copy()
    program.expected["x"] = want
    return program


def one_place(n: int = 32, warps: int = 1) -> Program:
    """All elements use one address: the fourth stores, then all load."""
    k = Sketch("one_place", warps)
    x, y = k.pointer("x", I32, np.zeros(1)), k.pointer("y", I32, np.zeros(n))
    r = k.arange(n)
    p = k.spread(x, (n,))
    k.store(p, r, k.icmp(r, k.full(4, I32, n), predicate="eq"))
    k.store(k.at(y, r), k.load(p))
    program = k.done()
    program.expected |= {"x": [4], "y": np.full(n, 4)}
    return program


# Run for targets with matrix instructions too.
MATRIX_PROGRAMS: Programs = {
    "f16": lambda: matmul(64, 72, 40, (32, 32, 32), e=F16),
    "bf16 nt": lambda: matmul(70, 64, 80, (64, 64, 32), b_transposed=True, e=BF16),
    "bf16 tn": lambda: matmul(192, 64, 64, (64, 64, 32), a_transposed=True, e=BF16, warps=None),
    "f16 tt": lambda: matmul(192, 128, 136, (64, 128, 64), True, True, e=F16, warps=None),
    "f16 wide": lambda: matmul(128, 256, 136, (128, 128, 64), e=F16, warps=None),
    "f16 of one turn": lambda: matmul(64, 64, 64, (64, 64, 64), e=F16, warps=None),
    "f16 of no turn": lambda: matmul(64, 64, 0, (64, 64, 64), e=F16, warps=None),
    "f16 odd": lambda: matmul(129, 63, 131, (64, 64, 64), e=F16, warps=None),
}

PROGRAMS: Programs = {
    "vector_add": vector_add,
    "vector_add aligned": lambda: vector_add(1024, 128, 2, **ALONE),
    "vector_add one warp": lambda: vector_add(100, 32, 1),
    "matmul": matmul,
    "matmul nt": lambda: matmul(b_transposed=True),
    "matmul tn": lambda: matmul(33, 64, 32, a_transposed=True),
    "matmul tt": lambda: matmul(20, 100, 5, (16, 64, 8), True, True, 2),
    "matmul one warp": lambda: matmul(17, 15, 9, (16, 16, 4), warps=1),
    "matmul eight warps": lambda: matmul(64, 64, 64, (64, 64, 32), warps=8),
    "matmul depth 0": lambda: matmul(16, 16, 0, (16, 16, 16)),
    "matmul turned": lambda: matmul(32, 64, 64, b_transposed=True),
    "matmul split": lambda: matmul(warps=None),
    "matmul split nt": lambda: matmul(16, 33, 64, (16, 16, 64), False, True, None, start=3),
    "matmul split tt": lambda: matmul(40, 64, 20, (16, 64, 32), True, True, None),
    "matmul thin": lambda: matmul(3, 70, 20, (1, 64, 16)),
    "transpose": transpose,
    "transpose small": lambda: transpose(5, 6, (8, 2), 2),
    "reduce rows": lambda: reduce_axis((8, 128), (1,)),
    "reduce columns": lambda: reduce_axis((64, 16), (0,)),
    "reduce all": lambda: reduce_axis((32, 32), (0, 1)),
    "reduce one": lambda: reduce_axis((512,), (0,), "smax"),
    "reduce small": lambda: reduce_axis((2, 4), (1,), "smin", 4),
    "reduce middle": lambda: reduce_axis((4, 32, 8), (1,), "add", 8),
    "reduce outer two": lambda: reduce_axis((16, 8, 8), (0, 2), "fmax"),
    "softmax": softmax_like,
    "scan": scan,
    "scan columns": lambda: scan((64, 8), 0, 4),
    "scan long": lambda: scan((1, 256), 1, 4),
    "outer": outer,
    "outer tall": lambda: outer(128, 4, 2),
    "table lookup": table_lookup,
    "chosen pointers": chosen_pointers,
    "atomic sum": atomic_sum,
    "histogram": histogram,
    "histogram in copies": lambda: histogram(small=True, warps=4),
    "lock": locked,
    "pointer loop": pointer_loop,
    "pointer loop of none": lambda: pointer_loop(turns=0),
    "nested dots": nested_dots,
    "nested dots of none": lambda: nested_dots((2, 0)),
    "nested dots outside of none": lambda: nested_dots((0, 2)),
    "chained dots": chained_dots,
    "in place": in_place,
    "one place": one_place,
}
