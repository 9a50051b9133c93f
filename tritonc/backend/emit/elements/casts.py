"""Conversions between integers, floats and pointers.

Every conversion rounds once, to nearest even, from any source to any target.  Where the hardware
has no single instruction for it, a value first becomes an f32 *rounded to odd* (an inexact one
gets an odd last bit), from which rounding to a format at least two bits shorter is right."""

from collections.abc import Callable
from functools import partial

from tritonc.backend.emit.body import Body, helper_function
from tritonc.backend.emit.elements import packed_casts
from tritonc.backend.emit.elements.packed import each_register, lone_byte, map_registers, note
from tritonc.backend.emit.function import Emitter, FunctionEmitter
from tritonc.backend.emit.literals import is_eight_bit_float, literal, llvm_type
from tritonc.backend.emit.registers import members
from tritonc.ir import types
from tritonc.ir.core import Op, Value

# ---- between floats ------------------------------------------------------------------------------


def convert_float(f: FunctionEmitter, source: types.Scalar, target: types.Scalar, a: str) -> str:
    """The nearest number of `target`; an f8 saturates."""
    if source == target or {source, target} == {types.F32, types.TF32}:
        return a
    if is_eight_bit_float(source):
        return convert_float(f, types.F32, target, _from_eight(f, source, a))
    if is_eight_bit_float(target):
        return _to_eight(f, source, target, a)
    t, to = llvm_type(source), llvm_type(target)
    if {source, target} == {types.F16, types.BF16}:
        return f.op(f"fptrunc float {f.op(f'fpext {t} {a} to float')} to {to}")
    if source == types.F64 and target == types.BF16:
        a, t = _helper(f, "f64.to.odd.f32", "float", "double", _to_odd, a), "float"
    if target == types.F16 and f.has_bfloat:
        return _to_half(f, source, a)
    if (source, target) == (types.BF16, types.F32) and f.options.fast_math:
        return _widened(f, a)
    op = "fpext" if target.bits > source.bits else "fptrunc"
    return f.op(f"{op} {t} {a} to {to}")


def _widened(f: FunctionEmitter, a: str) -> str:
    """A bfloat as the high half of an f32.  Where subnormals are flushed, LLVM asks for that in
    the conversion, which then takes as long as an exponential (F2F.FTZ, on sm_90)."""
    wide = f.op(f"zext i16 {f.op(f'bitcast bfloat {a} to i16')} to i32")
    return f.op(f"bitcast i32 {f.op(f'shl i32 {wide}, 16')} to float")


def _to_half(f: FunctionEmitter, source: types.Scalar, a: str) -> str:
    """f32 or f64 to f16 as assembly, which LLVM does not look into.

    It computes fptrunc(x * y) to half in half where x and y are widened from half or bfloat,
    by their digits alone; but most numbers of bfloat are none of half (LLVM 20, getMinimumFPType).
    """
    t, constraint = ("double", "d") if source == types.F64 else ("float", "f")
    bits = f.op(f'call i16 asm "cvt.rn.f16.f{source.bits} $0, $1;", "=h,{constraint}"({t} {a})')
    return f.op(f"bitcast i16 {bits} to half")


def _helper(f: FunctionEmitter, name: str, result: str, parameter: str,
            build: Callable[[Body], None], a: str) -> str:
    name = helper_function(f.module, name, result, (parameter,), build)
    return f.op(f"call {result} @{name}({parameter} {a})")


def _from_eight(f: FunctionEmitter, source: types.Scalar, a: str) -> str:
    if "f8_conversion" in f.target.features:
        name = "e4m3x2" if source == types.F8E4M3 else "e5m2x2"
        wide = f.op(f"zext i8 {a} to i16")
        pair = f.call(f"llvm.nvvm.{name}.to.f16x2.rn", "<2 x half>", f"i16 {wide}")
        return f.op(f"fpext half {f.op(f'extractelement <2 x half> {pair}, i32 0')} to float")
    build = _from_e4m3 if source == types.F8E4M3 else _from_e5m2
    return _helper(f, f"{source.name}.to.f32", "float", "i8", build, a)


