"""Random products for all targets, meta-parameters forced: the simulators against the reference.

`make(seed)` writes a product with a tile, layouts of its operands, masks, a loop and an epilogue at
random, chooses a target, half of the time sm_90a, and forces what the passes would choose: tensor
copies and stores, persistence, a producer warp, slices, clusters, stages, warps.  `check` runs its
problem as operations of the machine, with barriers and copies in flight, and as LLVM IR on
simulated threads.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from pathlib import Path

from simulator.machine import handlers

from tritonc import driver
from tritonc.backend.target.machine_ops import ALL_OPS
from tritonc.backend.target.target import TARGETS
from tritonc.launch.compare import differences
from tritonc.launch.data import prepare
from tritonc.launch.interpreter import launch
from tritonc.launch.run_problems import kernel_of, read_problems
from tritonc.options import Options
from tritonc.source import CompileError, Diagnostics, SourceFile

# What is forced, each with a probability of a half.
_FORCED: dict[str, tuple[int, ...]] = {
    "num_warps": (4, 8), "num_stages": (1, 2, 3, 4), "group": (1, 2, 16), "wgmma": (0, 1),
    "slices": (1, 2, 4), "tma_load": (0, 1), "tma_store": (0, 1), "persistent": (0, 1),
    "continued": (0, 1), "producer": (0, 1), "cluster_k": (1, 1, 1, 2, 4),
    "min_blocks": (0, 1, 2), "pingpong": (1, 2),
}  # fmt: skip
_LIMITS = ("too much", "too many", "does not fit", "more shared memory",
           "bytes of shared memory", "cannot be compiled", "limit")


@dataclass(frozen=True)
class Product:
    """A program, and what is forced."""

    text: str
    forced: tuple[tuple[str, int], ...]
    target: str

    def __str__(self) -> str:
        forced = "".join(f" {n}={v}" for n, v in self.forced)
        return f"// {self.target}{forced}\n{self.text}"

    @staticmethod
    def read(text: str) -> Product:
        first, _, rest = text.partition("\n")
        target, *words = first.removeprefix("// ").split()
        forced = tuple((n, int(v)) for n, _, v in (w.partition("=") for w in words))
        return Product(rest, forced, target)


def make(seed: int) -> Product:
    rng = random.Random(f"product {seed}")
    tm, tn = rng.choice((64, 64, 128)), rng.choice((16, 32, 64, 96, 128, 144, 160, 192))
    if rng.random() < 0.1:
        tm, tn = rng.choice((144, 160, 192, 224)), 128
    tk = rng.choice((16, 32, 64))
    kind = rng.choice(("half", "half", "bfloat16", "float8_e4m3"))
    out = rng.choice((kind, "float")) if kind != "float8_e4m3" else "bfloat16"
    step = rng.choice((1, 2, 8, 16, 16))
    m, n, k = (rng.randrange(1, 3 * t) for t in (tm, tn, 2 * tk))
    m, n, k = (max(step, v // step * step) for v in (m, n, k))
    turned_a, turned_b = rng.random() < 0.3, rng.random() < 0.4
    whole = rng.random() < 0.2
    if whole:
        k = max(tk, k // tk * tk)
    a = "rk[newaxis, :] * M + rm[:, newaxis]" if turned_a else "rm[:, newaxis] * K + rk"
    b = "rk[:, newaxis] + rn * K" if turned_b else "rk[:, newaxis] * N + rn"
    inner = "" if whole else " && rk < K"
    inner_b = "" if whole else "(rk < K)[:, newaxis] && "
    end, expected = _epilogue(rng)
    loop = rng.choice(("for (int k = 0; k < K; k += TK) {", "int k = 0; while (k < K) {",
                       "for (int j = K; j > 0; j -= TK) { int k = K - j;"))
    last = "k += TK; }" if "while" in loop else "}"
    text = f"""\
