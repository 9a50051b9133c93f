"""Loads, stores and atomics of global and constant memory.

A load happens in every thread that holds the element, a store or an atomic in one of them (see
`FunctionEmitter.owner`): a result of an atomic is valid in that thread alone.

Atomics are relaxed; of which scope, they say.  LLVM drops the ordering of `atomicrmw`, so around an
atomic on a scalar, which may be a lock, stand the fences that its order asks for, and one before a
store marked `release`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from math import gcd

from tritonc.analysis.records import ACCESS_BYTES
from tritonc.analysis.registers.weights import PIECE
from tritonc.backend.emit.accesses.access import Access, load, store
from tritonc.backend.emit.accesses.pieces import fence_accesses
from tritonc.backend.emit.accesses.ragged import Vector, load_vectors, store_vectors
from tritonc.backend.emit.accesses.tables import look_up
from tritonc.backend.emit.elements.arithmetic import combine
from tritonc.backend.emit.elements.casts import as_bits, from_bits
from tritonc.backend.emit.function import Emitter, FunctionEmitter
from tritonc.backend.emit.literals import address_space, literal, llvm_type, memory_type
from tritonc.backend.emit.registers import (
    access_chunks,
    addressed,
    alike_registers,
    owned,
    place_in_run,
)
from tritonc.ir.core import Op
from tritonc.ir.types import I1, Pointer, Scalar, Tile, element

_SCOPES = {"block": 'syncscope("block") ', "gpu": 'syncscope("device") ', "system": ""}
FENCE = f"fence {_SCOPES['gpu']}acq_rel"
_NAMES = {"block": "cta", "gpu": "gpu", "system": "sys"}
_SUFFIXES = {"block": ".relaxed.cta", "gpu": "", "system": ".relaxed.sys"}  # of instructions


def _pointer(op: Op) -> Pointer:
    e = element(op.operands[0].type)
    assert isinstance(e, Pointer)
    return e


def emit_load(f: FunctionEmitter, op: Op) -> None:
    f.values[op.result] = found = f.blank(op.result.type)
    if op.attributes.get("late") or op.attributes.get("piecewise"):
        f.fetch[op.result] = partial(_fetch, f, op, found)
    else:
        _load(f, op, found, f.wanted(op.result))


def _fetch(f: FunctionEmitter, op: Op, found: list[str], now: int) -> None:
    if op.attributes.get("fenced"):
        fence_accesses(f)
    _load(f, op, found, now)


def _access(f: FunctionEmitter, op: Op, chunk: tuple[int, ...], guard: str, at: int = -1) -> Access:
    """The access of neighbouring registers, at the address of the first one or of `at`."""
    pointer, more = _pointer(op), op.attributes
    name, align = f.values[op.operands[0]][chunk[0] if at < 0 else at], more.get("align", 0)
    if "record" in more:
        name, align = _of_record(f, op, chunk[0], name)
    return Access(name, address_space(pointer),
                  pointer.element, len(chunk), "" if guard == "true" else guard,
                  more.get("cache") or "", bool(more.get("volatile")), op.span, align)


def _of_record(f: FunctionEmitter, op: Op, register: int, name: str) -> tuple[str, int]:
    """The address of a field, in bytes from where its run of records begins, and its alignment, so
    that LLVM sees which accesses are neighbours."""
    number, _, begin, step, _ = op.attributes["record"]
    neighbour, run, held = place_in_run(op, f.warps, register)
    place = begin + neighbour * step
    base, at = f.records.setdefault((f.label, number, run), (name, place))
    if base != name:
        t = f"ptr addrspace({address_space(_pointer(op))})"
        name = f.op(f"getelementptr i8, {t} {base}, i64 {place - at}")
    return name, gcd(ACCESS_BYTES, held * step, place)


def _load(f: FunctionEmitter, op: Op, found: list[str], now: int) -> None:
    """The accesses that bring any of the registers `now` that is not in `found` yet."""
    if look_up(f, op, found, now):
        return
    if "alike" in op.attributes:
        _load_alike(f, op, found, now)
        return
    wanted, other = f.wanted(op.result), op.attributes.get("other")
    guards = f.values[op.guard] if op.guard is not None and "ragged" in op.attributes else None
    edges: dict[tuple[int, ...], Vector] = {}
    for chunk in access_chunks(op, f.warps, f.target.access_bytes):
        picked = [i for i, r in enumerate(chunk) if wanted >> r & 1] or [0]
        at = addressed(op, chunk)[0]
        apart = list(dict.fromkeys(f.guard(op, r) for r in chunk)) if "any" in op.attributes else ()
        access = _access(f, op, chunk, _any(f, apart) if apart else f.guard(op, at), at)
        if not access.volatile and all(found[r] or not now >> r & 1 for r in chunk):
            continue
        if guards is not None:
            edges[chunk] = Vector(access, [guards[r] for r in chunk], picked,
                                   rises=bool(op.attributes.get("rises")))
            continue
        names = _of_window(f, op, access, chunk, picked) if "window" in op.attributes else load(
            f, access, picked, other)
        for i, name in names.items():
            found[chunk[i]] = _chosen(f, op, chunk[i], name) if len(apart) > 1 else name
    loaded = load_vectors(f, list(edges.values()), other)
    for chunk, names in zip(edges, loaded, strict=True):
        for i, name in names.items():
            found[chunk[i]] = name


def _of_window(f: FunctionEmitter, op: Op, access: Access, chunk: tuple[int, ...],
               picked: list[int]) -> dict[int, str]:
    """Elements that aligned accesses bring, of which neighbouring loads take others.  Nothing is
    read that none of these loads asks for."""
    number, begin, low, high, first, last = op.attributes["window"]
    found, width, other = {}, access.width, op.attributes.get("other")
    step = op.attributes.get("every", 1)
    for i in picked:
        if not first <= i < width - last:
            alone = _access(f, op, chunk[i : i + 1], f.guard(op, chunk[i]))
            found[i] = load(f, alone, [0], other)[0]
            continue
        run, place = divmod(begin + i * step, width)
        known = f.windows.setdefault((f.label, number, chunk, run), {})
        if place not in known:
            least, end = max(low - run * width, 0), min(high - run * width, width)
            at, part = place, 1  # the widest access that holds it
            while (wider := at & -2 * part) >= least and wider + 2 * part <= end:
                at, part = wider, 2 * part
            if op.attributes.get("rows"):
                access = access._replace(guard=f.guard(op, chunk[i]))
            distance = (run * width + at - begin - first) * access.element.bytes
            t = f"ptr addrspace({access.space})"
            pointer = f.op(f"getelementptr i8, {t} {access.pointer}, i64 {distance}")
            loaded = load(f, access._replace(pointer=pointer, width=part), range(part), other)
            known.update((at + j, name) for j, name in loaded.items())
        found[i] = known[place]
    return found


def _load_alike(f: FunctionEmitter, op: Op, found: list[str], now: int) -> None:
    """One access for all registers of an address, if any of their guards holds; one for each of two
    guards, since ptxas would wait for a selection's element long before anything reads it."""
    wanted, other = f.wanted(op.result) & now, op.attributes.get("other")
    for group in alike_registers(op, f.warps):
        picked = [r for r in group if wanted >> r & 1 and not found[r]]
        if not picked:
            continue
        guards = list(dict.fromkeys(f.guard(op, r) for r in picked))
        parts = [[guard] for guard in guards] if len(guards) == 2 else [guards]
        loaded = {guard: load(f, _access(f, op, group[:1], _any(f, part)), [0], other)[0]
                  for part in parts for guard in part[:1] or part}
        for r in picked:
            value = loaded.get(f.guard(op, r), loaded[guards[0]])
            found[r] = _chosen(f, op, r, value) if len(guards) > 2 else value