def _to_eight(f: FunctionEmitter, source: types.Scalar, target: types.Scalar, a: str) -> str:
    if source == types.F64:
        a = _helper(f, "f64.to.odd.f32", "float", "double", _to_odd, a)
    elif source not in (types.F32, types.TF32):
        a = f.op(f"fpext {llvm_type(source)} {a} to float")
    if "f8_conversion" in f.target.features:
        name = "e4m3x2" if target == types.F8E4M3 else "e5m2x2"
        pair = f.call(f"llvm.nvvm.ff.to.{name}.rn", "i16", "float 0.0", f"float {a}")
        return f.op(f"trunc i16 {pair} to i8")
    mantissa, least, largest = (3, -6, 448.0) if target == types.F8E4M3 else (2, -14, 57344.0)
    build = partial(_round_to_eight, mantissa=mantissa, least=least, largest=largest)
    return _helper(f, f"f32.to.{target.name}", "i8", "float", build, a)


def _to_odd(body: Body) -> None:
    """f64 to f32, rounded to odd: towards zero, and the last bit set where that lost something.

    What is lost below the least subnormal sets its bit.  Beyond the greatest number that number
    comes, whose last bit is odd, and which rounds to infinity in bf16 as it should."""
    x = body.parameters[0]
    cut = body.call("llvm.nvvm.d2f.rz", "float", x)
    lost = cut.cast("fpext", "double").differs(x)
    odd = (cut.bits() | 1).as_float()
    body.give(body.select(x.is_nan(), cut, body.select(lost, odd, cut)))


def _from_e5m2(body: Body) -> None:
    """The high byte of an f16."""
    half = (body.parameters[0].cast("zext", "i16") << 8).cast("bitcast", "half")
    body.give(half.cast("fpext", "float"))


def _from_e4m3(body: Body) -> None:
    """Exponent and mantissa in an f16's places give the number over 2^8; NaN is all ones."""
    x = body.parameters[0].cast("zext", "i16")
    magnitude = x & 0x7F
    half = (((x & 0x80) << 8) | (magnitude << 7)).cast("bitcast", "half")
    number = half.cast("fpext", "float") * 256.0
    body.give(body.select(magnitude.equals(0x7F), float("nan"), number))


def _round_to_eight(body: Body, mantissa: int, least: int, largest: float) -> None:
    """An f32's nearest f8.  `least`: the exponent of the smallest normal number.

    Normal numbers: add half of what goes, less one if the part that stays is even, to the bits; the
    carry runs into the exponent by itself.  Subnormal ones: adding a power of two whose last bit is
    the f8's quantum leaves the count of quanta in the low bits."""
    x = body.parameters[0]
    sign = (x.bits() >> 24) & 0x80
    magnitude = body.intrinsic("minnum", body.abs(x), body.term(largest, "float"))
    bits = magnitude.bits()
    gone = 23 - mantissa
    rounded = bits + ((1 << (gone - 1)) - 1) + ((bits >> gone) & 1)
    normal = (rounded >> gone) - ((127 + least - 1) << mantissa)
    anchor = 2.0 ** (least - mantissa + 23)
    subnormal = (magnitude + anchor).bits() & 0xFF
    pattern = body.select(magnitude < 2.0**least, subnormal, normal)
    body.give(body.select(x.is_nan(), 0x7F, pattern | sign).cast("trunc", "i8"))


def round_to_tf32(body: Body) -> None:
    """An f32 with ten mantissa bits left, ties away from zero; as a matrix instruction reads it."""
    bits = body.parameters[0].bits()
    rounded = (bits + 0x1000) & ~0x1FFF
    finite = (bits & 0x7F800000).differs(0x7F800000)
    body.give(body.select(finite, rounded, bits).as_float())


def fpcast(f: FunctionEmitter, op: Op) -> None:
    source, target = types.scalar(op.operands[0].type), types.scalar(op.result.type)
    if not packed_casts.convert_bytes(f, op) and not packed_casts.convert_to_bytes(f, op):
        each_register(f, op, lambda a: (_of_word(f, source, target, a)
                                or convert_float(f, source, target, a)))


def _of_word(f: FunctionEmitter, source: types.Scalar, target: types.Scalar, a: str) -> str:
    """A bfloat in the upper half of a word as an f32, which is the word without its lower half: one
    instruction, where taking the half out of the word is another; "" if it is none."""
    word, place = (f.words.get(a) or f.loaded.get(a, ("", 0))) if source == types.BF16 else ("", 0)
    if not word or not place or target != types.F32:
        return ""
    return f.op(f"bitcast i32 {f.op(f'and i32 {word}, -65536')} to float")


