"""Products of matrices of every operand type, with what they compute."""

from __future__ import annotations

from typing import Any

import numpy as np
from sketch import Program, Sketch

from tritonc.ir.numeric.formats import round_to_tf32, to_memory
from tritonc.ir.types import F16, F32, F64, I32, Scalar

ALONE = {"no_alias": True, "multiple_of": 16}


def result_type(e: Scalar) -> Scalar:
    return F64 if e == F64 else F32 if e.is_float else I32


def data(*extents: int, seed: int = 0) -> Any:
    """Small integers, which all types hold exactly."""
    return np.random.default_rng(seed).integers(-4, 5, extents)


def matmul(e: Scalar, m: int, n: int, depth: int, tile: tuple[int, int, int],
           a_transposed: bool = False, b_transposed: bool = False, masked: bool = True,
           known: int = 1, stored: Scalar | None = None, result: Scalar | None = None,
           minus: bool = False) -> Program:
    """c = a @ b; the operand named so is stored transposed.

    `known`: sizes are declared multiples of it.  `stored`: the operands' type in memory, if it is
    another: then they are no integers either.  `result`: the type of c, if it is another.
    `minus`: c = -(a @ b), of products that are taken away.
    """
    tm, tn, tk = tile
    k = Sketch("matmul")
    a, b = data(m, depth), data(depth, n, seed=1)
    to = result_type(e)
    if stored is not None:
        a, b = a * (1 + 2.0**-11 + 2.0**-14), b * (1 - 2.0**-12)
    pa = k.pointer("a", stored or e, a.T if a_transposed else a, **ALONE)
    pb = k.pointer("b", stored or e, b.T if b_transposed else b, **ALONE)
    pc = k.pointer("c", result or to, np.zeros((m, n)), **ALONE)
    vm, vn, vk = (k.integer(name, v, multiple_of=known)
                  for name, v in (("m", m), ("n", n), ("depth", depth)))
    rm, rn, rk = k.indices(0, tm), k.indices(1, tn), k.arange(tk)
    p = k.matrix(pa, rm, rk, (tm, tk), a_transposed, vm if a_transposed else vk)
    q = k.matrix(pb, rk, rn, (tk, tn), b_transposed, vk if b_transposed else vn)
    step_a = k.number(tk) if not a_transposed else k.mul(vm, k.number(tk))
    step_b = k.number(tk) if b_transposed else k.mul(vn, k.number(tk))
    turns = k.udiv(k.add(vk, k.number(tk - 1)), k.number(tk))
    with k.loop(turns, k.full(0, to, tm, tn), p, q, vk) as loop:
        total, p, q, left = loop.values
        if masked:
            deep = k.less(rk, left)
            ma = k.build.value("and", k.less(rm, vm, (tm, tk), 0), k.spread(deep, (tm, tk)))
            mb = k.build.value("and", k.spread(deep, (tk, tn), 0), k.less(rn, vn, (tk, tn)))
            x, y = k.load_or_zero(p, ma), k.load_or_zero(q, mb)
        else:
            x, y = k.load(p), k.load(q)
        if stored is not None:
            x, y = (k.fpcast(v, type=k.full(0, e, *v.type.shape).type) for v in (x, y))
        sign = {"minus": True} if minus else {}
        loop.next = [k.dot(x, y, total, **sign), k.addptr(p, k.spread(step_a, (tm, tk))),
                     k.addptr(q, k.spread(step_b, (tk, tn))), k.sub(left, k.number(tk))]
    mask = k.build.value("and", k.less(rm, vm, (tm, tn), 0), k.less(rn, vn, (tm, tn)))
    total = loop.values[0]
    if result is not None:
        total = k.fpcast(total, type=k.full(0, result, tm, tn).type)
    k.store(k.rows(pc, rm, vn, rn), total, mask if masked else None)
    k.grid = (-(-m // tm), -(-n // tn))
    program = k.done()
    if stored is not None:
        a, b = round_to_tf32(a.astype(np.float32)), round_to_tf32(b.astype(np.float32))
    product = (-1 if minus else 1) * a.astype(np.float64) @ b
    program.expected["c"] = product if result is None else to_memory(result, product)
    return program


def chained(e: Scalar, rows: int = 64, inner: int = 64, columns: int = 64) -> Program:
    """y = (a @ b) @ c, the first product rounded to the operands' type."""
    k = Sketch("chained")
    arrays = [data(rows, inner), data(inner, inner, seed=1) % 2, data(inner, columns, seed=2)]
    pa, pb, pc = (k.pointer(n, e, v, **ALONE) for n, v in zip("abc", arrays, strict=True))
    y = k.pointer("y", F32, np.zeros((rows, columns)), **ALONE)
    r, i, s = k.arange(rows), k.arange(inner), k.arange(columns)
    a, b, c = (k.load(k.rows(pa, r, inner, i)), k.load(k.rows(pb, i, inner, i)),
               k.load(k.rows(pc, i, columns, s)))
    first = k.dot(a, b, k.full(0, F32, rows, inner))
    middle = k.fpcast(first, type=k.full(0, e, rows, inner).type)
    k.store(k.rows(y, r, columns, s), k.dot(middle, c, k.full(0, F32, rows, columns)))
    program = k.done()
    program.expected["y"] = arrays[0] @ arrays[1] @ arrays[2]
    return program


def strided(stride: int, shift: int, promised: bool = False) -> Program:
    """c = x @ b, where row i of x begins (i + 1) * stride + shift elements behind a.

    `promised`: both numbers are declared not to be negative.
    """
    m, n, depth, tk = 64, 64, 64, 32
    k = Sketch("strided")
    a, b = data((m + 1) * depth), data(depth, n, seed=1)
    more = {"least": 0} if promised else {}
    pa, pb = k.pointer("a", F16, a, **ALONE), k.pointer("b", F16, b, **ALONE)
    pc = k.pointer("c", F32, np.zeros((m, n)), **ALONE)
    by, start = (k.integer(name, v, multiple_of=8, **more)
                 for name, v in (("stride", stride), ("shift", shift)))
    rm, rn, rk = k.indices(0, m), k.indices(1, n), k.arange(tk)
    rows = k.add(rm, k.full(1, I32, m))
    p = k.rows(k.addptr(pa, start), rows, by, rk)
    q = k.rows(pb, rk, n, rn)
    with k.loop(k.number(depth // tk), k.full(0, F32, m, n), p, q) as loop:
        total, p, q = loop.values
        loop.next = [k.dot(k.load(p), k.load(q), total),
                     k.addptr(p, k.spread(k.number(tk), (m, tk))),
                     k.addptr(q, k.spread(k.number(tk * n), (tk, n)))]
    k.store(k.rows(pc, rm, n, rn), loop.values[0])
    program = k.done()
    index = (np.arange(m)[:, np.newaxis] + 1) * stride + np.arange(depth) + shift
    program.expected["c"] = a[index].astype(np.float64) @ b
    return program
