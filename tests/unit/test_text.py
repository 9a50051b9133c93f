"""The text form: what is printed reads back, and what cannot be read is said where it stands."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_samples import HEADER, SAMPLES, kernel_text

from tritonc.ir import rules
from tritonc.ir.build import Builder
from tritonc.ir.core import Block, ConstantTable, Kernel, Module, Op, ParameterInfo, Value
from tritonc.ir.layouts.layout import Layout, SharedLayout
from tritonc.ir.ops import OPS, OpInfo
from tritonc.ir.syntax.parse import _Actions, language, parse_module
from tritonc.ir.syntax.parse_types import TypeActions
from tritonc.ir.syntax.text import print_kernel, print_module
from tritonc.ir.types import F32, I1, I32, Buffer, Pointer, Tile
from tritonc.ir.verify import check, verify
from tritonc.source import CompileError, Diagnostics, SourceFile

LAYOUT = Layout((4,), (), (1, 2, 0, 0, 0), (0,))
SHARED = SharedLayout((2, 2), (1, 3))
TABLE = OPS | {
    "alloc": OpInfo("alloc", (), rules.stated_type, "A buffer.", None, (),
                    ("layout", "type", "sizes", "nested", "none")),
}


def parse(text: str) -> Module:
    return parse_module(SourceFile("k.tir", text), Diagnostics(), TABLE)


def errors(text: str) -> list[tuple[str, int, str]]:
    """Name, line and message of each error."""
    with pytest.raises(CompileError) as caught:
        parse(text)
    return [(d.name, d.span.line if d.span else 0, d.message) for d in caught.value.diagnostics]


# Round trips

def test_every_operation_has_a_sample() -> None:
    assert set(SAMPLES) == set(OPS)
    for name, text in SAMPLES.items():
        assert re.search(rf"(^|= |%tc |%c |\n  ){name}\b", text), name


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_read_back_as_they_are(name: str) -> None:
    text = kernel_text(name)
    module = parse(text)
    check(module, Diagnostics())
    verify(module)
    assert print_module(module) == text
    assert any(op.name == name for op in module.kernels[0].ops())


def test_headers_types_and_attributes_read_back() -> None:
    text = f"""#l0 = {LAYOUT}
#s0 = {SHARED}
constant @empty : bf16[3]

kernel @k(f32* %x {{ctype = "float *", multiple_of = 16, read_only, no_alias}}, i32 %n {{retune}}) \
{{tile = [64, 32], tunables = {{TM = 64}}, num_warps = 4}} {{
entry:
  %a = undef : f32<4; #l0>
  %b = undef : f32 constant*<4>
  %c = alloc : buffer<2 x f32<2, 2>; #s0>
  %d = alloc {{layout = #s0, type = f32*<8>, sizes = [1, [2, []], -inf], nested = {{a = "f32"}}, \
none = none}} : buffer<1 x i8<4>>
  ret
}}

