"""The operations of Triton-IR, one row each.

Parser, verifier, constant folding, interpreter and the reference manual derive from a row: operand
names, attributes, effects, typing rule, meaning, one sentence of documentation.  Passes read
`effects` and the flags; none keeps a list of names.

`meaning(m, op, *operands)` computes the result.  `m` is an array namespace: NumPy arrays in the
interpreter (`interp.arrays`), Python numbers in constant folding (`ir.numbers`).  Integers wrap
to the result's width and floats round to its format after the call: a meaning is plain arithmetic.
Rows with no meaning (memory, control) are executed by the interpreter itself."""

import operator
from collections.abc import Callable, Mapping
from typing import Any

from tritonc.ir import rules
from tritonc.ir.rules import Rule
from tritonc.records import NamedTuple

READ, WRITE = "read", "write"  # of global memory
SYNC = "sync"  # orders memory accesses of the instance
SHARED_READ, SHARED_WRITE = "shared read", "shared write"
OUTPUT = "output"  # prints, or ends the kernel
CONTROL = "control"  # a terminator

ORDERS, SCOPES = ("relaxed", "acquire", "release", "acq_rel"), ("block", "gpu", "system")
ICMP = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
FCMP = ("oeq", "one", "olt", "ole", "ogt", "oge", "une", "ord", "uno")
# Of each predicate that of the exchanged operands; and the one that holds just where it does not.
SWAPPED = {p: p.replace("l", "g") if "l" in p else p.replace("g", "l") for p in (*ICMP, *FCMP)}
OPPOSITE = {"eq": "ne", "ne": "eq", "slt": "sge", "sge": "slt", "sgt": "sle", "sle": "sgt",
            "ult": "uge", "uge": "ult", "ugt": "ule", "ule": "ugt",
            "oeq": "une", "une": "oeq", "ord": "uno", "uno": "ord"}


class OpInfo(NamedTuple):
    """A row.  `operands` names them; a last name with `*` takes the rest."""

    name: str
    operands: tuple[str, ...]
    rule: Rule
    doc: str
    meaning: Callable[..., Any] | None = None
    attributes: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()  # attributes that may be missing
    effects: frozenset[str] = frozenset()
    elementwise: bool = False  # result element i depends on operand elements i alone
    commutative: bool = False
    may_trap: bool = False  # must not run where the program does not (division by zero)
    guardable: bool = False  # may carry a guard

    @property
    def terminator(self) -> bool:
        return CONTROL in self.effects

    @property
    def pure(self) -> bool:
        """No effects: equal inputs give equal results, and an unused one may go."""
        return not self.effects

    def misfit(self, operands: int, attributes: Mapping[str, Any]) -> str | None:
        """What an operation of this row has too much of, or lacks."""
        least = len(self.operands)
        rest = least > 0 and self.operands[-1].startswith("*")
        if operands < least - rest or (operands > least and not rest):
            return (f"'{self.name}' takes {least - rest}{' or more' if rest else ''} operands, "
                    f"found {operands}")
        for key in attributes:
            if key not in self.attributes and key not in self.optional:
                return f"'{self.name}' has no attribute '{key}'"
        for key in self.attributes:
            if key not in attributes:
                return f"'{self.name}' needs the attribute '{key}'"
        return None


def _elementwise(name: str, operands: str, rule: Rule, doc: str,
                 meaning: Callable[..., Any] | None,
                 **flags: Any) -> OpInfo:
    return OpInfo(name, tuple(operands.split()), rule, doc, meaning, elementwise=True,
                  guardable=flags.get("may_trap", False), **flags)


DIVISIONS = ("sdiv", "udiv", "srem", "urem")
_RUNS = ("vector", "vector_axis", "rises")  # neighbours of which one result is computed
_DIVIDES = {"may_trap": True, "optional": _RUNS}


def _integer(name: str, doc: str, meaning: Callable[..., Any], **flags: Any) -> OpInfo:
    return _elementwise(name, "a b", rules.same_int, doc, meaning, **flags)


def _memory(name: str, operands: str, rule: Rule, doc: str, effects: set[str],
            attributes: tuple[str, ...] = (), optional: tuple[str, ...] = ()) -> OpInfo:
    return OpInfo(name, tuple(operands.split()), rule, doc, None, attributes, optional,
                  effects=frozenset(effects), guardable=True)


def _unary_float(name: str, doc: str) -> OpInfo:
    return _elementwise(name, "a", rules.same_float, doc, lambda m, op, a: getattr(m, name)(a))


