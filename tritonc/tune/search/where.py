"""What a user wants tried: `tritonc tune --where "TM * TN <= 8192 and num_warps == 4"`.

The condition is an expression as those of problems are.  A meta-parameter that a candidate leaves
to its pass has no value before the compilation: a candidate of which the condition asks it is left
out.  `wgmma == 0 or num_stages > 2` does not ask for the stages of candidates without wgmma."""

import ast
from collections.abc import Collection, Mapping
from functools import cache

import numpy as np

from tritonc.problem.evaluate import evaluate, parse_expression
from tritonc.problem.safe_numpy import describe
from tritonc.source import CompileError, SourceFile, Span, fail
from tritonc.spelling import hint

_MODULE = "np"


class _LeftToPass(CompileError):
    """The condition asks for what this candidate does not say."""


class _Values(dict[str, int]):
    """The values of a candidate; others that a condition may name are left to their passes."""

    def __contains__(self, name: object) -> bool:
        return name != _MODULE

    def __missing__(self, name: str) -> int:
        raise _LeftToPass([])


class Where:
    """A condition over the parameters of a search."""

    def __init__(self, text: str, known: Collection[str]) -> None:
        """Raises CompileError where the text is no expression, or names what is not `known`."""
        self.span = Span(SourceFile("--where", text), 0, len(text))
        self.expression = parse_expression(text, self.span)
        self.asked = []
        for node in ast.walk(self.expression.node):
            if isinstance(node, ast.Name) and node.id != _MODULE:
                if node.id not in known:
                    advice = hint(node.id, sorted(known), "there are " + ", ".join(sorted(known)))
                    raise fail("problem-expression", self.expression.span_of(node),
                               f"'{node.id}' is no parameter of this search; {advice}")
                self.asked.append(node.id)
        self._of = cache(self._evaluated)

    def __call__(self, candidate: Mapping[str, int]) -> bool:
        """Whether it holds.  Raises CompileError where it has no value, or no truth value."""
        return self._of(tuple((name, candidate[name]) for name in self.asked if name in candidate))

    def _evaluated(self, values: tuple[tuple[str, int], ...]) -> bool:
        try:
            found = evaluate(self.expression, _Values(values))
        except _LeftToPass:
            return False
        if not isinstance(found, bool | np.bool_):
            raise fail("problem-expression", self.span,
                       f"a condition is true or false, and not {describe(found)}")
        return bool(found)

    def none(self) -> CompileError:
        """The error if it holds for no candidate."""
        return fail("problem-expression", self.span, "no candidate satisfies this condition")
