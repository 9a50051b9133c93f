"""Each rule of the verifier, broken once: by a pass, and in a text that a user wrote."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ir_samples import HEADER, SAMPLES, kernel_text

from tritonc.ir import rules
from tritonc.ir.core import Block, Kernel, Module, Op, ParameterInfo, Value
from tritonc.ir.ops import OPS, OpInfo
from tritonc.ir.syntax.parse import parse_module
from tritonc.ir.types import F32, I1, I32, Tile
from tritonc.ir.verify import Known, VerifyError, check, verify
from tritonc.source import CompileError, Diagnostics, SourceFile


def parse(text: str) -> Module:
    return parse_module(SourceFile("k.tir", text), Diagnostics())


def complaint(line: str) -> tuple[str, str]:
    """The line and the message of the one error in a kernel with `line` in it."""
    module = parse(f"{HEADER}  {line}\n  ret\n}}\n")
    with pytest.raises(VerifyError):
        verify(module)
    with pytest.raises(CompileError) as caught:
        check(module, Diagnostics())
    assert len(caught.value.diagnostics) == 1, caught.value
    item = caught.value.diagnostics[0]
    assert item.name == "ir-invalid" and item.span is not None
    return item.span.file.text[item.span.start : item.span.end], item.message


@pytest.mark.parametrize("line, message", [
    ("%x = add %i, %f : i32", "expected operands of one type, found i32 and f32"),
    ("%x = add %f, %f : f32", "expected integers, found f32"),
    ("%x = fadd %i, %i : i32", "expected floats"),
    ("%x = add %i, %i : i64", "expected results of i32, found i64"),
    ("%x, %y = add %i, %i : i32", "expected results of i32, found i32, i32"),
    ("%x = cmpp %c : i1", "expected results of i1, i1, found i1"),
    ("%x = psi [%c, %f], [%tc, %f] : f32", "expected i1, found i1<4>"),
    ("%x = psi [%c, %f], [%c, %h] : f32", "operands of one type"),
    ("%x = psi : f32", "expected pairs of predicate and value"),
    ("%x = load %i : f32", "expected a pointer, found i32"),
    ("%x = load %tp : f32", "expected results of f32<4>, found f32"),
    ("store %tp, %ti", "expected f32<4>, found i32<4>"),
    ("@%c %x = add %i, %i : i32", "'add' carries no guard"),
    ("@%c store %tp, %tf", "expected a guard of i1<4>, found i1"),
    ("@%i %x = load %p : f32", "expected a guard of i1, found i32"),
    ("%x = icmp %i, %i {predicate = lt} : i1", "'predicate' of 'icmp' cannot be 'lt'"),
    ("%x = fcmp %f, %f {predicate = ult} : i1", "'predicate' of 'fcmp' cannot be 'ult'"),
    ("%x = get_program_id {axis = 3} : i32", "'axis' of 'get_program_id' cannot be 3"),
    ("%x = constant {value = 300} : i8", "'value' of 'constant' cannot be 300"),
    ("%x = constant {value = 1.5} : i8", "'value' of 'constant' cannot be 1.5"),
    ("%x = constant {value = text} : f32", "'value' of 'constant' cannot be 'text'"),
    ("%x = load %p {other = text} : f32", "'other' of 'load' cannot be 'text'"),
    ("%x = trans %m {permutation = [0, 0]} : f32<4, 4>", "does not permute the axes"),
    ("%x = trans %m {permutation = abc} : f32<4, 4>", "'permutation' of 'trans' cannot be 'abc'"),
    ("%x = reduce %m {kind = add, axes = [0]} : f32<4>", "no 'add' of f32<4, 4>"),
    ("%x = reduce %m {kind = [], axes = [0]} : f32<4>", "'kind' of 'reduce' cannot be ()"),
    ("%x = scan %m {kind = add, axis = 0} : f32<4, 4>", "no 'add' of f32<4, 4>"),
    ("%x = atomic_rmw %p, %f {kind = add} : f32", "no atomic 'add' of f32"),
    ("%x = atomic_rmw %p, %f {kind = nand} : f32", "no atomic operation 'nand'"),
    ("%x = assume_multiple %f {n = 4} : f32", "expected integers or pointers, found f32"),
    ("assume %f", "expected i1, found f32"),
    ("assert %ti {message = no}", "expected i1, found i32<4>"),
    ("printf %ti, %f, %m {format = no}", "expected tiles of one shape, found i32<4> and f32"),
    ("%x = range {start = 4, stop = 4} : i32<4>", "an empty range"),
    ("%x = undef : f32<4096, 4097>", "a tile has from 1 to 16777216 elements"),
    ("%x = constant_table {symbol = nothing} : f32 constant*", "no constant table has this name"),
    ("%x = constant_table {symbol = table} : f32*", "a table of f32 is not a f32*"),
    ("cond_br %c, entry, one\none:", "a branch to the entry"),
    ("br one, one\none:", "'br' to 2 blocks"),
    ("ret\n  %x = add %i, %i : i32", "a block ends in a terminator, its only one"),
    ("br one\none:\n  %x = add %i, %i : i32\n  %y = phi [%i, entry] : i32",
     "a phi comes after another operation"),
    ("br one\none:\n  %y = phi [%i, one] : i32", "the blocks before 'one' are entry"),
    ("br one\none:\n  %y = phi : i32", "the blocks before 'one' are entry"),
    ("br one\none:\n  %y = phi [%i, entry], [%i, entry] : i32", "the blocks before 'one'"),
    ("%x = add %y, %i : i32\n  %y = add %i, %i : i32", "%y may be used before it is defined"),
    ("%x = add %x, %i : i32", "%x may be used before it is defined"),
    ("cond_br %c, one, two\none:\n  %x = add %i, %i : i32\n  br two\ntwo:\n"
     "  %y = add %x, %i : i32", "%x may be used before it is defined"),
    ("cond_br %c, one, two\none:\n  %x = add %i, %i : i32\n  br two\ntwo:\n"
     "  %y = phi [%x, entry], [%i, one] : i32", "%x may be used before it is defined"),
])
def test_rules(line: str, message: str) -> None:
    text, found = complaint(line)
    assert message in found
    assert text and text in line


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_valid(name: str) -> None:
    verify(parse(kernel_text(name)))


def test_what_is_valid_although_it_looks_odd() -> None:
    verify(parse(f"""{HEADER}
  cond_br %c, loop, out