//! size: M = {m}, N = {n}, K = {k}
//! range: M, N
//! arg: a = randn({'K, M' if turned_a else 'M, K'})
//! arg: b = randn({'N, K' if turned_b else 'K, N'})
//! arg: bias = randn(N)
//! arg: more = randn(M, N)
//! arg: c = zeros(M, N)
//! arg: M = M
//! arg: N = N
//! arg: K = K
//! let: s = {'a.T' if turned_a else 'a'} @ {'b.T' if turned_b else 'b'}
//! expect: c = {expected}
//! tolerance: 0.05
#define TM {tm}
#define TN {tn}
#define TK {tk}
kernel void product(const {kind}* a, const {kind}* b, const float* bias, const half* more,
                    {out}* c, int M, int N, int K) {{
  int rm[TM] = get_global_range(0);
  int rn[TN] = get_global_range(1);
  float acc[TM, TN] = 0;
  {loop}
    int rk[TK] = k + 0 ... TK;
    {kind} ta[TM, TK] = (rm < M)[:, newaxis]{inner} ? *(a + {a}) : 0;
    {kind} tb[TK, TN] = {inner_b}(rn < N)[newaxis, :] ? *(b + {b}) : 0;
    acc = dot(ta, tb, acc);
  {last}
  {end}
  @((rm < M)[:, newaxis] && rn < N) *(c + rm[:, newaxis] * N + rn) = acc;
}}
"""
    forced = tuple((name, rng.choice(values)) for name, values in _FORCED.items()
                   if rng.random() < 0.5)
    if rng.random() < 0.3:  # all roles of a persistent block
        forced = (("wgmma", 1), ("tma_load", 1), ("producer", 1), ("persistent", 1),
                  ("num_stages", rng.choice((2, 3, 4))), ("pingpong", rng.choice((1, 2))))
    return Product(text, forced, rng.choice(("sm_90a", rng.choice([*TARGETS]))))


def patch(seed: int) -> Product:
    """A product whose rows, or whose inner axis, are several axes of what is loaded and stored."""
    rng = random.Random(f"patch {seed}")
    th, tw, tn = rng.choice((1, 2, 4, 8)), rng.choice((8, 16, 32)), rng.choice((16, 32, 64, 128))
    ts, tc = rng.choice(((1, 16), (1, 32), (1, 64), (2, 16), (4, 8), (2, 32), (3, 16)))
    step = rng.choice((1, 2, 8, 16))
    h, w = rng.randrange(1, 3 * th + 1), rng.randrange(1, 3 * tw)
    n, c = (max(step, rng.randrange(1, 3 * t) // step * step) for t in (tn, tc))
    clamped, turned = rng.random() < 0.4, rng.random() < 0.3
    r, q = rng.randrange(-1, 2), rng.randrange(-1, 2)
    rows, columns = ("clamp(i + dr, 0, H - 1)", "clamp(j + dq, 0, W - 1)") if clamped else (
        "i + dr", "j + dq")
    inside = "(i < H)[:, newaxis] && j < W" if clamped else rng.choice((
        "(y >= 0 && y < H)[:, newaxis] && x >= 0 && x < W",
        "(i < H && y >= 0 && y < H)[:, newaxis] && (j < W && x >= 0 && x < W)"))
    add = rng.choice(("", "", " + p[to[:, :, newaxis] * N + n]"))
    stored = rng.random() < 0.7
    shaped = "reshape(acc, TH, TW, TN)" if stored else "acc"
    place = "to[:, :, newaxis] * N + n" if stored else "reshape(to, TH * TW, 1) * N + n"
    there = "(i < H)[:, newaxis] && j < W"
    there = f"({there})[:, :, newaxis] && n < N" if stored else (
        f"reshape({there}, TH * TW, 1) && n < N")
    add = add if stored else ""
    weights = "n[:, newaxis] * (S * C) + sc" if turned else "sc[:, newaxis] * N + n"
    text = f"""\