def _bits(name: str, operands: str, doc: str, compute: Callable[..., int], **flags: Any) -> OpInfo:
    """`compute` takes operands as numbers without sign, and their width last."""
    return _elementwise(name, operands, rules.same_int, doc,
                        lambda m, op, *values: m.by_bits(op, compute, *values), **flags)


def _signed(value: int, bits: int) -> int:
    return value - ((value >> (bits - 1)) << bits)


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}


def _compare_int(m: Any, op: Any, a: Any, b: Any) -> Any:
    predicate = op.attributes["predicate"]
    if predicate[0] == "u":
        a, b = m.unsigned(op, a), m.unsigned(op, b)
    return COMPARISONS[predicate[-2:]](a, b)


def _compare_float(m: Any, op: Any, a: Any, b: Any) -> Any:
    """A NaN differs from itself."""
    predicate = op.attributes["predicate"]
    if predicate == "uno":
        return (a != a) | (b != b)
    ordered = (a == a) & (b == b)
    if predicate == "ord":
        return ordered
    found = COMPARISONS[predicate[1:]](a, b)
    return found & ordered if predicate == "one" else found


# `contract`: a product and the sum that it is part of, of one expression, may be rounded at once.
# `exact`: the operation is what it says, whatever -ffast-math allows.
_CONTRACT = ("contract", "exact")

