"""Loads and stores of global and constant memory.

A load happens in every thread that holds the element, a store in one of them (see
`FunctionEmitter.owner`), with a fence before it where it is marked `release`."""

from collections.abc import Iterable
from functools import partial
from math import gcd

from tritonc.analysis.registers.weights import PIECE
from tritonc.analysis.windows import ACCESS_BYTES
from tritonc.backend.emit.accesses.access import Access, load, store
from tritonc.backend.emit.accesses.pieces import fence_accesses
from tritonc.backend.emit.accesses.ragged import Vector, load_vectors, store_vectors
from tritonc.backend.emit.accesses.tables import look_up
from tritonc.backend.emit.function import Emitter, FunctionEmitter
from tritonc.backend.emit.literals import FENCE, address_space, literal
from tritonc.backend.emit.registers import access_chunks, addressed, alike_registers, place_in_run
from tritonc.ir.core import Op
from tritonc.ir.types import Pointer, element


def _pointer(op: Op) -> Pointer:
    e = element(op.operands[0].type)
    assert isinstance(e, Pointer)
    return e


def emit_load(f: FunctionEmitter, op: Op) -> None:
    f.values[op.result] = found = f.blank(op.result.type)
    if op.attributes.get("late") or op.attributes.get("piecewise"):
        f.fetch[op.result] = partial(_fetch, f, op, found)
    else:
        _load(f, op, found, f.demanded(op.result))


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
    demanded, other = f.demanded(op.result), op.attributes.get("other")
    guards = f.values[op.guard] if op.guard is not None and "ragged" in op.attributes else None
    edges: dict[tuple[int, ...], Vector] = {}
    for chunk in access_chunks(op, f.warps, f.target.access_bytes):
        picked = [i for i, r in enumerate(chunk) if demanded >> r & 1] or [0]
        at = addressed(op, chunk)[0]
        apart = list(dict.fromkeys(f.guard(op, r) for r in chunk)) if "any" in op.attributes else ()
        access = _access(f, op, chunk, _any(f, apart) if apart else f.guard(op, at), at)
        if not access.volatile and all(found[r] or not now >> r & 1 for r in chunk):
            continue
        if guards is not None and any(guards[r] != "false" for r in chunk):
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
    demanded, other = f.demanded(op.result) & now, op.attributes.get("other")
    for group in alike_registers(op, f.warps):
        picked = [r for r in group if demanded >> r & 1 and not found[r]]
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
        chunks = tuple(c for c in chunks if any(f.guard(op, r) != "false" for r in c))
        vectors = [Vector(_access(f, op, c, ""), [f.guard(op, r) for r in c], inner=inner)
                   for c in chunks]
        store_vectors(f, vectors, [[values[r] for r in c] for c in chunks], owner)
        return
    if "record" in op.attributes:
        f.late_stores.append(op)
        if not op.attributes.get("late"):
            _store_fields(f, owner, chunks)
        return
    fetch = f.fetch.get(op.operands[0])  # of addresses that come piece by piece
    for i, chunk in enumerate(chunks):
        if i % PIECE == 0 and op.attributes.get("fenced"):
            fence_accesses(f)
        if fetch is not None:
            fetch(1 << chunk[0])
        guard = f.both(owner, f.guard(op, chunk[0]))
        if op.attributes.get("release"):
            f.under(guard, "release", partial(_release, f, _access(f, op, chunk, ""), values[0]))
        elif guard != "false":
            store(f, _access(f, op, chunk, guard), [values[r] for r in chunk])


def _store_fields(f: FunctionEmitter, owner: str, chunks: Iterable[tuple[int, ...]]) -> None:
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


EMITTERS: dict[str, Emitter] = {"load": emit_load, "store": emit_store}