//! size: H = {h}, W = {w}, N = {n}, C = {c}, S = {ts}
//! range: H, W, N
//! arg: a = randn(H, W, S, C)
//! arg: b = randn({'N, S * C' if turned else 'S * C, N'})
//! arg: p = randn(H, W, N)
//! arg: c = zeros(H, W, N)
//! arg: H = H
//! arg: W = W
//! arg: N = N
//! arg: C = C
//! let: i = np.arange(H) + {r}
//! let: j = np.arange(W) + {q}
//! let: t = a[np.clip(i, 0, H - 1)][:, np.clip(j, 0, W - 1)]
//! let: here = ((i >= 0) & (i < H))[:, None] & (j >= 0) & (j < W)
//! let: u = t if {clamped} else np.where(here[:, :, None, None], t, 0)
//! expect: c = u.reshape(H, W, S * C) @ {'b.T' if turned else 'b'}{' + p' if add else ''}
//! tolerance: 0.05
#define TH {th}
#define TW {tw}
#define TN {tn}
#define S {ts}
#define TC {tc}
kernel void product(const half* a, const half* b, const half* p, {rng.choice(('half', 'float'))}* c,
                    int H, int W, int N, int C) {{
  int i[TH] = get_global_range(0), j[TW] = get_global_range(1), n[TN] = get_global_range(2);
  int dr = {r}, dq = {q}, s[S] = 0 ... S;
  int y[TH] = {rows}, x[TW] = {columns};
  float acc[TH * TW, TN] = 0;
  for (int c0 = 0; c0 < C; c0 += TC) {{
    int k[TC] = c0 + 0 ... TC;
    bool in[TH, TW] = {inside};
    int at[TH, TW] = (y * W)[:, newaxis] + x;
    half ta[TH, TW, S, TC] = in[:, :, newaxis, newaxis] && k < C
        ? a[(at[:, :, newaxis] * S + s)[:, :, :, newaxis] * C + k] : 0;
    int sc[S * TC] = reshape(s[:, newaxis] * C + k, S * TC);
    bool tail[S * TC] = reshape(s[:, newaxis] * 0 + k < C, S * TC);
    {'half tb[TN, S * TC] = (n < N)[:, newaxis] && tail' if turned else
     'half tb[S * TC, TN] = tail[:, newaxis] && n < N'} ? b[{weights}] : 0;
    acc = dot(reshape(ta, TH * TW, S * TC), {'trans(tb)' if turned else 'tb'}, acc);
  }}
  int to[TH, TW] = (i * W)[:, newaxis] + j;
  @({there}) c[{place}] = {shaped}{add};
}}
"""
    forced = tuple((name, rng.choice(values)) for name, values in _FORCED.items()
                   if rng.random() < 0.3)
    return Product(text, forced, rng.choice(("sm_90a", rng.choice([*TARGETS]))))


def transposed(seed: int) -> Product:
    """A product over taps of which masks leave every n-th one, for rows of numbers in one, two or
    three digits."""
    rng = random.Random(f"transposed {seed}")
    tp, tn, tc = rng.choice((16, 32, 64)), rng.choice((16, 32, 64)), rng.choice((16, 32))
    n, c = rng.randrange(1, 2 * tn), rng.choice((8, 16, rng.randrange(1, 2 * tc)))
    digits = rng.choice((1, 2, 2))
    strides = [rng.choice((2, 2, 3, 4)) for _ in range(digits)]
    taps = [rng.randrange(1, 6) for _ in range(digits)]
    pads = [rng.randrange(-1, 3) for _ in range(digits)]
    h, w = rng.choice((2, 3, 4, 8)), rng.choice((2, 4, 8, 16))
    whole = rng.random() < 0.8
    high, wide = (s * v + (0 if whole else rng.randrange(3)) for s, v in zip(
        (strides * 2)[:2], (h, w), strict=True))
    b = rng.randrange(1, 4)
    if digits == 1:
        h = high = 1
    strides, taps, pads = ((v if digits == 2 else [None, *v]) for v in (strides, taps, pads))
    every = [v or 1 for v in strides]
    if rng.random() < 0.7:  # a whole number of tiles for each residue
        while b * high * wide % (every[0] * every[1] * tp) and (
                b * high * wide <= 1024):
            b += 1
    if rng.random() < 0.2:
        b += 1

    def test(x: str, s: int) -> str:
        return f"({x} & {s - 1}) == 0" if s & (s - 1) == 0 and rng.random() < 0.3 else (
            f"{x} % {s} == 0")

    known = random.Random(f"stride {seed}").random() < 0.4  # strides are parameters
    step = rng.choice((1, 1, 1, 2)) if 3 in every else 1
    loops, inside, at = [], [], []
    for name, digit, s, t, pad, extent in zip(
            "rq", ("i", "j"), strides, taps, pads, ("H", "W"), strict=True):
        if s is None:
            continue
        loops.append(rng.choice((
            f"for (int {name} = 0; {name} < {t}; {name} += {step})",
            f"for (int {name} = 0; {name} < R{name}; {name} += {step})",
            f"for (int {name} = {t - 1}; {name} >= 0; {name} -= {step})")
            if step == 1 else (f"for (int {name} = 0; {name} < {t}; {name} += {step})",)))
        x = f"({digit} + {pad} - {name})" if pad >= 0 else f"({digit} - {name} - {-pad})"
        by = f"S{name}" if known else str(s)
        tested = f"{x} % {by} == 0" if known else test(x, s)
        inside.append(f"{x} >= 0 && {tested} && {x} / {by} < {extent}")
        at.append(f"{x} / {by}")
    place = f"((m / (I * J)) * H + {at[0]}) * W + {at[1]}" if digits == 2 else (
        f"m / J * W + {at[0]}")
    numbers = "int i[TP] = m / J % I, j[TP] = m % J;" if digits == 2 else "int j[TP] = m % J;"
    flat = digits == 1 and rng.random() < 0.4  # one row: its place is the row's number
    if flat:
        b, numbers, place = 1, "int j[TP] = m;", at[0]
        wide = rng.choice((wide, every[1] * tp * rng.randrange(1, 4)))
        w = -(-wide // every[1])
    rq = [range(0, t, step) if s else [0] for s, t in zip(strides, taps, strict=True)]
    lines = ["//! let: y0 = np.zeros((B, I, J, N))"]
    for k, (r, q) in enumerate((r, q) for r in rq[0] for q in rq[1]):
        for name, size, extent, tap, pad, n in zip(
                "ij", "IJ", "HW", (r, q), pads, every, strict=True):
            at = f"{name}{k}"
            lines += [f"//! let: {at} = np.arange({size}) - {tap - (pad or 0)}",
                      f"//! let: to_{at} = np.clip({at} // {n}, 0, {extent} - 1)",
                      f"//! let: in_{at} = {at} == to_{at} * {n}"]
        lines += [f"//! let: in{k} = in_i{k}[:, None] & in_j{k}",
                  f"//! let: t{k} = np.where(in{k}[:, :, None], x[:, to_i{k}][:, :, to_j{k}], 0)",
                  f"//! let: y{k + 1} = y{k} + t{k} @ w[{r}, {q}]"]
        last = k + 1
    text = f"""\