dead:
  %v = add %w, %i : i32
  %w = add %v, %i : i32
  br out
loop:
  %x = phi [%i, entry], [%y, loop] : i32
  %y = phi [%i, entry], [%x, loop] : i32
  cond_br %c, loop, out
out:
  %z = phi [%i, entry], [%x, loop], [%w, dead] : i32
  ret
}}
"""))


def damaged(damage: Callable[[Kernel], None]) -> str:
    """The message about a good kernel after `damage`."""
    module = parse("kernel @good(i32 %i) {\nentry:\n  %x = add %i, %i : i32\n  br next\nnext:\n"
                   "  %y = add %x, %i : i32\n  ret\n}\n")
    known: Known = {}  # what was right before must not hide what is wrong now
    verify(module, known=known)
    damage(module.kernels[0])
    with pytest.raises(VerifyError) as caught:
        verify(module, stage="licm", known=known)
    return str(caught.value)


def test_what_only_a_pass_can_break() -> None:
    def drop_terminator(kernel: Kernel) -> None:
        kernel.blocks[1].ops.pop()

    def empty(kernel: Kernel) -> None:
        kernel.blocks[1].ops.clear()

    def repeat(kernel: Kernel) -> None:
        kernel.blocks[1].ops.insert(0, kernel.blocks[0].ops[0])

    def stranger(kernel: Kernel) -> None:
        kernel.blocks[1].ops[0].operands[0] = Value(I32, "far")

    def steal(kernel: Kernel) -> None:
        kernel.blocks[1].ops[0].results = list(kernel.blocks[0].ops[0].results)

    def lost_block(kernel: Kernel) -> None:
        kernel.blocks[0].terminator.blocks = [Block("gone")]

    def unknown(kernel: Kernel) -> None:
        kernel.blocks[0].ops.insert(0, Op("mma", []))

    def no_blocks(kernel: Kernel) -> None:
        kernel.blocks = []

    def information(kernel: Kernel) -> None:
        kernel.info = []

    def tile_parameter(kernel: Kernel) -> None:
        kernel.parameters.append(Value(Tile(F32, (4,)), "t"))
        kernel.info.append(ParameterInfo())

    def tile_axis(kernel: Kernel) -> None:
        kernel.tile = {3: 16}

    def misplaced_blocks(kernel: Kernel) -> None:
        kernel.blocks[0].ops[0].blocks = [kernel.blocks[1]]

    def guard(kernel: Kernel) -> None:
        kernel.blocks[0].ops[0].guard = Value(I1, "g")

    def retype(kernel: Kernel) -> None:
        kernel.blocks[1].ops[0].result.type = F32

    def attribute(kernel: Kernel) -> None:
        kernel.blocks[0].ops[0].attributes["speed"] = 3

    for damage, message in (
            (drop_terminator, "a block ends in a terminator"), (empty, "it is empty"),
            (repeat, "is in two places"), (stranger, "%far: i32 is not of this kernel"),
            (steal, "a result belongs to another operation"),
            (lost_block, "a branch to a block of another kernel"),
            (unknown, "'mma' is not an operation of this stage"), (no_blocks, "there is no block"),
            (information, "one ParameterInfo per parameter"),
            (tile_parameter, "a parameter of type f32<4>"),
            (tile_axis, "up to three axes"),
            (misplaced_blocks, "only phis and terminators name blocks"),
            (guard, "carries no guard"), (retype, "expected results of i32, found f32"),
            (attribute, "no attribute 'speed'")):
        found = damaged(damage)
        assert message in found, found
        assert found.startswith("after licm: kernel 'good'")


def test_the_message_shows_block_and_operation() -> None:
    def damage(kernel: Kernel) -> None:
        kernel.blocks[1].ops[0].operands.pop()

    assert damaged(damage) == ("after licm: kernel 'good', block 'next': 'add' takes 2 operands, "
                               "found 1\n  %y = add %x : i32")


def test_a_rule_that_trusts_its_attributes_gives_no_traceback() -> None:
    def trusting(types: object, attributes: object, stated: object) -> rules.Types:
        return ((I32,), (F32,))[attributes["n"] + 1]  # type: ignore[index]

    table = OPS | {"odd": OpInfo("odd", (), trusting, "", None, ("n",))}
    for value in ("text", 7):
        text = f"kernel @k() {{\nentry:\n  %x = odd {{n = {value}}} : i32\n  ret\n}}\n"
        module = parse_module(SourceFile("k.tir", text), Diagnostics(), table)
        with pytest.raises(CompileError, match="its attributes do not fit"):
            check(module, Diagnostics(), table)