def _any(f: FunctionEmitter, guards: list[str]) -> str:
    """Whether any of them holds."""
    found = guards[0]
    for name in guards[1:]:
        found = "true" if "true" in (found, name) else f.op(f"or i1 {found}, {name}")
    return found


def _chosen(f: FunctionEmitter, op: Op, register: int, value: str) -> str:
    """What was loaded where the guard of others may have held alone."""
    other, guard, t = op.attributes.get("other"), f.guard(op, register), f.type(op.result)
    return value if other is None or guard == "true" else f.op(
        f"select i1 {guard}, {t} {value}, {t} {literal(element(op.result.type), other)}")


def emit_store(f: FunctionEmitter, op: Op) -> None:
    values, owner = f.values[op.operands[1]], f.owner(f.layout(op.operands[0]))
    chunks = access_chunks(op, f.warps, f.target.access_bytes)
    if op.attributes.get("ragged") and op.guard is not None:
        inner = op.attributes.get("inner", [0])[0]
        vectors = [Vector(_access(f, op, c, ""), [f.guard(op, r) for r in c], inner=inner)
                   for c in chunks]
        store_vectors(f, vectors, [[values[r] for r in c] for c in chunks], owner)
        return
    if "record" in op.attributes:
        f.late_stores.append(op)
        if not op.attributes.get("late"):
            _store_fields(f, owner, chunks)
        return
    for i, chunk in enumerate(chunks):
        if i % PIECE == 0 and op.attributes.get("fenced"):
            fence_accesses(f)
        guard = f.both(owner, f.guard(op, chunk[0]))
        if op.attributes.get("release"):
            f.under(guard, "release", partial(_release, f, _access(f, op, chunk, ""), values[0]))
        elif guard != "false":
            store(f, _access(f, op, chunk, guard), [values[r] for r in chunk])


