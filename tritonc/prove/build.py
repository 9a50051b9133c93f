"""The model of a problem for one of its compilations: made of its lines, arguments and arrays."""

from __future__ import annotations

import ast
from functools import reduce
from operator import mul

from tritonc.analysis.linear import Linear, number, symbol
from tritonc.ir.core import Kernel
from tritonc.ir.types import Scalar, is_pointer
from tritonc.launch.data import element_of, macros
from tritonc.problem.lines import Problem
from tritonc.prove.model import (
    ELEMENTS,
    Array,
    Model,
    Numbers,
    Symbol,
    is_integer,
    promised,
    promises,
    sizes_of,
)
from tritonc.prove.shapes import Arrays


def build(problem: Problem, kernel: Kernel) -> Model:
    """The model of a problem for one of its compilations, whose tunables are numbers."""
    model = Model()
    fixed = {name: value for name, value in {**macros(problem), **kernel.tunables}.items()
             if isinstance(value, int)}
    sizes_of(problem, model, fixed, promises(problem, kernel))
    given = {named.name: named.expression.node for named in (*problem.arguments, *problem.lets)}

    def name(word: str) -> Linear | None:
        if word in model.sizes:
            return model.sizes[word]
        if word in given and word not in within:
            within.add(word)
            try:
                return numbers.of(given[word])
            finally:
                within.discard(word)
        return number(fixed[word]) if word in fixed else None

    within: set[str] = set()
    numbers = Numbers(model, name)
    arrays = Arrays(model, numbers, given)
    model.range = [numbers.of(expression.node) for expression in problem.range]
    for argument, value, info in zip(problem.arguments, kernel.parameters, kernel.info,
                                     strict=True):
        node = argument.expression.node
        if is_integer(value):
            found = numbers.of(node)
            model.numbers[value] = found if found is not None else symbol(
                Symbol(argument.name, inside=value))
            model.facts += promised(model, value, info)
        elif is_pointer(value.type):
            e, unsigned = element_of(argument, value.type, info)
            model.arrays[value] = _array(model, arrays, argument.name, node, e, unsigned)
    for pad in problem.pads:
        found = numbers.of(pad.expression.node)
        for array in model.arrays.values():
            if array.name == pad.name and found is not None and found.constant is not None:
                array.pad = max(found.constant, 0)
    return model


def _array(model: Model, arrays: Arrays, name: str, node: ast.AST, e: Scalar, unsigned: bool
           ) -> Array:
    array = Array(name, None, e.bytes)
    shape = arrays.shape(node)
    if shape is not None:
        array.count = reduce(mul, map(model.named, shape), number(1))
        model.facts += [extent for extent in shape if extent.constant is None]
        if not model.limited:
            model.facts.append(number(ELEMENTS) - array.count)
    bounds = arrays.bounds(node) if e.is_int and e.bits > 1 else None
    if bounds is not None:
        low, high = bounds
        half = 1 << (e.bits - 1)
        least, most = (0, 2 * half - 1) if unsigned else (-half, half - 1)
        if model.holds(low - number(least)) and model.holds(number(most) - high):
            array.low, array.high = low, high
    return array