# ---- between integers and floats -----------------------------------------------------------------


def float_to_int(f: FunctionEmitter, op: Op) -> None:
    """Towards zero, saturating, 0 for a NaN: as the hardware's conversion from f32 to 32 bits.

    Where a 64-bit type takes part the hardware gives another number for a NaN.  Narrow integers
    saturate as 32-bit ones first; several are packed and saturate at once.  What is converted need
    not be cut to whole numbers before."""
    source, target = types.scalar(op.operands[0].type), types.scalar(op.result.type)
    signed = op.name == "fptosi"
    bits = 64 if target.bits == 64 else 32
    wide = types.F64 if source == types.F64 else types.F32
    packed = target.bits < 32 and wide == types.F32 and "integer_pack" in f.target.features
    t, to = llvm_type(wide), f"i{bits}"
    intrinsic = (f"llvm.nvvm.{'d' if wide == types.F64 else 'f'}2{'' if signed or packed else 'u'}"
                 f"{'ll' if bits == 64 else 'i'}.rz")
    low = -(1 << (target.bits - 1)) if signed else 0
    high = (1 << (target.bits - signed)) - 1
    prefix = "s" if signed or packed else "u"
    operand = op.operands[0]
    cut = operand.op if source == wide else None
    rounded = cut is not None and cut.name == "round"
    if cut is not None and cut.name in ("round", "trunc"):
        operand = cut.operands[0]

    def whole(a: str) -> str:
        a = nearly_half_more(f, wide, a) if rounded else convert_float(f, source, wide, a)
        found = f.call(intrinsic, to, f"{t} {a}")
        if bits == 64 or wide == types.F64:
            nan = f.op(f"fcmp uno {t} {a}, {a}")
            found = f.op(f"select i1 {nan}, {to} 0, {to} {found}")
        return found

    def convert(a: str) -> str:
        found = whole(a)
        if target.bits == bits:
            return found
        if signed or packed:
            found = f.call("llvm.smax.i32", "i32", f"i32 {found}", f"i32 {low}")
        found = f.call(f"llvm.{prefix}min.i32", "i32", f"i32 {found}", f"i32 {high}")
        return f.op(f"trunc i32 {found} to {llvm_type(target)}")

    if not (packed and _each_word(f, op, operand, signed, whole)):
        f.values[op.result] = map_registers(f, f.demanded(op.result), op.result, [operand], convert)


def nearly_half_more(f: FunctionEmitter, e: types.Scalar, a: str) -> str:
    """What a float is cut to after this is the nearest whole number, halves away from zero.

    The number below a half, with the sign of `a`, is added: a half and more reach the next whole
    number when that sum is rounded, and what is less does not."""
    t = llvm_type(e)
    suffix, half = ("f64", 0.5 - 2.0**-54) if e == types.F64 else ("f32", 0.5 - 2.0**-25)
    added = f.call(f"llvm.copysign.{suffix}", t, f"{t} {literal(e, half)}", f"{t} {a}")
    return f.op(f"fadd {t} {a}, {added}")


def _each_word(f: FunctionEmitter, op: Op, operand: Value, signed: bool,
               convert: Callable[[str], str]) -> bool:
    """The demanded registers of narrow integers, by words: those of one saturate at once."""
    e, mask, names = types.scalar(op.result.type), f.demanded(op.result), f.values[operand]
    each = 32 // e.bits
    full = (1 << each) - 1
    firsts = {r - r % each for r in members(mask)}
    if any(mask >> r & full != full for r in firsts):
        return False
    found, kind = f.blank(op.result.type), f"{'s' if signed else 'u'}{e.bits}"
    text = f"cvt.pack.sat.{kind}.s32" + (".b32 $0, $1, $2, $3;" if each == 4 else " $0, $1, $2;")
    known: dict[tuple[str, ...], list[str]] = {}
    for first in sorted(firsts):
        group = tuple(names[first : first + each])
        if group not in known:
            numbers = [convert(name) for name in group]
            word = "0"
            for i in range(each - 2, -1, -2):
                arguments = [numbers[i + 1], numbers[i], word][: 3 if each == 4 else 2]
                constraints = ",".join(["=r", *["r"] * len(arguments)])
                word = f.op(f'call i32 asm "{text}", "{constraints}"'
                            f"({', '.join(f'i32 {a}' for a in arguments)})")
            vector = f"<{each} x {llvm_type(e)}>"
            cut = f.op(f"bitcast i32 {word} to {vector}")
            known[group] = [f.op(f"extractelement {vector} {cut}, i32 {i}") for i in range(each)]
            note(f, word, known[group])
        found[first : first + each] = known[group]
    f.values[op.result] = found
    return True