def _store_fields(f: FunctionEmitter, owner: str, chunks: Iterable[tuple[int, ...]]) -> None:
    """Write the fields of records, run by run."""
    runs: dict[int, list[tuple[int, ...]]] = {}
    for chunk in chunks:
        runs.setdefault(place_in_run(f.late_stores[-1], f.warps, chunk[0])[1], []).append(chunk)
    for run in runs.values():
        for op in f.late_stores:
            for chunk in run:
                store(f, _access(f, op, chunk, owner), [f.values[op.operands[1]][r] for r in chunk])
    f.late_stores.clear()


def _release(f: FunctionEmitter, access: Access, value: str) -> None:
    f.line(FENCE)
    store(f, access, [value])


# ---- atomics -------------------------------------------------------------------------------------

# What the hardware has: (kind, type) -> suffix of the instruction, feature, constraint.
_NATIVE: dict[tuple[str, str], tuple[str, str, str]] = {
    ("add", "i32"): ("add.u32", "", "r"), ("add", "i64"): ("add.u64", "", "l"),
    ("fadd", "float"): ("add.f32", "", "f"), ("fadd", "double"): ("add.f64", "", "d"),
    ("fadd", "half"): ("add.noftz.f16", "atomic_f16", "h"),
    ("fadd", "bfloat"): ("add.noftz.bf16", "atomic_bf16", "h"),
    **{(kind, f"i{bits}"): (f"{kind[1:]}.{kind[0]}{bits}", "", "r" if bits == 32 else "l")
       for kind in ("smin", "smax", "umin", "umax") for bits in (32, 64)},
    **{(kind, f"i{bits}"): (f"{kind}.b{bits}", "", "r" if bits == 32 else "l")
       for kind in ("and", "or", "xor") for bits in (32, 64)},
    ("xchg", "i32"): ("exch.b32", "", "r"), ("xchg", "i64"): ("exch.b64", "", "l"),
    ("xchg", "float"): ("exch.b32", "", "f"), ("xchg", "double"): ("exch.b64", "", "d"),
}


def atomic_rmw(f: FunctionEmitter, op: Op) -> None:
    kind, e = op.attributes["kind"], _pointer(op).element
    if kind in ("load", "store"):
        _atomics(f, op, partial(_load_or_store, f, op))
        return
    native = _NATIVE.get((kind, memory_type(e)))
    if native is not None and native[1] and native[1] not in f.target.features:
        native = None
    wanted, scope = bool(f.wanted(op.result)), op.attributes.get("scope", "gpu")
    order = _order(f, op) if native is not None and (wanted or kind == "xchg") else ""
    at = f".{order}.{_NAMES[scope]}" if order else _SUFFIXES[scope]
    if "vector" in op.attributes:
        assert native is not None
        _add_vectors(f, op, f"{at}.global", *native[::2])
        return

    def one(address: str, value: str, guard: str) -> str:
        if native is not None:
            return _native(f, native, llvm_type(e), address, value, guard, wanted, f"{at}.global")
        return _guarded(f, e, guard, lambda: _loop(
            f, e, address, lambda old: value if kind == "xchg" else combine(f, kind, e, old, value),
            scope))

    _atomics(f, op, one, fenced=not order)


