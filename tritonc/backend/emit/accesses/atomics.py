"""Atomics of global memory.

They happen in one of the threads that hold the element (see `FunctionEmitter.owner`): a result is
valid in that thread alone.  They are relaxed; of which scope, they say.  LLVM drops the ordering of
`atomicrmw`, so around an atomic on a scalar, which may be a lock, stand the fences that its order
asks for."""

from collections.abc import Callable
from functools import partial

from tritonc.backend.emit.elements.arithmetic import combine
from tritonc.backend.emit.elements.casts import as_bits, from_bits
from tritonc.backend.emit.function import Emitter, FunctionEmitter
from tritonc.backend.emit.literals import SCOPES, llvm_type, memory_type
from tritonc.backend.emit.registers import access_chunks, owned
from tritonc.ir.core import Op
from tritonc.ir.rules import pointee
from tritonc.ir.types import I1, Scalar, Tile, scalar

_NAMES = {"block": "cta", "gpu": "gpu", "system": "sys"}
_SUFFIXES = {"block": ".relaxed.cta", "gpu": "", "system": ".relaxed.sys"}  # of instructions

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
    ("xchg", "float"): ("exch.b32", "", "f"), ("xchg", "double"): ("exch.b64", "", "d")}


def atomic_rmw(f: FunctionEmitter, op: Op) -> None:
    kind, e = op.attributes["kind"], _element(op)
    if kind in ("load", "store"):
        _atomics(f, op, partial(_load_or_store, f, op))
        return
    native = _NATIVE.get((kind, memory_type(e)))
    if native is not None and native[1] and native[1] not in f.target.features:
        native = None
    demanded, scope = bool(f.demanded(op.result)), op.attributes.get("scope", "gpu")
    order = _order(f, op) if native is not None and (demanded or kind == "xchg") else ""
    at = f".{order}.{_NAMES[scope]}" if order else _SUFFIXES[scope]
    if "vector" in op.attributes:
        assert native is not None
        _add_vectors(f, op, f"{at}.global", *native[::2])
        return

    def one(address: str, value: str, guard: str) -> str:
        if native is not None:
            return _native(f, native, llvm_type(e), address, value, guard, demanded, f"{at}.global")
        return _guarded(f, e, guard, lambda: _loop(
            f, e, address, lambda old: value if kind == "xchg" else combine(f, kind, e, old, value),
            scope))

    _atomics(f, op, one, fenced=not order)


def _element(op: Op) -> Scalar:
    return scalar(pointee(op.operands[0].type))


def _order(f: FunctionEmitter, op: Op) -> str:
    """How an atomic of a scalar is ordered by itself: cheaper than by fences around it."""
    if isinstance(op.operands[0].type, Tile) or "atomic_order" not in f.target.features:
        return ""
    return str(op.attributes.get("order", "acq_rel"))


def _load_or_store(f: FunctionEmitter, op: Op, address: str, value: str, guard: str) -> str:
    """One access, that is neither split nor merged with another."""
    e = _element(op)
    stored, place = f"i{max(e.bits, 8)}", f"ptr addrspace(1) {address}"
    if op.attributes.get("volatile"):
        how, kind = f"{place}, align {e.bytes}", "volatile"
    else:
        scope = SCOPES[op.attributes.get("scope", "gpu")]
        how, kind = f"{place} {scope}monotonic, align {e.bytes}", "atomic"

    def emit() -> str:
        if op.attributes["kind"] == "load":
            return _from_memory(f, e, f.op(f"load {kind} {stored}, {how}"))
        f.line(f"store {kind} {stored} {_to_memory(f, e, value)}, {how}")
        return "zeroinitializer"

    return _guarded(f, e, guard, emit)


def atomic_cas(f: FunctionEmitter, op: Op) -> None:
    """Bits are compared, so that a NaN equals itself and -0 is not 0."""
    e, scope = _element(op), op.attributes.get("scope", "gpu")

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
            found[r] = _guarded(f, _element(op), guard, emit)
    for r in range(layout.registers):
        found[r] = found[r & ~layout.replicated_registers]
    f.values[op.result] = found


def _fenced(f: FunctionEmitter, op: Op, one: Callable[..., str], operands: list[str]) -> str:
    order = op.attributes.get("order", "acq_rel")
    fence = f"fence {SCOPES[op.attributes.get('scope', 'gpu')]}acq_rel"
    if order in ("release", "acq_rel"):
        f.line(fence)
    name = one(*operands, "")
    if order in ("acquire", "acq_rel"):
        f.line(fence)
    return name


def _native(f: FunctionEmitter, native: tuple[str, str, str], t: str, address: str, value: str,
            guard: str, demanded: bool, at: str) -> str:
    suffix, _, constraint = native
    register = {"half": "i16", "bfloat": "i16"}.get(t, t)
    if register != t:
        value = f.op(f"bitcast {t} {value} to {register}")
    inputs = [("l", f"ptr addrspace(1) {address}"), (constraint, f"{register} {value}")]
    inputs += [("b", f"i1 {guard}")] if guard else []
    if not demanded and not suffix.startswith("exch"):
        f.asm("void", f"{'@$2 ' if guard else ''}red{at}.{suffix} [$0], $1;", [], inputs)
        return "poison"
    bits = {"h": 16, "r": 32, "f": 32}.get(constraint, 64)
    start = f"mov.b{bits} $0, 0; @$3 " if guard else ""
    old = f.asm(register, f"{start}atom{at}.{suffix} $0, [$1], $2;", [f"=&{constraint}"], inputs)
    return old if register == t else f.op(f"bitcast {register} {old} to {t}")


def _add_vectors(f: FunctionEmitter, op: Op, at: str, suffix: str, constraint: str) -> None:
    """Additions of neighbours by one instruction each; nobody reads what was there before."""
    e, owner = _element(op), f.owner(f.layout(op.operands[0]))
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
    first = f.op(f"load atomic {stored}, ptr addrspace(1) {address} {SCOPES[scope]}"
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
                f"{SCOPES[scope]}monotonic monotonic, align {e.bytes}")
    return (f.op(f"extractvalue {{ {t}, i1 }} {pair}, 0"),
            f.op(f"extractvalue {{ {t}, i1 }} {pair}, 1"))


def _to_memory(f: FunctionEmitter, e: Scalar, a: str) -> str:
    return f.op(f"zext i1 {a} to i8") if e == I1 else as_bits(f, e, a)


def _from_memory(f: FunctionEmitter, e: Scalar, a: str) -> str:
    return f.op(f"icmp ne i8 {a}, 0") if e == I1 else from_bits(f, e, a)


EMITTERS: dict[str, Emitter] = {"atomic_rmw": atomic_rmw, "atomic_cas": atomic_cas}
