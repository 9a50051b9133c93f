"""The expressions of a problem: a small language with Python's syntax and NumPy's values.

A source states its own data and reference in comment lines, so whoever compiles a stranger's file
evaluates a stranger's expressions.  They are therefore not given to Python: `ast` parses them, and
the evaluator below knows literals, names, operators, calls, indexing and a fixed set of attributes,
and nothing else.  There is no name with a leading underscore, no function that touches a file or
NumPy's global state, no object array, and no way to make a number or array of absurd size.

    expression  literals, tuples, lists, names, + - * / // % ** @ << >> & | ^ ~, comparisons,
                and or not, x if c else y, calls, attributes, indexing with slices, None and ...
    names       what the problem defines; np; randn rand randint zeros ones empty full arange
"""

import ast
import operator
import re
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from keyword import kwlist
from typing import Any

import numpy as np

from tritonc.problem import safe_numpy
from tritonc.problem.bounds import Refused
from tritonc.problem.safe_numpy import describe
from tritonc.records import NamedTuple
from tritonc.source import CompileError, Span, fail
from tritonc.spelling import hint

MAX_TEXT = 4000  # characters of an expression
MAX_DEPTH = 100  # levels of its tree

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow, ast.MatMult: operator.matmul, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
    ast.BitXor: operator.xor}  # fmt: skip
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos, ast.USub: operator.neg, ast.Invert: operator.invert,
    ast.Not: operator.not_}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge}  # fmt: skip


# Strings, and words of Python that are none of an expression's and may be names in C.
_WORDS = re.compile("'[^']*'|\"[^\"]*\"|\\b(" + "|".join(sorted(
    set(kwlist) - set("and or not if else None True False as".split()))) + ")\\b")


class Expression(NamedTuple):
    """A parsed expression and where it stands: `span` covers `text`."""

    text: str
    span: Span
    node: ast.expr
    origin: int = 0  # characters of the parsed string that come before `text`

    def span_of(self, node: ast.AST) -> Span:
        """Where a node of the tree stands in the source."""
        start = getattr(node, "col_offset", 0) - self.origin
        end = (getattr(node, "end_col_offset", None) or 0) - self.origin
        if not self.text.isascii() or not 0 <= start < end <= len(self.text):
            return self.span
        return Span(self.span.file, self.span.start + start, self.span.start + end)


def parse_arguments(text: str, span: Span) -> tuple[list[Expression], list[tuple[str, Expression]]]:
    """What could stand between the parentheses of a call: `a, b, name = c`.

    Returns the plain expressions and the named ones.  Raises CompileError."""
    if len(text) > MAX_TEXT:
        raise fail("problem-syntax", span, f"this line has more than {MAX_TEXT} characters")
    try:
        # A caught warning is one that Python's parser gives for, say, `1 is 2`.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = _parsed(f"f({text}\n)")
    except SyntaxError as error:
        at = span
        if error.lineno == 1 and error.offset and 2 < error.offset <= len(text) + 2:
            at = Span(span.file, span.start + error.offset - 3, span.end)
        raise fail("problem-syntax", at, f"not an expression: {error.msg}") from None
    except (RecursionError, MemoryError, ValueError):
        raise fail("problem-syntax", span, "this expression cannot be read") from None
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
        raise fail("problem-syntax", span, "not an expression: unbalanced parentheses")

    def make(node: ast.expr) -> Expression:
        return Expression(text, span, node, 2)

    named = []
    for keyword in tree.keywords:
        if keyword.arg is None:
            raise fail("problem-syntax", span, "** has no meaning here")
        named.append((keyword.arg, make(keyword.value)))
    return [make(node) for node in tree.args], named


def _parsed(call: str) -> ast.expr:
    """As Python parses it; if it cannot, words such as `in`, which are names in C, are names.

    >>> ast.unparse(_parsed("f(in.sum() + np.einsum('in->n', lambda))"))
    "f(in.sum() + np.einsum('in->n', lambda))"
    """
    try:
        return ast.parse(call, mode="eval").body
    except SyntaxError:
        names: dict[str, str] = {}  # by stand-ins of the same length, which no expression has

        def stand_in(match: re.Match[str]) -> str:
            word = match[1]
            if word is None:
                return match[0]
            names[other := f"_{word[1:]}"] = word
            return other

        with suppress(SyntaxError):
            tree = ast.parse(_WORDS.sub(stand_in, call), mode="eval").body
            for node in ast.walk(tree):
                if isinstance(node, ast.Name):
                    node.id = names.get(node.id, node.id)
            return tree
        raise