def _order(f: FunctionEmitter, op: Op) -> str:
    """How an atomic of a scalar is ordered by itself: cheaper than by fences around it."""
    if isinstance(op.operands[0].type, Tile) or "atomic_order" not in f.target.features:
        return ""
    return str(op.attributes.get("order", "acq_rel"))


def _load_or_store(f: FunctionEmitter, op: Op, address: str, value: str, guard: str) -> str:
    """One access, that is neither split nor merged with another."""
    e = _pointer(op).element
    stored, place = f"i{max(e.bits, 8)}", f"ptr addrspace(1) {address}"
    if op.attributes.get("volatile"):
        how, kind = f"{place}, align {e.bytes}", "volatile"
    else:
        scope = _SCOPES[op.attributes.get("scope", "gpu")]
        how, kind = f"{place} {scope}monotonic, align {e.bytes}", "atomic"

    def emit() -> str:
        if op.attributes["kind"] == "load":
            return _from_memory(f, e, f.op(f"load {kind} {stored}, {how}"))
        f.line(f"store {kind} {stored} {_to_memory(f, e, value)}, {how}")
        return "zeroinitializer"

    return _guarded(f, e, guard, emit)


def atomic_cas(f: FunctionEmitter, op: Op) -> None:
    """Bits are compared, so that a NaN equals itself and -0 is not 0."""
    e, scope = _pointer(op).element, op.attributes.get("scope", "gpu")

    def one(address: str, compare: str, value: str, guard: str) -> str:
        return _guarded(f, e, guard, lambda: _from_memory(f, e, _exchange(
            f, e, address, _to_memory(f, e, compare), _to_memory(f, e, value), scope)[0]))

    _atomics(f, op, one)


def _atomics(f: FunctionEmitter, op: Op, one: Callable[..., str], fenced: bool = True) -> None:
    """An atomic for each element, in its owner; of a scalar, between fences where it has no order
    of its own."""
    layout = f.layout(op.operands[0])
    owner, found = f.owner(layout), f.blank(op.result.type)
    for r in owned(layout):
        guard = f.both(owner, f.guard(op, r))
        operands = [f.values[v][r] for v in op.operands]
        if isinstance(op.operands[0].type, Tile):
            found[r] = one(*operands, guard)
        else:
            emit = partial(_fenced, f, op, one, operands) if fenced else partial(one, *operands, "")
            found[r] = _guarded(f, _pointer(op).element, guard, emit)
    for r in range(layout.registers):
        found[r] = found[r & ~layout.replicated_registers]
    f.values[op.result] = found


def _fenced(f: FunctionEmitter, op: Op, one: Callable[..., str], operands: list[str]) -> str:
    order = op.attributes.get("order", "acq_rel")
    fence = f"fence {_SCOPES[op.attributes.get('scope', 'gpu')]}acq_rel"
    if order in ("release", "acq_rel"):
        f.line(fence)
    name = one(*operands, "")
    if order in ("acquire", "acq_rel"):
        f.line(fence)
    return name


def _native(f: FunctionEmitter, native: tuple[str, str, str], t: str, address: str, value: str,
            guard: str, wanted: bool, at: str) -> str:
    suffix, _, constraint = native
    register = {"half": "i16", "bfloat": "i16"}.get(t, t)
    if register != t:
        value = f.op(f"bitcast {t} {value} to {register}")
    inputs = [("l", f"ptr addrspace(1) {address}"), (constraint, f"{register} {value}")]
    inputs += [("b", f"i1 {guard}")] if guard else []
    if not wanted and not suffix.startswith("exch"):
        f.asm("void", f"{'@$2 ' if guard else ''}red{at}.{suffix} [$0], $1;", [], inputs)
        return "poison"
    bits = {"h": 16, "r": 32, "f": 32}.get(constraint, 64)
    start = f"mov.b{bits} $0, 0; @$3 " if guard else ""
    old = f.asm(register, f"{start}atom{at}.{suffix} $0, [$1], $2;", [f"=&{constraint}"], inputs)
    return old if register == t else f.op(f"bitcast {register} {old} to {t}")