kernel @l() {{tile = {{1 = 64}}}} {{
start:
  ret
}}
"""
    module = parse(text)
    assert print_module(module) == text
    kernel = module.kernels[0]
    assert kernel.tile == {0: 64, 1: 32} and module.kernels[1].tile == {1: 64}
    assert kernel.tunables == {"TM": 64} and kernel.attributes == {"num_warps": 4}
    assert kernel.info[0].multiple_of == 16 and kernel.info[0].ctype == "float *"
    assert kernel.info[0].no_alias and not kernel.info[0].write_only and kernel.info[1].retune
    a, _, c, d = (op for op in kernel.entry.ops if op.results)
    assert a.result.type == Tile(F32, (4,), LAYOUT)
    assert c.result.type == Buffer(F32, (2, 2), 2, SHARED)
    assert d.attributes == {"layout": SHARED, "type": Tile(Pointer(F32), (8,)),
                            "sizes": (1, (2, ()), -math.inf), "nested": {"a": "f32"}, "none": None}
    assert module.constants[0].data is None and module.constants[0].count == 3


def test_comments_spaces_and_the_order_of_definitions() -> None:
    module = parse("// a\nkernel @k ( i32 %n ) // b\n{ a: br c // to c\nb:\n ret\n"
                   "c:\n%x=add %n,%n:i32\n\tbr b }\n")
    assert [b.name for b in module.kernels[0].blocks] == ["a", "b", "c"]
    assert print_module(module) == (
        "kernel @k(i32 %n) {\na:\n  br c\nb:\n  ret\nc:\n  %x = add %n, %n : i32\n  br b\n}\n")


def test_every_rule_has_its_method() -> None:
    rules = {str(rule.alias or rule.origin.name) for rule in language().grammar.builds
             if rule.alias or not rule.options.expand1}
    wanted = {name for name in rules if not name.startswith("__")} - {"program"}
    assert "tile" in wanted and all(callable(getattr(TypeActions, name, None) or
                                             vars(_Actions).get(name)) for name in wanted)


def test_lines_may_end_where_nothing_else_can() -> None:
    text = ("kernel @k(i32 %n {\nretune}\n) {tile =\n[4]}\n{\na:\n"
            "  %x = add %n,\n %n :\n i32\n  ret }")
    assert print_module(parse(text)) == (
        "kernel @k(i32 %n {retune}) {tile = [4]} {\na:\n  %x = add %n, %n : i32\n  ret\n}\n")


def test_names_are_made_unique() -> None:
    values = [Value(I32, name) for name in ("x", "x.1", "x", "", "0", "x.1", "", "a b")]
    blocks = [Block("b"), Block("b"), Block("")]
    kernel = Kernel("k", values, [ParameterInfo() for _ in values], blocks)
    for block, target in zip(blocks, [blocks[1], blocks[2], None], strict=True):
        Builder(block).emit("br" if target else "ret", blocks=[target] if target else [])
    text = print_kernel(kernel)
    assert re.findall(r"%[\w.]+", text) == [
        "%x", "%x.1", "%x.2", "%0", "%0.1", "%x.1.1", "%1", "%a_b"]
    assert re.findall(r"^(\S+):", text, re.M) == ["b", "b.1", "block"]
    assert print_module(parse(text)) == text


def test_operations_know_their_place_in_the_text() -> None:
    text = kernel_text("load")
    op = next(op for op in parse(text).kernels[0].ops() if op.guard is not None)
    assert op.span is not None
    assert text[op.span.start : op.span.end] == "@%tc %y = load %tp {other = inf} : f32<4>"


def test_broken_operations_print_all_the_same() -> None:
    stranger = Value(I32, "far")
    block = Block("entry")
    block.ops = [Op("psi", [stranger], {"what": object}, (F32,), guard=Value(I1, "g")),
                 Op("phi", [stranger], result_types=(F32,)), Op("br", [], blocks=[Block("gone")])]
    text = print_kernel(Kernel("k", [], [], [block]))
    assert "psi %<far: not defined here>" in text and "<gone: not of this kernel>" in text


def test_constants_print_their_data() -> None:
    module = Module([], [ConstantTable("t", F32, 3, [1, 0.1, -math.inf])])
    assert print_module(module) == "constant @t : f32[3] = [1, 0.1, -inf]\n"
    assert parse(print_module(module)).constants[0].data == [1, 0.1, -math.inf]


@settings(deadline=None)
@given(st.floats())
def test_floats_are_exact(x: float) -> None:
    text = HEADER + f"  %x = constant {{value = {x!r}}} : f64\n  ret\n}}\n"
    got = next(op for op in parse(text).kernels[0].ops() if op.name == "constant")
    value = got.attributes["value"]
    assert (math.isnan(x) and math.isnan(value)) or (
        value == x and math.copysign(1, value) == math.copysign(1, x))


@given(st.text())
def test_strings_are_exact(message: str) -> None:
    block = Block("entry")
    c = Value(I1, "c")
    Builder(block).emit("assert", c, message=message)
    Builder(block).emit("ret")
    text = print_kernel(Kernel("k", [c], [ParameterInfo()], [block]))
    assert parse(text).kernels[0].entry.ops[0].attributes == {"message": message}


# Errors

@pytest.mark.parametrize("line, name, message", [
    ("%x = frobnicate %i : i32", "ir-unknown-name", "no operation is called 'frobnicate'"),
    ("%x = add %i, %nobody : i32", "ir-unknown-name", "no value is called %nobody"),
    ("br nowhere", "ir-unknown-name", "no block is called nowhere"),
    ("%i = add %i, %i : i32", "ir-redefinition", "%i is defined twice"),
    ("entry:", "ir-redefinition", "block 'entry' is defined twice"),
    ("%x = add %i : i32", "ir-syntax", "'add' takes 2 operands, found 1"),
    ("%x = add %i, %i", "ir-syntax", "1 results and 0 result types"),
    ("store %p, %f : i32", "ir-syntax", "0 results and 1 result types"),
    ("%x = get_program_id : i32", "ir-syntax", "'get_program_id' needs the attribute 'axis'"),
    ("ret {axis = 1}", "ir-syntax", "'ret' has no attribute 'axis'"),
    ("%x = undef : i33", "ir-syntax", "no type is called 'i33'"),
    ("%x = undef : f32<0>", "ir-syntax", "expected an integer from 1 on, found 0"),
    ("%x = undef : f32<4; #l7>", "ir-unknown-name", "no Layout is called #l7"),
    ("%x = undef : f32<4", "ir-syntax", "'>', found 'ret'"),
    ("%x = undef : f32<4; #l0", "ir-syntax", "expected '>', found 'ret'"),
    ("%x = undef : buffer<2 f32<4>>", "ir-syntax", "expected 'x' in buffer<2 x f32<8>>, found"),
    ("%x = constant {value = #l9} : i32", "ir-unknown-name", "no layout is called #l9"),
    ("store %p %f", "ir-syntax", "expected ',', ':' or the end of the line, found '%f'"),
    ("%x add %i, %i", "ir-syntax", "expected ',' or '=', found 'add'"),
    ("%x = constant {value = } : i32", "ir-syntax", "expected an attribute's value, found '}'"),
    ("%x = constant {value = 1, value = 2} : i32", "ir-syntax", "'value' is given twice"),
    ("@c ret", "ir-syntax", "found '@c'"),
    ("ret ret", "ir-unknown-name", "no block is called ret"),
    ("memory_barrier )", "ir-syntax", "expected the end of the line, found ')'"),
    ("$", "ir-syntax", "'$' begins nothing"),
    ('assert %c {message = "\\x"}', "ir-syntax", "escape"),
    (f"%x = constant {{value = {'[' * 99}1{']' * 99}}} : i32", "ir-syntax", "nested too deeply"),
    ("%x = constant {value = 99999999999999999999999999999999999999999} : i64", "ir-syntax",
     "more than 40 digits"),
])
def test_errors_of_a_line(line: str, name: str, message: str) -> None:
    found = errors(f"{HEADER}  {line}\n  ret\n}}\n")
    assert len(found) == 1, found
    assert found[0][0] == name and message in found[0][2], found
    assert found[0][1] - HEADER.count("\n") in (1, 2)


@pytest.mark.parametrize("text, message", [
    ("kernel relu() {}", "expected the kernel's @name"),
    ("kernel @k(i32) {\na:\n  ret\n}", "expected the parameter's %name"),
    ("kernel @k(i32 %x, i32 %x) {\na:\n  ret\n}", "%x is defined twice"),
    ("kernel @k(i32 %x {size = 4}) {\na:\n  ret\n}", "no attribute 'size'"),
    ("kernel @k(i32 %x {multiple_of = 0}) {\na:\n  ret\n}", "no attribute 'multiple_of' of 0"),
    ("kernel @k() {tile = 4} {\na:\n  ret\n}", "'tile' needs integers"),
    *((f"kernel @k() {{{what}}} {{\na:\n  ret\n}}", f"'{what.split()[0]}' of a kernel cannot be")
      for what in ('num_warps = 3', 'num_warps = "a"', 'programs = 3', 'cluster = 99')),
    ("kernel @k() {\n}", "kernel 'k' has no block"),
    ("kernel @k() {\n  ret\n}", "expected a block's label"),
    ("kernel @k() {\na:\n  ret\n", "expected '}' at the end of kernel 'k', found the end"),
    ("kernel @k() {\na:\n  ret\nkernel @l() {\na:\n  ret\n}", "end of kernel 'k'"),
    ("kernel @k() {tile = [1] {\na:\n ret\n}", "expected ',' or '}', found '{'"),
    ("kernel @k() {\na:\n ret\n}}", "expected a kernel, a constant or a layout, found '}'"),
    ("constant @t : f32[2] = [1, 2, 3]", "at most 2 numbers"),
    ("constant @t : f32[2] = [a]", "at most 2 numbers"),
    ("constant @t : i8[2] = [1.5]", "at most 2 numbers of i8"),
    ("constant @t : f64[8193]", "a table of more than 65536 bytes"),
    ("constant @t : f32[2]\nconstant @t : i8[1]", "'t' is defined twice"),
    ("#l0 = #layout<shape=[3], register=[], lane=[], warp=[]>", "#l0 is not a layout"),
    ("whatever", "expected a kernel, a constant or a layout"),
])
def test_errors_of_a_file(text: str, message: str) -> None:
    found = errors(text)
    assert len(found) == 1 and message in found[0][2], found


def test_a_line_after_an_incomplete_one_is_read() -> None:
    found = errors(f"{HEADER}  %x = undef : f32<4\n  %y = nothing : i32\n  ret\n}}\n")
    assert [message for _, _, message in found] == [
        "expected ',', ';' or '>', found '%y'", "no operation is called 'nothing'"]


def test_several_errors_in_one_run() -> None:
    text = (f"{HEADER}  %x = nothing : i32\n  %y = add %x : i32\n  store %p, %y\n  ret\n}}\n"
            "kernel @l() {\na:\n  br b\n}\nconstant @c : i7[1]\n")
    line = HEADER.count("\n")
    assert [(name, at - line) for name, at, _ in errors(text)] == [
        ("ir-unknown-name", 1), ("ir-syntax", 2), ("ir-unknown-name", 8), ("ir-syntax", 10)]


PIECES = re.findall(r"[%@#]?[\w.]+|\s+|.", "".join(map(kernel_text, SAMPLES)))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_no_text_makes_the_parser_or_the_verifier_fail(data: st.DataObject) -> None:
    """A sample with some pieces replaced by others: read, or refused with located errors."""
    name = data.draw(st.sampled_from(sorted(SAMPLES)))
    pieces = re.findall(r"[%@#]?[\w.]+|\s+|.", kernel_text(name))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(pieces) - 1))
        other = data.draw(st.sampled_from(PIECES) | st.text(max_size=3))
        pieces[at] = other if data.draw(st.booleans()) else pieces[at] + other
    text = "".join(pieces)
    diagnostics = Diagnostics()
    try:
        module = parse_module(SourceFile("k.tir", text), diagnostics)
        check(module, diagnostics)
    except CompileError as error:
        assert all(d.span is not None for d in error.diagnostics)
        return
    printed = print_module(module)
    again = parse_module(SourceFile("k.tir", printed), Diagnostics())
    assert print_module(again) == printed
