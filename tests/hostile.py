"""Hostile inputs: sources with too much of something."""

from __future__ import annotations

import random
from collections.abc import Callable

from damage import Input

Maker = Callable[[random.Random, int], str]


def _kernel(body: str, before: str = "") -> str:
    return f"{before}kernel void k(int* x, int n) {{ {body} }}\n"


SHAPES: dict[str, Maker] = {
    "parentheses": lambda rng, n: _kernel(f"*x = {'(' * n}1{')' * rng.choice((n, n, n - 1))};"),
    "blocks": lambda rng, n: _kernel("{" * n + "*x = 1;" + "}" * n),
    "ifs": lambda rng, n: _kernel("if (n) " * n + "*x = 1;"),
    "predicates": lambda rng, n: _kernel("int r[4] = 0 ... 4;" + "@(r < 2) " * n + "*(x + r) = 1;"),
    "unary": lambda rng, n: _kernel(f"*x = {rng.choice('-~!') * n}n;"),
    "sums": lambda rng, n: _kernel(f"*x = n{rng.choice('+*^') + 'n'} " + "+ n" * n + ";"),
    "choices": lambda rng, n: _kernel("*x = " + "n ? 1 : " * n + "2;"),
    "statements": lambda rng, n: _kernel("*x = *x + n;" * n),
    "variables": lambda rng, n: _kernel("".join(f"int v{i} = n;" for i in range(n))),
    "parameters": lambda rng, n: "kernel void k(" + ", ".join(
        f"int a{i}" for i in range(n)) + ") {}\n",
    "functions": lambda rng, n: "".join(
        f"int f{i}(int a) {{ return {f'f{i - 1}(a) + f{i - 1}(a)' if i else 'a'}; }}\n"
        for i in range(min(n, rng.choice((8, 20, 60))))) + _kernel("*x = f0(n);"),
    "tunables": lambda rng, n: "".join(
        f"const tunable int T{i} = {{1, 2, 4, 8}};\n" for i in range(min(n, 1000))) + _kernel(
            "*x = T0;"),
    "values": lambda rng, n: f"const tunable int T = {{{', '.join(map(str, range(1, n + 2)))}}};\n"
                             + _kernel("*x = T;"),
    "extents": lambda rng, n: _kernel(f"int t[{rng.choice((n, n * n, n ** 9))}] = 0;"),
    "axes": lambda rng, n: _kernel(f"int t[{', '.join(['1'] * n)}] = 0;"),
    "numbers": lambda rng, n: _kernel(f"*x = {rng.choice(('', '0x', '1e', '-1e-', '0b'))}"
                                      f"{rng.choice('19') * n};"),
    "names": lambda rng, n: _kernel(f"int {'a' * n} = 1; *x = {'a' * n};"),
    "strings": lambda rng, n: _kernel(f'assert(n, "{chr(rng.choice((97, 92, 233, 8238))) * n}");'),
    "macros": lambda rng, n: "#define A0 n\n" + "".join(
        f"#define A{i + 1} (A{i} + A{i})\n" for i in range(min(n, 64))) + _kernel(
            f"*x = A{min(n, rng.choice((6, 12, 30, 64)))};"),
    "conditions": lambda rng, n: "#if 1\n" * n + _kernel("*x = 1;") + "#endif\n" * n,
    "includes": lambda rng, n: rng.choice(('#include "input"\n', "#include <>\n", "#include \"\"\n",
                                           '#include "/dev/zero"\n')) * min(n, 50) + _kernel(""),
    "loops": lambda rng, n: _kernel("for (int i = 0; i < n; i++) " * n + "*x = 1;"),
    "unrolled": lambda rng, n: _kernel(f"static for (int i = 0; i < {n}; i++) *(x + i) = i;"),
    "ranges": lambda rng, n: f"//! range: {rng.choice((n, 10 ** min(n, 40), -n))}\n"
                             "//! arg: x = zeros(1)\n//! arg: n = 1\n//! expect: x = x\n"
                             + _kernel("*x = 1;"),
    "structs": lambda rng, n: "".join(
        f"struct s{i} {{ {f's{i - 1} a, b;' if i else 'int a;'} }};\n"
        for i in range(min(n, 40))) + _kernel("*x = 1;"),
}


def make(seed: int, number: int) -> Input:
    """Input `number`: one shape of text, of some size."""
    rng = random.Random(f"hostile {seed}:{number}")
    shape = [*SHAPES][number % len(SHAPES)]
    size = rng.choice((1, 10, 64, 100, 256, 1000, 3000, 20000))
    return Input(SHAPES[shape](rng, size).encode(), "tc")
