"""The safe evaluator: what it computes, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from tritonc.problem.evaluate import evaluate, generators, parse_expression
from tritonc.source import CompileError, SourceFile, Span


def value(text: str, **names: object) -> object:
    span = Span(SourceFile("p.tc", text), 0, len(text))
    return evaluate(parse_expression(text, span), {**generators(0, 0), **names})


def message(text: str, **names: object) -> str:
    with pytest.raises(CompileError) as caught:
        value(text, **names)
    (item,) = caught.value.diagnostics
    return f"{item.span}: {item.message}"


@pytest.mark.parametrize("text, expected", [
    ("1 + 2 * 3 ** 2 - 7 // 2 % 2", 18),
    ("(-7 // 2, 7 >> 1, 1 << 4, 6 & 3 | 8 ^ 1, ~5)", (-4, 3, 16, 11, -6)),
    ("1 if 2 < 3 <= 3 else 0", 1),
    ("not (1 > 2) and (0 or 5)", 5),
    ("0x10 + 0b11", 19),
    ("np.arange(6).reshape(2, 3).T[1, ::-1].sum()", 5),
    ("np.pad(np.ones((2, 2)), ((1, 1), (0, 0)), mode='constant').shape", (4, 2)),
    ("np.linalg.norm([3.0, 4.0])", 5.0),
    ("np.maximum(x, 0)[..., None].sum(axis=(0, 1))", 2.0),
    ("np.add.outer(x, x).shape", (3, 3)),
    ("np.maximum.accumulate([1, 3, 2])[2] + np.bitwise_or.reduce([1, 4])", 8),
    ("np.lib.stride_tricks.sliding_window_view(np.arange(4), 2)[1, 1]", 2),
    ("np.einsum('i,i->', x, x)", 6.0),
    ("np.einsum('...i,ij->...j', np.ones((2, 3)), np.eye(3)).shape", (2, 3)),
    ("np.abs(x).max() + np.max(x) + np.min(x) + np.round(0.4)", 1.0),
    ("np.linalg.matrix_power(np.eye(2), 10**6)[0, 0] + np.tensordot(x, x, 1)", 7.0),
    ("x.astype(np.float16).dtype.itemsize + np.finfo(np.float32).bits", 34),
    ("[1, 2] + [3]", [1, 2, 3]),
    ("zeros((2, 2)).shape + ones(3).shape", (2, 2, 3)),
    ("full(2, 7).sum() + arange(3).sum()", 17),
    ("np.where(x > 0, x, 0).max()", 1.0),
    ("np.abs(3 + 4j) + (2j * x).imag[1]", 1.0),
    ("np.repeat([100_000, 20_000, 9], 2)[3] + np.tile([2000, 3_000_000], 3).size", 20_006),
    ("np.outer([70_000, 2], [60_000]).shape + np.resize([90_000], 4).shape", (2, 1, 4)),
])  # fmt: skip
def test_values(text: str, expected: object) -> None:
    assert value(text, x=np.array([1.0, -2.0, 1.0])) == expected


@pytest.mark.parametrize("text", [
    "__import__('os')", "().__class__", "x.__class__", "np.__builtins__", "open('f')",
    "lambda: 0", "[i for i in x]", "(y := 1)", "{1: 2}", "{1}", "f'{x}'", "eval('1')",
    "np.load('f')", "np.fromfile('f')", "np.memmap('f')", "np.savetxt('f', x)", "x.tofile('f')",
    "x.dump('f')", "x.setflags(write=True)", "x.data", "x.ctypes", "x.base", "np.random.rand(2)",
    "np.lib.format", "np.lib.stride_tricks.as_strided(x, (9,), (8,))", "np.linalg",
    "np.frompyfunc(abs, 1, 1)", "np.vectorize(abs)", "np.seterr(all='raise')", "np.core", "np",
    "np.array([1], dtype=object)", "np.array([9], 'O')", "x.astype('object')", "np.object_",
    "np.dtype([('a', 'O')])", "np.prod([9, 9], None, 'O')", "np.sum.__self__",
    "9**9**9", "1 << 10**9", "(2**4000) * (2**4000)", "'a' * 3", "'%9999999d' % 1", "[0] * 9**9",
    "randn(10**6, 10**6)", "np.zeros((10**5, 10**5))", "np.arange(10**12)", "np.tile(x, 10**9)",
    "np.linspace(0, 1, 10**10)", "np.eye(10**6)", "np.full((10**9, 9), 1.0)",
    "np.einsum('i,j->ij', np.ones(10**6), np.ones(10**6))", "np.diag(np.ones(10**5))",
    "np.tensordot(np.ones(10**6), np.ones(10**6), 0)", "np.vander(np.ones(10**6), 10**6)",
    "np.fft.fft(x, n=10**11)", "np.bincount(np.array([10**12]))", "np.eye(3, 10**10)",
    "np.convolve(np.ones(2 * 10**6), np.ones(2 * 10**6))",
    "np.correlate(np.ones(10**6), np.ones(10**6), 'full')", "np.polyfit(x, x, 10**5)",
    "np.dot(np.ones((10**5, 1)), np.ones((1, 60000)))",
    "np.linalg.svd(np.ones((3000, 3000)))", "np.linalg.eigvals(np.ones((3000, 3000)))",
    "np.linalg.matrix_power(np.ones((2048, 2048)), 10**300)",
    "np.repeat(x, 10**10)", "x.repeat(10**9)", "np.pad(x, 10**10)", "np.resize(x, (10**6, 10**6))",
    "np.kron(np.ones(10**5), np.ones(10**5))", "np.outer(np.arange(10**6), np.arange(10**6))",
    "np.arange(10**6)[:, None] + np.arange(10**6)", "np.broadcast_to(x, (10**9, 9, 3))",
    "f(*x)", "np.maximum(**x)", "x in x", "x is x", "b'a'", "x if x else 1", "x < x < x",
    "zeros(-1)", "1 / 0", "x[7]", "x + np.zeros(4)", "len(x)", "x(1)", "x.nosuch", "'a'.upper",
    "np.pi.real", "np.sum(x).data",
])  # fmt: skip
def test_refusals(text: str) -> None:
    text = message(text, x=np.array([1.0, -2.0, 1.0]))
    assert text.startswith("p.tc:1:")


@pytest.mark.parametrize("text", ["1 +", "1)", "(1", "a = 1", "1, 2", "", "x\0", "'", "*x", "**x",
                                  "(" * 300, "-" * 3000 + "1", "1" + " + 1" * 3000])
def test_syntax_errors_are_located(text: str) -> None:
    with pytest.raises(CompileError) as caught:
        value(text)
    assert caught.value.diagnostics[0].span is not None


def test_errors_stand_at_the_part_that_is_wrong() -> None:
    unknown = message("1 + zeroes(3)")
    assert unknown == "p.tc:1:5: 'zeroes' is not defined here; did you mean 'zeros'?"
    assert message("1 + sum(3)") == "p.tc:1:5: 'sum' is not defined here; did you mean 'np.sum'?"
    assert message("3 * np.nosuch(1)") == "p.tc:1:5: np.nosuch is not available here"
    assert message("2 + (1 // 0)").startswith("p.tc:1:6: ")


def test_each_line_has_its_own_random_stream() -> None:
    first, again, other = generators(0, 3), generators(0, 3), generators(0, 4)
    a = first["randn"](5)
    assert (a == again["randn"](5)).all() and (a != other["randn"](5)).any()
    assert (generators(1, 3)["randn"](5) != a).any()
    b = first["randint"](-2, 3, 1000)
    assert b.min() == -2 and b.max() == 2 and b.dtype == np.int64


def test_arguments_cannot_be_written() -> None:
    x = np.ones(3)
    x.setflags(write=False)
    assert "read-only" in message("np.put(x, 0, 5)", x=x)
    assert "read-only" in message("np.add(x, 1, out=x)", x=x)