def parse_expression(text: str, span: Span) -> Expression:
    """One expression.  Raises CompileError."""
    plain, named = parse_arguments(text, span)
    if named or len(plain) != 1 or isinstance(plain[0].node, ast.Starred):
        raise fail("problem-syntax", span, "one expression is expected here")
    return plain[0]


def evaluate(expression: Expression, names: Mapping[str, Any]) -> Any:
    """The value of an expression: a Python number, a NumPy value, a tuple or a list.

    Raises CompileError at the part that has no value: an unknown name, a refused function, an
    operation that NumPy rejects, a size beyond the limits."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return _Evaluator(expression, names).value(expression.node)


def integer(expression: Expression, names: Mapping[str, Any], what: str) -> int:
    """The value as a Python integer.  Raises CompileError if it is none."""
    value = evaluate(expression, names)
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        divided = "; '//' divides integers" if isinstance(value, float) and any(
            isinstance(node, ast.Div) for node in ast.walk(expression.node)) else ""
        raise fail("problem-expression", expression.span,
                   f"{what} must be an integer, not {describe(value)}{divided}")
    return int(value)


def generators(seed: int, line: int) -> dict[str, Callable[..., Any]]:
    """The functions that an expression has by name.  Random ones draw float64 (int64) from a
    stream of their own for each (seed, line), so that one line's data do not move another's."""
    stream = np.random.Generator(np.random.PCG64([seed, line]))

    def randn(*shape: int) -> Any:
        return stream.standard_normal(_shape(shape))

    def rand(*shape: int) -> Any:
        return stream.random(_shape(shape))

    def randint(low: int, high: int, *shape: int) -> Any:
        return stream.integers(low, high, _shape(shape), dtype=np.int64)

    def zeros(*shape: int) -> Any:
        return np.zeros(_shape(shape))

    def ones(*shape: int) -> Any:
        return np.ones(_shape(shape))

    def empty(*shape: int) -> Any:
        # Any numbers that all types hold: an element that a kernel forgets is wrong.
        return stream.integers(1, 50, _shape(shape), dtype=np.int64)

    def full(*shape_and_value: Any) -> Any:
        *shape, value = shape_and_value
        return np.full(_shape(tuple(shape)), value)

    return {"randn": randn, "rand": rand, "randint": randint, "zeros": zeros, "ones": ones,
            "empty": empty, "full": full, "arange": np.arange}


def _shape(shape: tuple[Any, ...]) -> tuple[int, ...]:
    """`zeros(2, 3)` and `zeros((2, 3))` both."""
    if len(shape) == 1 and isinstance(shape[0], tuple | list):
        shape = tuple(shape[0])
    extents = tuple(operator.index(extent) for extent in shape)
    if any(extent < 0 for extent in extents):
        raise ValueError(f"a shape has no negative extent: {extents}")
    return extents


class _Evaluator:
    def __init__(self, expression: Expression, names: Mapping[str, Any]) -> None:
        self.expression = expression
        self.names = names
        self.depth = 0

    def value(self, node: ast.AST) -> Any:
        """The node's value, checked against the limits."""
        method = getattr(self, "_" + type(node).__name__, None)
        if method is None:
            raise self.error(node, f"{_construct(node)} is not part of a problem's expressions")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(node, f"this expression is nested more than {MAX_DEPTH} levels deep")
        try:
            result = method(node)
            safe_numpy.check_value(result)
            return result
        except CompileError:
            raise
        except Refused as refused:
            raise self.error(node, str(refused)) from None
        except MemoryError:
            raise self.error(node, "there is not enough memory for this value") from None
        except Exception as error:
            # NumPy may raise nearly anything on wrong operands; all of it is the input's fault.
            text = str(error).strip().splitlines() or [type(error).__name__]
            raise self.error(node, text[0]) from None
        finally:
            self.depth -= 1

    def error(self, node: ast.AST, message: str) -> CompileError:
        return fail("problem-expression", self.expression.span_of(node), message)

    def _Constant(self, node: ast.Constant) -> Any:
        if isinstance(node.value, bytes):
            raise Refused("a literal is a number, a string, True, False or None")
        return node.value

    def _Name(self, node: ast.Name) -> Any:
        if node.id.startswith("_"):
            raise Refused("names with a leading underscore do not exist here")
        if node.id in self.names:
            return self.names[node.id]
        if node.id == "np":
            raise Refused("np is a module; name a function of it")
        if node.id in ("int", "float", "bool"):  # for astype
            return {"int": np.int64, "float": np.float64, "bool": np.bool_}[node.id]
        with suppress(Refused):
            safe_numpy.member([node.id])
            raise self.error(node, f"'{node.id}' is not defined here; did you mean "
                             f"'np.{node.id}'?")
        known = sorted([*self.names, "np"])
        raise Refused(f"'{node.id}' is not defined here; "
                      f"{hint(node.id, known, 'known are ' + ', '.join(known))}")

    def _Tuple(self, node: ast.Tuple) -> Any:
        return tuple(self._List(node))

    def _List(self, node: ast.Tuple | ast.List) -> Any:
        return [self.value(entry) for entry in node.elts]

    def _BinOp(self, node: ast.BinOp) -> Any:
        left, right = self.value(node.left), self.value(node.right)
        function = _BINARY[type(node.op)]
        safe_numpy.check_operands(node.op, left, right)
        return function(left, right)

    def _UnaryOp(self, node: ast.UnaryOp) -> Any:
        operand = self.value(node.operand)
        safe_numpy.check_number(operand)
        return _UNARY[type(node.op)](operand)

    def _BoolOp(self, node: ast.BoolOp) -> Any:
        stop_at = isinstance(node.op, ast.Or)
        result: Any = None
        for entry in node.values:
            result = self.value(entry)
            if _truth(result) == stop_at:
                break
        return result

    def _Compare(self, node: ast.Compare) -> Any:
        left, result = self.value(node.left), True
        for comparison, entry in zip(node.ops, node.comparators, strict=True):
            if type(comparison) not in _COMPARE:
                raise Refused("only == != < <= > >= compare here")
            right = self.value(entry)
            if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
                safe_numpy.check_operands(ast.Add(), left, right)
            result = _COMPARE[type(comparison)](left, right)
            if len(node.ops) > 1 and not _truth(result):
                return result
            left = right
        return result

    def _IfExp(self, node: ast.IfExp) -> Any:
        return self.value(node.body if _truth(self.value(node.test)) else node.orelse)

    def _Subscript(self, node: ast.Subscript) -> Any:
        base = self.value(node.value)
        if not isinstance(base, np.ndarray | tuple | list):
            raise Refused(f"{describe(base)} cannot be indexed")
        return base[self.value(node.slice)]

    def _Slice(self, node: ast.Slice) -> Any:
        parts = (node.lower, node.upper, node.step)
        return slice(*(None if part is None else self.value(part) for part in parts))

    def _Attribute(self, node: ast.Attribute) -> Any:
        path = safe_numpy.path_of(node)
        if path is not None and path[0] == "np" and "np" not in self.names:
            return safe_numpy.member(path[1:])
        return safe_numpy.attribute(self.value(node.value), node.attr)

    def _Call(self, node: ast.Call) -> Any:
        function = self.value(node.func)
        if not callable(function) or isinstance(function, np.ndarray | np.generic):
            raise Refused(f"{describe(function)} is not a function")
        if any(isinstance(entry, ast.Starred) for entry in node.args):
            raise Refused("* has no meaning in a call here")
        arguments = [self.value(entry) for entry in node.args]
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None or keyword.arg.startswith("_"):
                raise Refused("** has no meaning in a call here")
            keywords[keyword.arg] = self.value(keyword.value)
        safe_numpy.check_call(function, arguments, keywords)
        return function(*arguments, **keywords)


def _construct(node: ast.AST) -> str:
    return {"Lambda": "a lambda", "NamedExpr": "an assignment", "JoinedStr": "an f-string",
            "ListComp": "a comprehension", "SetComp": "a comprehension", "Starred": "*",
            "DictComp": "a comprehension", "GeneratorExp": "a comprehension", "Dict": "a dict",
            "Set": "a set"}.get(type(node).__name__, type(node).__name__)  # fmt: skip


def _truth(value: Any) -> bool:
    if isinstance(value, np.ndarray) and value.size != 1:
        raise Refused("an array of several elements is neither true nor false; use & | ~ "
                       "or .any() or .all()")
    return bool(value)