_ROWS: list[OpInfo] = [
    # constants and indices
    OpInfo("constant", (), rules.stated_type, "The number `value`, in every element.",
           lambda m, op: m.full(op.result.type, op.attributes["value"]), ("value",)),
    OpInfo("undef", (), rules.stated_type, "A value nobody may depend on.", None),
    OpInfo("range", (), rules.make_range, "The integers `start` ... `stop` - 1.",
           lambda m, op: m.range(op.attributes["start"], op.attributes["stop"]),
           ("start", "stop")),
    OpInfo("get_program_id", (), rules.scalar_i32, "This instance's index along `axis`.", None,
           ("axis",)),
    OpInfo("get_num_programs", (), rules.scalar_i32, "How many instances lie along `axis`.", None,
           ("axis",)),
    OpInfo("get_global_range", (), rules.global_range,
           "This instance's `extent` indices of the global range along `axis`.", None,
           ("axis", "extent")),
    OpInfo("constant_table", (), rules.stated_type,
           "The address of constant memory `symbol`.", None, ("symbol",)),
    # integers
    _integer("add", "Sum, wrapping.", lambda m, op, a, b: a + b, commutative=True),
    _integer("sub", "Difference, wrapping.", lambda m, op, a, b: a - b),
    _integer("mul", "Product, wrapping.", lambda m, op, a, b: a * b, commutative=True),
    _integer("sdiv", "Signed quotient, truncated towards zero.",
             lambda m, op, a, b: m.truncated_quotient(a, b), **_DIVIDES),
    _integer("udiv", "Unsigned quotient.",
             lambda m, op, a, b: m.unsigned(op, a) // m.unsigned(op, b), **_DIVIDES),
    _integer("srem", "Signed remainder, of the dividend's sign.",
             lambda m, op, a, b: a - b * m.truncated_quotient(a, b), **_DIVIDES),
    _integer("urem", "Unsigned remainder.",
             lambda m, op, a, b: m.unsigned(op, a) % m.unsigned(op, b), **_DIVIDES),
    _integer("and", "Bitwise and.", lambda m, op, a, b: a & b, commutative=True),
    _integer("or", "Bitwise or.", lambda m, op, a, b: a | b, commutative=True),
    _integer("xor", "Bitwise exclusive or.", lambda m, op, a, b: a ^ b, commutative=True),
    _integer("shl", "Shift left.", lambda m, op, a, b: a << m.count(op, a, b)),
    _integer("lshr", "Shift right, zeros in.",
             lambda m, op, a, b: (low := m.unsigned(op, a)) >> m.count(op, low, b)),
    _integer("ashr", "Shift right, copies of the sign in.",
             lambda m, op, a, b: a >> m.count(op, a, b)),
    _integer("smin", "The lesser, signed.", lambda m, op, a, b: m.minimum(a, b), commutative=True),
    _integer("smax", "The greater, signed.", lambda m, op, a, b: m.maximum(a, b), commutative=True),
    _integer("umin", "The lesser, unsigned.", commutative=True,
             meaning=lambda m, op, a, b: m.minimum(m.unsigned(op, a), m.unsigned(op, b))),
    _integer("umax", "The greater, unsigned.", commutative=True,
             meaning=lambda m, op, a, b: m.maximum(m.unsigned(op, a), m.unsigned(op, b))),
    _bits("popc", "a", "How many bits are 1.", lambda a, bits: a.bit_count()),
    _bits("clz", "a", "How many zeros stand above the highest 1; the width, of 0.",
          lambda a, bits: bits - a.bit_length()),
    _bits("brev", "a", "The bits in the opposite order.",
          lambda a, bits: int(f"{a:0{bits}b}"[::-1], 2)),
    _bits("umulhi", "a b", "The high half of the product, unsigned.",
          lambda a, b, bits: a * b >> bits, commutative=True),
    _bits("smulhi", "a b", "The high half of the product, signed.",
          lambda a, b, bits: _signed(a, bits) * _signed(b, bits) >> bits, commutative=True),
    # floats
    _elementwise("fadd", "a b", rules.same_float, "Sum, rounded to nearest even.",
                 lambda m, op, a, b: a + b, commutative=True, optional=_CONTRACT),
    _elementwise("fsub", "a b", rules.same_float, "Difference, rounded to nearest even.",
                 lambda m, op, a, b: a - b, optional=_CONTRACT),
    _elementwise("fmul", "a b", rules.same_float, "Product, rounded to nearest even.",
                 lambda m, op, a, b: a * b, commutative=True, optional=_CONTRACT),
    _elementwise("fdiv", "a b", rules.same_float, "Quotient, rounded to nearest even.",
                 lambda m, op, a, b: m.divide(a, b), optional=("exact", "approximate")),
    _elementwise("fneg", "a", rules.same_float, "The sign changed.", lambda m, op, a: -a),
    _elementwise("fmin", "a b", rules.same_float, "The lesser; the number beside a NaN.",
                 lambda m, op, a, b: m.fmin(a, b), commutative=True),
    _elementwise("fmax", "a b", rules.same_float, "The greater; the number beside a NaN.",
                 lambda m, op, a, b: m.fmax(a, b), commutative=True),
    _elementwise("fma", "a b c", rules.same_float, "a * b + c, rounded once.",
                 lambda m, op, a, b, c: m.fma(op, a, b, c)),
    _unary_float("fabs", "The magnitude."),
    _unary_float("exp", "e to the a."),
    _unary_float("exp2", "2 to the a."),
    _unary_float("log", "Natural logarithm."),
    _unary_float("log2", "Logarithm to base 2."),
    _unary_float("sqrt", "Square root, rounded to nearest even."),
    _unary_float("rsqrt", "1 / sqrt(a)."),
    _unary_float("sin", "Sine of a in radians."),
    _unary_float("cos", "Cosine of a in radians."),
    _unary_float("tanh", "Hyperbolic tangent."),
    _unary_float("erf", "Error function."),
    _unary_float("floor", "The greatest integer not above a."),
    _unary_float("ceil", "The least integer not below a."),
    _unary_float("round", "The nearest integer, halves away from zero."),
    _unary_float("trunc", "The integer part."),
    _unary_float("rint", "The nearest integer, ties to even."),
    # comparisons and predicates
    OpInfo("icmp", ("a", "b"), rules.compare_int, "Integer comparison.  `vector` neighbours along "
           "`vector_axis` are known to compare alike; `based`: a is not negative, and may be "
           "compared by its distance from another element.",
           _compare_int, ("predicate",), (*_RUNS[:2], "based"), elementwise=True),
    OpInfo("fcmp", ("a", "b"), rules.compare_float, "Float comparison, IEEE.",
           _compare_float, ("predicate",), elementwise=True),
    _elementwise("cmpp", "c", rules.predicates,
                 "Two opposite predicates: where `c` holds, and where it does not.",
                 lambda m, op, c: (c, c ^ True)),
    _elementwise("psi", "*pairs", rules.merge,
                 "The value of the last pair whose predicate holds (PSSA, paper section 4).", None),
    _elementwise("select", "c a b", rules.choose, "a where c holds, else b.",
                 lambda m, op, c, a, b: m.where(c, a, b)),
    # conversions
    _elementwise("sext", "a", rules.extend, "Widened, by copies of the sign.",
                 lambda m, op, a: a),
    _elementwise("zext", "a", rules.extend, "Widened, by zeros.",
                 lambda m, op, a: m.unsigned(op, a)),
    _elementwise("truncate", "a", rules.truncate, "The low bits; to i1, the lowest.",
                 lambda m, op, a: a),
    _elementwise("fptosi", "a", rules.float_to_int,
                 "Towards zero, saturating at the ends of the signed type; 0 for a NaN.",
                 lambda m, op, a: m.to_int(op, a, True)),
    _elementwise("fptoui", "a", rules.float_to_int,
                 "Towards zero, saturating at the ends of the unsigned type; 0 for a NaN.",
                 lambda m, op, a: m.to_int(op, a, False)),
    _elementwise("sitofp", "a", rules.int_to_float, "The nearest float of a signed integer.",
                 lambda m, op, a: m.to_float(op, a), optional=("bounds",)),
    _elementwise("uitofp", "a", rules.int_to_float, "The nearest float of an unsigned integer.",
                 lambda m, op, a: m.to_float(op, m.unsigned(op, a)), optional=("bounds",)),
    _elementwise("fpcast", "a", rules.float_cast, "The nearest float of another format.",
                 lambda m, op, a: m.to_float(op, a)),
    _elementwise("bitcast", "a", rules.bit_cast, "The same bits as another type of that width.",
                 lambda m, op, a: m.bitcast(op, a)),
    _elementwise("ptrtoint", "a", rules.pointer_to_int, "The address.", lambda m, op, a: a),
    _elementwise("inttoptr", "a", rules.int_to_pointer, "The pointer of an address.",
                 lambda m, op, a: a),
    # pointers
    _elementwise("addptr", "p offset", rules.add_pointer,
                 "The pointer `offset` (signed) elements further on.",
                 lambda m, op, p, offset: m.add_pointer(op, p, offset)),
    _elementwise("ptrdiff", "p q", rules.subtract_pointers, "How many elements p is beyond q.",
                 lambda m, op, p, q: m.pointer_difference(op, p, q)),
    # memory
    _memory("load", "p", rules.load,
            "What lies at p; where the guard does not hold, the number `other`, else undefined.  "
            "`alike`: so many neighbours along `vector_axis` have one address; `moves`: in each "
            "iteration of a loop others; `align`: addresses are multiples of so many bytes; "
            "`ragged`: the guard may hold for the first elements of a vector alone, or with "
            "`rises` for the last; `any`: a vector is loaded where it holds for any element; "
            "`window`: a number that neighbouring loads share, where each run of `vector` begins "
            "among aligned "
            "ones, from where to where all of them reach, and how many elements at its begin and "
            "end have accesses of their own; `rows`: each aligned one has the guard of any element "
            "that it brings; `every`: elements of a run lie so many apart; `record`: a field "
            "of records, see `analysis.records`; `fenced`: the assembler is to "
            "keep the order of its accesses; `unread`: an axis along which nobody reads what the "
            "guard leaves out.",
            {READ}, optional=("cache", "volatile", "other", "vector", "vector_axis", "alike",
                              "late", "piecewise", "fenced", "moves", "align", "ragged", "any",
                              "window", "rises", "rows", "every", "record", "unread")),
    _memory("store", "p value", rules.store, "Writes value to p, where the guard holds.  `ragged`: "
            "it may hold for a part of a vector; `inner`: of the elements around this one; "
            "`record` and `fenced` as of load; `late`: made with the next store of these records.",
            {WRITE}, optional=("cache", "vector", "vector_axis", "release", "moves", "align",
                               "ragged", "inner", "record", "late", "fenced")),
    _memory("atomic_rmw", "p value", rules.atomic,
            "Combines memory with value by `kind` atomically; gives the old value.  `kind` load: "
            "changes nothing; store: value replaces what was there.  `order` is relaxed, acquire, "
            "release or acq_rel, without one acq_rel of a scalar and relaxed of a tile; `scope` is "
            "block, gpu (without one) or system; `volatile`: no other access stands for it; "
            "`wide`: one instruction may combine neighbours; `narrow`: by the first warp.",
            {READ, WRITE}, ("kind",),
            ("order", "scope", "volatile", "wide", "narrow", "vector", "vector_axis")),
    _memory("atomic_cas", "p compare value", rules.atomic,
            "Writes value where memory equals compare, atomically; gives the old value.  `order`, "
            "`scope` and `narrow` as of atomic_rmw.", {READ, WRITE}, (),
            ("order", "scope", "narrow")),
    OpInfo("memory_barrier", (), rules.nothing,
           "Earlier writes of the instance are seen by its later reads.",
           effects=frozenset({SYNC, READ, WRITE})),
    # shapes
    OpInfo("splat", ("a",), rules.splat, "A scalar in every element.",
           lambda m, op, a: m.full(op.result.type, a)),
    OpInfo("broadcast", ("a",), rules.broadcast, "Extents of 1 repeated.",
           lambda m, op, a: m.broadcast(op.result.type, a)),
    OpInfo("reshape", ("a",), rules.reshape, "The same elements, row-major, in another shape.",
           lambda m, op, a: m.reshape(op.result.type, a)),
    OpInfo("trans", ("a",), rules.transpose, "Result axis d is operand axis `permutation[d]`.",
           lambda m, op, a: m.transpose(a, op.attributes["permutation"]), ("permutation",)),
    OpInfo("reduce", ("a",), rules.reduce, "Combines the elements along `axes` by `kind`.",
           lambda m, op, a: m.reduce(op, a), ("kind", "axes")),
    OpInfo("scan", ("a",), rules.scan, "Inclusive scan along `axis` by `kind`, from the end if "
           "`reverse`.", lambda m, op, a: m.scan(op, a), ("kind", "axis"), ("reverse",)),
    OpInfo("reduce_with", ("*values",), rules.reduce_with, "Combines the elements along `axis` of "
           "all operands at once by `function` (see ir/combiner.py), in the order of the axis if "
           "it does not commute.", lambda m, op, *values: m.reduce_with(op, *values),
           ("function", "axis")),
    OpInfo("scan_with", ("*values",), rules.scan_with, "Inclusive scan of all operands at once by "
           "`function`, along `axis`, from the end if `reverse`.",
           lambda m, op, *values: m.scan_with(op, *values), ("function", "axis"), ("reverse",)),
    OpInfo("take", ("a", "index"), rules.take, "The elements that `index` names along `axis`, each "
           "in its own line; `extent`: how many there are in the source.",
           lambda m, op, a, index: m.take(op, a, index), ("axis", "extent")),
    OpInfo("histogram", ("a",), rules.histogram, "How many elements are 0, 1, ..., `extent` - 1; "
           "others do not count.", lambda m, op, a: m.histogram(op, a), ("extent",)),
    OpInfo("dot", ("a", "b", "c"), rules.dot, "Matrix product plus c, batched over leading "
           "axes; c less the product with `minus`.",
           lambda m, op, a, b, c: m.dot(op, a, b, c),
           optional=("instruction", "registers", "neighbours", "contiguous", "inside", "swapped",
                     "inner", "asked", "minus")),
    # hints and checks
    OpInfo("assume_multiple", ("a",), rules.multiple,
           "a, which is a multiple of `n` (bytes, for a pointer), not less than `least` and not "
           "more than `greatest`; `apart`: the program reaches what it points to by no other "
           "parameter.", None, ("n",), optional=("least", "greatest", "apart"),
           elementwise=True),
    OpInfo("assume_positive", ("a",), rules.same_float,
           "a, which lies between 2^-100 and 2^100.", None, elementwise=True),
    OpInfo("assume", ("c",), rules.holds, "c holds.", effects=frozenset({OUTPUT}),
           guardable=True),
    OpInfo("assert", ("c",), rules.holds, "Ends the program with `message` unless c holds.",
           None, ("message",), effects=frozenset({OUTPUT}), guardable=True),
    OpInfo("printf", ("*values",), rules.printed, "Prints the values by `format`.", None,
           ("format",), effects=frozenset({OUTPUT}), guardable=True),
    # control
    OpInfo("phi", ("*values",), rules.phi, "The value that belongs to the block come from.", None),
    OpInfo("br", (), rules.nothing, "Goes to the block.", effects=frozenset({CONTROL})),
    OpInfo("cond_br", ("c",), rules.condition, "Goes to the first block if c, else the second.  "
           "`unroll`: at the test of a loop, how often its body is to be repeated, 0 for as often "
           "as it runs.  `facts`: both do the same, the first one by more that is known.  "
           "`passes`: a producer warp goes to the block of that number, whatever c is.  "
           "`pingpong`: behind the first one warps of so many parts compute programs of their own.",
           optional=("unroll", "facts", "passes", "pingpong"), effects=frozenset({CONTROL})),
    OpInfo("ret", (), rules.nothing, "Ends the instance.", effects=frozenset({CONTROL}))]

OPS: dict[str, OpInfo] = {row.name: row for row in _ROWS}
ROWS = dict(OPS)  # with those that the backend adds (`backend/target/machine_ops.py`)
