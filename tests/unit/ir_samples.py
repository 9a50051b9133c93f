"""A line of Triton-IR for every operation, and a kernel around it that makes it valid."""

from __future__ import annotations

from tritonc.ir import rules
from tritonc.ir.ops import OPS, OpInfo

HEADER = """constant @table : f32[4] = [1.5, inf, 3]

kernel @k(i1 %c, i8 %b, i32 %i, i64 %l, f16 %h, f32 %f, f64 %d, f32* %p, f32 constant* %q) {
entry:
  %tc = undef : i1<4>
  %ti = undef : i32<4>
  %tf = undef : f32<4>
  %tp = undef : f32*<4>
  %m = undef : f32<4, 4>
  %b8 = undef : f8e5m2<2, 4, 4>
"""


def _elementwise(row: OpInfo) -> str:
    """An operation on integers or floats of one type."""
    operand, kind = ("%ti", "i32<4>") if row.rule is rules.same_int else ("%tf", "f32<4>")
    if row.rule is rules.same_float and len(row.operands) != 2:
        operand, kind = ("%h", "f16") if len(row.operands) == 1 else ("%d", "f64")
    guard = "@%tc " if row.guardable else ""
    return f"{guard}%x = {row.name} {', '.join([operand] * len(row.operands))} : {kind}"


SAMPLES: dict[str, str] = {
    "constant": "%x = constant {value = -1e-05} : f32<4>\n  %y = constant {value = true} : i1\n"
                "  %z = constant {value = -128} : i8<2, 3>\n  %n = constant {value = nan} : f64",
    "undef": "%x = undef : bf16<768>",
    "range": "%x = range {start = -3, stop = 45} : i32<48>",
    "get_program_id": "%x = get_program_id {axis = 0} : i32",
    "get_num_programs": "%x = get_num_programs {axis = 2} : i32",
    "get_global_range": "%x = get_global_range {axis = 1, extent = 48} : i32<48>",
    "constant_table": "%x = constant_table {symbol = table} : f32 constant*",
    **{row.name: _elementwise(row) for row in OPS.values()
       if row.rule in (rules.same_int, rules.same_float)},
    "icmp": "%x = icmp %ti, %ti {predicate = ule} : i1<4>",
    "fcmp": "%x = fcmp %d, %d {predicate = une} : i1",
    "cmpp": "%x, %y = cmpp %tc : i1<4>",
    "psi": "%x = psi [%tc, %tf], [%tc, %tf], [%tc, %tf] : f32<4>",
    "select": "%x = select %c, %b, %b : i8",
    "sext": "%x = sext %ti : i64<4>",
    "zext": "%x = zext %c : i32",
    "truncate": "%x = truncate %l : i1",
    "fptosi": "%x = fptosi %tf : i8<4>",
    "fptoui": "%x = fptoui %d : i64",
    "sitofp": "%x = sitofp %ti : bf16<4>",
    "uitofp": "%x = uitofp %c : f8e4m3",
    "fpcast": "%x = fpcast %tf : tf32<4>",
    "bitcast": "%x = bitcast %tf : i32<4>",
    "ptrtoint": "%x = ptrtoint %tp : i64<4>",
    "inttoptr": "%x = inttoptr %l : f16 constant*",
    "addptr": "%x = addptr %tp, %ti : f32*<4>",
    "ptrdiff": "%x = ptrdiff %tp, %tp : i64<4>",
    "load": "%x = load %q {cache = streaming, volatile = true} : f32\n"
            "  @%tc %y = load %tp {other = inf} : f32<4>",
    "store": "@%tc store %tp, %tf\n  store %p, %f {cache = writeback}",
    "atomic_rmw": "@%tc %x = atomic_rmw %tp, %tf {kind = fadd} : f32<4>",
    "atomic_cas": "%x = atomic_cas %p, %f, %f : f32",
    "memory_barrier": "memory_barrier",
    "splat": "%x = splat %p : f32*<4>",
    "broadcast": "%w = reshape %ti : i32<1, 4>\n  %x = broadcast %w : i32<4, 4>",
    "reshape": "%x = reshape %m : f32<2, 8>\n  %y = reshape %f : f32<1>",
    "trans": "%x = trans %b8 {permutation = [2, 0, 1]} : f8e5m2<4, 2, 4>",
    "reduce": "%x = reduce %m {kind = fmax, axes = [0, 1]} : f32\n"
              "  %y = reduce %m {kind = fadd, axes = [0]} : f32<4>",
    "scan": "%x = scan %ti {kind = add, axis = 0} : i32<4>",
    "reduce_with": '%x, %y = reduce_with %m, %m {function = "f32 %a, f32 %b, f32 %c, f32 %d -> %e, '
                   '%d; %e = fsub %a, %c : f32", axis = 0} : f32<4>',
    "scan_with": '%x = scan_with %ti {function = "i32 %a, i32 %b -> %b", axis = 0, reverse = true} '
                 ': i32<4>',
    "histogram": "%x = histogram %ti {extent = 3} : i32<3>",
    "take": "%x = take %tf, %ti {axis = 0, extent = 3} : f32<4>",
    "dot": "%w = undef : f32<2, 4, 4>\n  %x = dot %b8, %b8, %w : f32<2, 4, 4>",
    "assume_positive": "%x = assume_positive %tf : f32<4>",
    "assume_multiple": "%x = assume_multiple %tp {n = 16} : f32*<4>",
    "assume": "@%c assume %c",
    "assert": '@%tc assert %tc {message = "i < \\"n\\"\\n"}',
    "printf": '@%tc printf %tf, %ti {format = "%f %d\\n"}\n  printf {format = hello}',
    "phi": "br loop\nloop:\n  %x = phi [%i, entry], [%y, loop] : i32\n"
           "  %y = add %x, %x : i32\n  cond_br %c, loop, out\nout:",
    "br": "br out\nout:",
    "cond_br": "cond_br %c, one, two\none:\n  br two\ntwo:",
    "ret": "cond_br %c, one, two\none:\n  ret\ntwo:",
}


def kernel_text(name: str) -> str:
    """A module in which the sample of an operation stands."""
    return f"{HEADER}  {SAMPLES[name]}\n  ret\n}}\n"