def _add_vectors(f: FunctionEmitter, op: Op, at: str, suffix: str, constraint: str) -> None:
    """Additions of neighbours by one instruction each; nobody reads what was there before."""
    e, owner = _pointer(op).element, f.owner(f.layout(op.operands[0]))
    t, (addition, _, kind) = "i16" if constraint == "h" else llvm_type(e), suffix.rpartition(".")
    addresses, values = (f.values[v] for v in op.operands)
    for chunk in access_chunks(op, f.warps, f.target.access_bytes):
        guard, n = f.both(owner, f.guard(op, chunk[0])), len(chunk)
        if guard == "false":
            continue
        words = [as_bits(f, e, values[r]) if t == "i16" else values[r] for r in chunk]
        inputs = [("l", f"ptr addrspace(1) {addresses[chunk[0]]}"),
                  *((constraint, f"{t} {word}") for word in words),
                  *([("b", f"i1 {guard}")] if guard and guard != "true" else [])]
        places = ", ".join(f"${i + 1}" for i in range(n))
        f.asm("void", f"{f'@${n + 1} ' if len(inputs) > n + 1 else ''}red{at}.{addition}.v{n}."
              f"{kind} [$0], {{{places}}};", [], inputs)
    f.values[op.result] = ["poison"] * f.layout(op.operands[0]).registers


def _guarded(f: FunctionEmitter, e: Scalar, guard: str, emit: Callable[[], str]) -> str:
    """The result of `emit`, which runs under the guard; zero elsewhere."""
    return f.where(guard, "atomic", llvm_type(e), "zeroinitializer", emit)


def _loop(f: FunctionEmitter, e: Scalar, address: str, change: Callable[[str], str],
          scope: str) -> str:
    """Change memory by compare-and-swap until nobody came between; gives the old element."""
    stored = f"i{max(e.bits, 8)}"
    first = f.op(f"load atomic {stored}, ptr addrspace(1) {address} {_SCOPES[scope]}"
                 f"monotonic, align {e.bytes}")
    before, again, done = f.label, f.new_label("retry"), f.new_label("retry.end")
    f.line(f"br label %{again}")
    f.start_block(again)
    at = len(f.lines)
    seen = f"%seen.{again}"
    f.lines.append("")
    new = _to_memory(f, e, change(_from_memory(f, e, seen)))
    found, success = _exchange(f, e, address, seen, new, scope)
    f.lines[at] = f"  {seen} = phi {stored} [ {first}, %{before} ], [ {found}, %{f.label} ]"
    f.line(f"br i1 {success}, label %{done}, label %{again}")
    f.start_block(done)
    return _from_memory(f, e, seen)


def _exchange(f: FunctionEmitter, e: Scalar, address: str, compare: str, value: str, scope: str
              ) -> tuple[str, str]:
    """Compare and swap of integers as in memory; gives what was there, and whether it was equal."""
    t = f"i{max(e.bits, 8)}"
    pair = f.op(f"cmpxchg ptr addrspace(1) {address}, {t} {compare}, {t} {value} "
                f"{_SCOPES[scope]}monotonic monotonic, align {e.bytes}")
    return (f.op(f"extractvalue {{ {t}, i1 }} {pair}, 0"),
            f.op(f"extractvalue {{ {t}, i1 }} {pair}, 1"))


def _to_memory(f: FunctionEmitter, e: Scalar, a: str) -> str:
    return f.op(f"zext i1 {a} to i8") if e == I1 else as_bits(f, e, a)


def _from_memory(f: FunctionEmitter, e: Scalar, a: str) -> str:
    return f.op(f"icmp ne i8 {a}, 0") if e == I1 else from_bits(f, e, a)


EMITTERS: dict[str, Emitter] = {
    "load": emit_load, "store": emit_store, "atomic_rmw": atomic_rmw, "atomic_cas": atomic_cas,
}