def int_to_float(f: FunctionEmitter, op: Op) -> None:
    source, target = types.scalar(op.operands[0].type), types.scalar(op.result.type)
    t, to, name = llvm_type(source), llvm_type(target), op.name
    exact = source.bits <= 16 or "bounds" in op.attributes
    bases: dict[str, str] = {}

    def convert(a: str) -> str:
        if target in (types.F32, types.TF32, types.F64):
            word = lone_byte(f, a) if name == "uitofp" else ""
            found = f.op(f"{name} {'i32' if word else t} {word or a} to {to}")
            if f.options.fast_math and a in f.constant_parts and target == types.F32 \
                    and name == "sitofp":
                base, constant = f.constant_parts[a]
                if base not in bases:
                    bases[base] = f.op(f"sitofp {t} {base} to float")
                f.float_parts[found] = bases[base], constant
            return found
        if exact:  # in f32
            return convert_float(f, types.F32, target, f.op(f"{name} {t} {a} to float"))
        if target == types.F16:  # exact in f32, or beyond f16's largest
            return f.op(f"fptrunc float {f.op(f'{name} {t} {a} to float')} to half")
        if source.bits == 32:
            return convert_float(f, types.F64, target, f.op(f"{name} {t} {a} to double"))
        odd = _helper(f, f"{name}.i64.to.odd.f64", "double", "i64",
                      partial(_integer_to_odd, convert=name), a)
        return convert_float(f, types.F64, target, odd)

    if not any(convert_(f, op) for convert_ in (packed_casts.convert_near,
               packed_casts.convert_bytes, packed_casts.convert_small)):
        each_register(f, op, convert)


def _integer_to_odd(body: Body, convert: str) -> None:
    """A 64-bit integer as an f64, exactly or rounded to odd at 52 bits.

    Twelve bits go, and if one of them was set the last bit that stays is."""
    x = body.parameters[0]
    offset = x + (1 << 52 if convert == "sitofp" else 0)
    small = offset.compare("ult", "", 1 << 53)
    kept = x.shift_right_signed(12) if convert == "sitofp" else x >> 12
    sticky = (x & 0xFFF).differs(0).cast("zext", "i64")
    large = (kept | sticky).cast(convert, "double") * 4096.0
    body.give(body.select(small, x.cast(convert, "double"), large))


# ---- integers, bits, addresses -------------------------------------------------------------------


def as_bits(f: FunctionEmitter, e: types.Element, a: str) -> str:
    t = llvm_type(e)
    if isinstance(e, types.Pointer):
        return f.op(f"ptrtoint {t} {a} to i64")
    return a if t[0] == "i" else f.op(f"bitcast {t} {a} to i{e.bits}")


def from_bits(f: FunctionEmitter, e: types.Element, a: str) -> str:
    t = llvm_type(e)
    if isinstance(e, types.Pointer):
        return f.op(f"inttoptr i64 {a} to {t}")
    return a if t[0] == "i" else f.op(f"bitcast i{e.bits} {a} to {t}")


def bitcast(f: FunctionEmitter, op: Op) -> None:
    source, target = types.element(op.operands[0].type), types.element(op.result.type)
    if llvm_type(source) == llvm_type(target):
        f.values[op.result] = f.values[op.operands[0]]
    elif not packed_casts.join_halves(f, op):
        each_register(f, op, lambda a: from_bits(f, target, as_bits(f, source, a)))


EMITTERS: dict[str, Emitter] = {
    "fptosi": float_to_int, "fptoui": float_to_int,
    "sitofp": int_to_float, "uitofp": int_to_float,
    "fpcast": fpcast, "bitcast": bitcast, "ptrtoint": bitcast, "inttoptr": bitcast}