//! size: B = {b}, H = {h}, W = {w}, I = {high}, J = {wide}, N = {n}, C = {c}
//! range: B * I * J, N
//! arg: x = randn(B, H, W, C)
//! arg: w = randn({taps[0] or 1}, {taps[1]}, C, N)
//! arg: y = zeros(B, I, J, N)
{chr(10).join(f'//! arg: {v} = {v}' for v in 'BHWIJNC')}
//! arg: Rr = {taps[0] or 1}
//! arg: Rq = {taps[1]}
//! arg: Sr = {every[0]}
//! arg: Sq = {every[1]}
{chr(10).join(lines)}
//! expect: y = y{last}
//! tolerance: 0.05
#define TP {tp}
#define TN {tn}
#define TC {tc}
kernel void product(const half* x, const half* w, float* y, int B, int H, int W, int I, int J,
                    int N, int C, int Rr, int Rq, int Sr, int Sq) {{
  int m[TP] = get_global_range(0), n[TN] = get_global_range(1);
  {numbers}
  float acc[TP, TN] = 0;
  {'int r = 0;' if digits == 1 else ''}
  {' '.join(loops)} {{
    bool in[TP] = m < B * I * J && {' && '.join(inside)};
    int at[TP] = {place};
    for (int c0 = 0; c0 < C; c0 += TC) {{
      int c[TC] = c0 + 0 ... TC;
      half a[TP, TC] = in[:, newaxis] && c < C ? x[at[:, newaxis] * C + c] : 0;
      half b[TC, TN] = (c < C)[:, newaxis] && n < N
          ? w[((r * {taps[1]} + q) * C + c)[:, newaxis] * N + n] : 0;
      acc = dot(a, b, acc);
    }}
  }}
  @((m < B * I * J)[:, newaxis] && n < N) y[m[:, newaxis] * N + n] = acc;
}}
"""
    forced = tuple((name, rng.choice(values)) for name, values in _FORCED.items()
                   if rng.random() < 0.2)
    return Product(text, forced, rng.choice(("sm_90a", rng.choice([*TARGETS]))))


def _epilogue(rng: random.Random) -> tuple[str, str]:
    return rng.choice((
        ("", "s"), ("", "s"), ("acc = max(acc, 0);", "np.maximum(s, 0)"),
        ("acc = acc * 0.5;", "s * 0.5"),
        ("acc = acc / (1 + exp(-acc));", "s / (1 + np.exp(-s))"),
        ("float add[TN] = rn < N ? *(bias + rn) : 0;\n  acc = acc + add[newaxis, :];", "s + bias"),
        ("float total[TM] = acc[:, max];\n  acc = acc - acc;\n  acc = acc + 1;",
         "np.ones((M, N))"),
        ("bool in[TM, TN] = (rm < M)[:, newaxis] && rn < N;\n"
         "  float r[TM, TN] = in ? *(more + rm[:, newaxis] * N + rn) : 0;\n  acc = acc + r;",
         "s + more"),
    ))


def check(product: Product, threads: bool) -> str:
    """How it was computed; raises AssertionError where a number differs, and what simulators do.

    `threads`: as LLVM IR too.
    """
    source = SourceFile("product.tc", product.text)
    options = Options(arch=product.target, warnings=("no-all",), verify_each=True,
                      tune=dict(product.forced))
    (problem,) = read_problems(source, options, "tc", Diagnostics())
    try:
        result = driver.compile(source, options, ("ll", "manifest"))
    except CompileError as error:
        if all(any(word in d.message for word in _LIMITS) for d in error.diagnostics):
            return "refused"
        raise
    assert result.module is not None
    data = prepare(problem, result.module, kernel_of(problem, result.module), {})
    wrong = differences(data, launch(result.module, data, ALL_OPS, handlers()))
    assert not wrong, f"as operations: {wrong}"
    names = {op.name for op in data.kernel.ops()}
    how = "wgmma" if any("wgmma" in name for name in names) else "mma" if "mma_dot" in names \
        else "fma"
    how += " roles" if "start_producer" in names else ""
    how += " TMA loads" if any("tma_load" in name for name in names) else ""
    if threads and data.kernel.attributes.get("cluster", 1) == 1:
        sys.path.insert(0, str(Path(__file__).parent / "unit"))
        from test_emit_sources import in_some_order

        wrong = differences(data, in_some_order(result.outputs["ll"], data))
        assert not wrong, f"on threads: {wrong}"
        how += ", threads"
    return how
