"""Variants: what is compiled, and that C, C++ and Python choose the same of them."""

from __future__ import annotations

import json
import math
import random
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from command import tritonc
from host_tools import INCLUDE, build, need, run, stub
from variant_sources import FACTS, HALVES, PRODUCT, SIZES, STREAM, write, write_tuning

import tritonc as package
from tritonc import driver
from tritonc.launch.python.launcher import Launcher
from tritonc.manifest import read
from tritonc.options import MOST_VARIANTS
from tritonc.variants import choice

SIGNED = {"M": 32, "columns": 64, "depth": 64, "step": 32, "N": 32, "stride": 32}


@pytest.fixture(autouse=True)
def _in_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class At:
    """An array at an address, as torch's tensors tell it."""

    def __init__(self, address: int) -> None:
        self.address = address

    def data_ptr(self) -> int:
        return self.address


ROUNDS = Path(__file__).parents[1] / "bench/suite/linear_bf16.tc"


def words(rule: str) -> list[str]:
    """A source for a rule of the choice, in the current folder, and how to compile it."""
    text = {"rows": HALVES, "first": STREAM, "packed": STREAM}.get(rule, PRODUCT)
    path = write(Path(), f"{rule}.tc", ROUNDS.read_text() if rule == "rounds" else text)
    if rule == "nearest":
        write_tuning(path)
    more = [f"--variant={text}" for text in FACTS] if rule == "first" else {
        "few": ["--arch=sm_90a"], "rounds": ["--arch=sm_90a"], "packed": ["--tune=T=64"],
        "rows": ["--arch=sm_90a", "--variants=4"]}.get(rule, ["--variants"])
    return [str(path), *more]


_RESULTS: dict[str, driver.Result] = {}


@cache
def outputs(rule: str, *more: str) -> tuple[str, str]:
    """PTX and header of `words(rule)`.  How a header is written changes no compilation."""
    def compile(*given: Any, **named: Any) -> driver.Result:
        if rule not in _RESULTS or not more:
            _RESULTS[rule] = real(*given, **named)
        return _RESULTS[rule]

    real = driver.compile
    with patch.object(driver, "compile", compile):
        done = tritonc(*words(rule), "--header", f"{rule}.h", "-o", f"{rule}.ptx", *more)
    assert done.code == 0, done.err
    return Path(f"{rule}.ptx").read_text(), Path(f"{rule}.h").read_text()


def write_outputs(rule: str, *more: str) -> None:
    for kind, text in zip(("ptx", "h"), outputs(rule, *more), strict=True):
        Path(f"{rule}.{kind}").write_text(text)


def manifest_of(*arguments: str) -> dict[str, Any]:
    done = tritonc(*arguments, "--emit=manifest", "-o", "-")
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


# --- what is compiled ---


def test_the_plain_name_is_what_it_is_without_variants() -> None:
    """Its code too, and the variants have the source's parameters."""
    with_variants, _ = outputs("cost")
    without = tritonc(words("cost")[0], "--tune", "coarsen=0", "-o", "-").out
    row, plain = read(with_variants)["kernels"][0], read(without)["kernels"][0]
    assert plain["tunables"].pop("coarsen") == 0
    assert {k: v for k, v in row.items() if k not in ("variants", "choice")} == plain

    def body(ptx: str, name: str) -> str:
        return ptx.split(f".visible .entry {name}(")[1].split("\n}\n")[0]

    assert body(with_variants, "product") == body(without, "product")
    for number, variant in enumerate(row["variants"], 1):
        assert variant["entry"] == f"product__v{number}" and variant["requires"] == []
        assert (body(with_variants, variant["entry"]).split(")")[0].count(".param")
                == body(without, "product").split(")")[0].count(".param"))
    different = {json.dumps(v["tunables"]) for v in (row, *row["variants"])}
    assert len(different) == 1 + len(row["variants"]) and 4 < len(different) <= 1 + MOST_VARIANTS


def test_the_same_bytes() -> None:
    for rule in ("cost", "nearest", "first"):
        assert outputs.__wrapped__(rule) == outputs(rule)


def test_the_tuning_file_of_several_sizes() -> None:
    """Equal values are one variant; the largest size's are the general entry."""
    (row,) = read(outputs("nearest")[0])["kernels"]
    assert row["tunables"]["TN"] == 128 and len(row["variants"]) == 2
    assert row["variants"][0]["tunables"] == {"TM": 16, "TN": 64, "TK": 8}
    assert [of["name"] for of in row["choice"]["sizes"]] == ["K", "M", "N"]
    assert {p["variant"] for p in row["choice"]["points"]} == {0, 1, 2}
    (one,) = manifest_of(words("nearest")[0], "--variants=1")["kernels"]
    assert len(one["variants"]) == 1
    assert {p["variant"] for p in one["choice"]["points"]} == {0, 1}


def test_a_tuned_size_has_its_own_variant() -> None:
    """And `--set` of a compilation takes what a launch of that size takes."""
    arguments = words("nearest")
    kernel = package.compile(arguments[0], "sm_80", variants=4)
    for sizes in (*SIZES, {"M": 20, "N": 2000, "K": 3000}, {"M": 1, "N": 1, "K": 1}):
        m, n, k = sizes["M"], sizes["N"], sizes["K"]
        number = kernel.variant((m, n), None, None, None, m, n, k, 1)
        told = package.compile(arguments[0], "sm_80", sizes=sizes)
        assert [kernel, *kernel.variants][number].tunables == told.tunables


def test_facts() -> None:
    ptx, _ = outputs("first")
    (row,) = read(ptx)["kernels"]
    assert [v["requires"] for v in row["variants"]] == [
        [{"argument": 0, "multiple_of": 16}, {"argument": 1, "multiple_of": 4, "at_least": 64},
         {"argument": 2, "at_least": 1, "at_most": 1}],
        [{"argument": 2, "at_least": 1, "at_most": 1}], [{"argument": 1, "at_most": 63}]]
    assert row["parameters"][0] == {"name": "x", "type": "float *", "access": "read write",
                                    "multiple_of": 4,
                                    "not_null": [{"argument": 1, "at_least": 1}]}
    assert row["choice"] == {"rule": "first"}
    plain, fast = (ptx.split(f".entry twice{name}(")[1].split("\n}\n")[0] for name in ("", "__v1"))
    assert "stride" not in fast.replace("twice__v1_param_2", "") and len(fast) < len(plain)


def test_a_name_that_is_taken() -> None:
    path = write(Path(), "k.tc", STREAM + "\nkernel void twice__v1(float* x) { *x = 1; }\n")
    rows = manifest_of(str(path), "--variant=twice:T=64")["kernels"]
    assert [row["name"] for row in rows] == ["twice", "twice__v1"]
    assert rows[0]["variants"][0]["entry"] == "twice__v1_"


def test_variants_that_are_equal_are_one() -> None:
    path = write(Path(), "k.tc", STREAM)
    (row,) = manifest_of(str(path), "--tune", "T=64", "--variant=T=256", "--variant=T=64",
                         "--variant=T=256")["kernels"]
    assert [v["tunables"]["T"] for v in row["variants"]] == [256]


PROGRAM_IDS = """\
const tunable int T = {64, 256};
kernel void sums(float* x, float* sums, int N) {
  int r[T] = get_global_range(0);
  float v[T] = r < N ? *(x + r) : 0;
  *(sums + get_program_id(0)) = v[+];
}
kernel void counted(float* x, int N) {
  int r[T] = get_program_id(0) * T + 0 ... T;
  @(r < N) *(x + r) = 1;
}
kernel void tiled(float* x, int N) {
  int r[T] = get_global_range(0);
  int first = get_program_id(1) * T;
  @(r < N) *(x + first + r) = 1;
}
kernel void blocks(float* x, const int* places) {
  int r[T] = 0 ... T;
  *(x + *(places + get_program_id(0)) + r) = 1;
}
kernel void stepped(float* x, int N) {
  for (int t = get_program_id(0); t < N; t += get_num_programs(0)) *(x + t) = T;
}
kernel void batch(float* x, int N) {
  int r[T] = get_global_range(0);
  @(r < N) *(x + (long)get_program_id(1) / 3 * N + r) = 1;
}
kernel void ordered(float* x, int N) {
  int r[T] = get_global_range(0);
  int first = (get_program_id(0) + 1) * T;
  @(r < N) *(x + r) = first < N ? *(x + first + r) : 0;
}
kernel void counting(float* x, int N) {
  int r[T] = get_global_range(0);
  float sum[T] = 0;
  for (int i = 0; i < get_program_id(0); i++) sum += i;
  @(r < N) *(x + r) = sum;
}
kernel void chunks(float* x, int N, int chunk) {
  int from = get_program_id(0) * chunk, to = min(from + chunk, N);
  for (int n = from; n < to; n += T) @(n + 0 ... T < to) x[n + 0 ... T] = 1;
}
kernel void strides(float* x, int N, int tiles) {
  for (int t = get_program_id(0); t < tiles; t += 64) @(t * T + 0 ... T < N) x[t * T + 0 ... T] = 1;
}
kernel void images(float* x, int N, int parts) {
  int r[T] = get_global_range(0);
  for (int i = get_program_id(1); i < N; i += parts) *(x + i * N + r) = 1;
}
kernel void tiled_parts(float* x, int N, int parts) {
  int r[T] = get_global_range(0);
  for (int i = get_program_id(1); i < N; i += parts * T) *(x + i * N + r) = 1;
}
kernel void rows(float* x, int N) {
  for (int n = 0; n < N; n += T) @(n + 0 ... T < N) *(x + get_program_id(0) * N + n + 0 ... T) = 1;
}
kernel void parts(float* x, int N) {
  for (int n = 0; n < N; n++) {
    int r[T] = n * T + 0 ... T;
    *(x + get_program_id(0) * N + r) = 1;
  }
}
"""


@pytest.mark.parametrize("kernel, why", [
    ("rows", None), ("parts", "how much each of them stores"),
    ("sums", "the number of a tile along axis 0"), ("counted", "number of programs along axis 0"),
    ("tiled", "number of programs along axis 1"), ("blocks", "how much each of them stores"),
    ("stepped", "number of programs along axis 0"), ("batch", None), ("ordered", None),
    ("counting", None), ("chunks", None), ("images", None),
    ("tiled_parts", "number of programs along axis 1"),
    ("strides", "number of programs along axis 0")])
def test_variants_that_would_change_the_interface(kernel: str, why: str | None) -> None:
    path = write(Path(), "k.tc", PROGRAM_IDS)
    done = tritonc(str(path), "--tune=T=64", f"--variant={kernel}:T=256", "-o", "x.ptx")
    if why is None:
        assert done.code == 0, done.err
    else:
        assert done.code == 1 and why in done.err and not Path("x.ptx").exists()
    assert tritonc(str(path), "--tune=T=64", f"--variant={kernel}:num_warps=1").code == 0


ROWS = """\
const tunable int T = {512, 1024, 2048, 4096};
kernel void norm(const half* x, half* y, int N) {
  int row = get_program_id(0), r[T] = 0 ... T;
  float sum[T] = 0;
  for (int n = 0; n < N; n += T) sum += n + r < N ? x[row * N + n + r] : 0;
  float all = sum[+];
  for (int n = 0; n < N; n += T)
    @(n + r < N) y[row * N + n + r] = x[row * N + n + r] / all;
}
"""


def test_entries_for_lengths_of_rows() -> None:
    """Where a row is loaded again: few threads for what fits a tile, many elements in few threads
    for half as much again, one block for 170 to 320 KB of floats that are aligned; what was chosen
    by hand stays.
    """
    norm = package.compile(ROWS, arch="sm_90a")
    assert [norm.variant(9, None, None, n) for n in (
        0, 1, 256, 257, 512, 513, 1024, 1025, 1536, 1537, 2048, 2049, 3072, 3073, 4096, 4097, 6144,
        6145, 7168, 7169, 8192, 8193, 28672, 28673, 76800, 76801, 163840, 163841)] == [
        0, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 10,
        0, 0, 11, 11, 12, 12, 13, 13, 13, 13, 13]
    assert [norm.variant(m, None, None, 163848) for m in (33, 34)] == [1, 13]  # by clusters
    assert [kernel.threads for kernel in (norm, *norm.variants)] == [
        256, 256, 32, 32, 64, 64, 128, 128, 128, 128, 128, 256, 256, 512]
    assert [kernel.tunables["T"] for kernel in (norm, *norm.variants)] == [
        2048, 4096, 512, 512, 1024, 2048, 2048, 4096, 4096, 1024, 1024, *[4096] * 3]
    floats = package.compile(ROWS.replace("half*", "float*"), arch="sm_90a")
    taken = [floats.variant(34, None, None, n) - 1 for n in (43520, 43524, 43526, 81920, 81924)]
    assert [floats.variants[n].tunables.get("min_blocks") for n in taken] == [
        None, 1, None, 1, None]
    for tunables in ({"T": 2048}, {"num_warps": 8}):
        assert not package.compile(ROWS, arch="sm_90a", tunables=tunables).variants
    short = norm.variants[1]  # rows of one warp: by fours where a launch has enough of them
    assert [short.variant(m, None, None, 200) for m in (9, 65536, 65537)] == [0, 1, 1]
    assert [(k.tile, k.threads) for k in short.variants] == [((4,), 128)]


ONCE = """
const tunable int T = {1024, 2048, 4096};
kernel void total(const half* x, float* y, int N) {
  int row = get_program_id(0), r[T] = 0 ... T;
  float sum = 0;
  for (int n = 0; n < N; n += T) sum += (n + r < N ? x[row * N + n + r] : 0)[+];
  y[row] = sum;
}
"""


def test_long_rows_beside_programs_that_share_a_block() -> None:
    """Of rows that are read once long ones have an entry; the others are as without it."""
    for kernel in (package.compile(ONCE, arch="sm_90a"), loaded("once.tc", ONCE)):
        assert [(k.threads, k.tile) for k in (kernel, *kernel.variants)] == [
            (32, (1,)), (128, (1,)), (128, (4,))]
        assert [kernel.variant(m, None, None, n) for n in (200, 9000) for m in (9, 65536)] == [
            0, 2, 1, 1]


def loaded(name: str, text: str) -> package.Kernel:
    """The kernel of a module that has a header."""
    path = write(Path(), name, text)
    done = tritonc(str(path), "--arch=sm_90a", "--header", f"{name}.h", "-o", f"{name}.ptx")
    assert done.code == 0, done.err
    return package.load(f"{name}.ptx")


def test_short_rows_share_a_block_in_one_module() -> None:
    """The same for C and C++, whose header has all entries: before the one of a row each."""
    kernel = loaded("rows.tc", ROWS)
    assert [(k.tile, k.threads) for k in kernel.variants[1:3]] == [((4,), 128), ((1,), 32)]
    assert [kernel.variant(m, None, None, 200) for m in (65536, 65537, 9)] == [2, 2, 3]


def test_no_block_of_more_rows_than_its_entry_is_for() -> None:
    """Images of up to 4 and 8 rows have an entry of a program for each block, but none of four
    programs: those have a full block of rows."""
    kernel = loaded("image.tc", """const tunable int TH = {4, 8, 16};
kernel void f(const float* x, float* y, int W) {
  int h[TH, 1] = reshape(get_global_range[TH](0), TH, 1), w[16] = get_global_range(1);
  @(w < W) y[h * W + w] = x[h * W + w] + 1;
}""")
    assert [(k.tile, k.threads) for k in kernel.variants] == [
        ((4, 16), 32), ((8, 16), 32), ((64, 16), 128)]


def test_programs_that_share_a_block() -> None:
    """Programs of a warp, by fours where a launch has enough of them."""
    kernel = package.compile("""kernel void f(const int* x, int* y) {
  int i[32] = get_program_id(0) * 32 + 0 ... 32;
  y[i] = x[i] + get_num_programs(0);
}""", arch="sm_90a")
    assert [kernel.variant(n, None, None) for n in (4, 4220, 4224, 4226, 4228)] == [0, 0, 1, 1, 1]
    assert [(k.tile, k.threads) for k in (kernel, *kernel.variants)] == [((1,), 32), ((4,), 128)]
    heads = package.compile("""kernel void f(const int* x, int* y, int N) {
  int i[32] = (get_program_id(0) * N + get_program_id(1)) * 32 + 0 ... 32;
  y[i] = x[i];
}""", arch="sm_90a")
    assert [heads.variant((h, 9000), None, None, 9000) for h in (1, 3, 4, 5)] == [0, 0, 1, 1]
    launcher = Launcher(kernel.variants[0])
    assert [launcher._grid(n) for n in (4224, 4225, 4226, 4227)] == [
        (1056, 1, 1, 128, 1, 1), (1057, 1, 1, 32, 2, 2), (1057, 1, 1, 64, 2, 1),
        (1057, 1, 1, 64, 1, 2)]


def test_few_programs() -> None:
    """Of loops that compute at length: tiles of a quarter where programs leave the GPU idle."""
    kernel = package.compile("""const tunable int T = {16, 32, 64, 128};
kernel void f(int* n, int N) {
  int i[T] = get_global_range(0), v[T] = i, count[T] = 0;
  while (any(v > 1)) @(v > 1) {
    v = v % 2 == 0 ? v / 2 : 3 * v + 1;
    count++;
  }
  @(i < N) n[i] = count;
}""", arch="sm_90a")
    assert [(k.tile, k.threads) for k in (kernel, *kernel.variants)] == [
        ((128,), 32), ((32,), 32)]
    assert [kernel.variant(n, None, n) for n in (1, 132 * 128 * 128, 132 * 128 * 128 + 1)] == [
        1, 1, 0]


CARRIED = """
const tunable int T = {512, 1024, 2048, 4096};
kernel void f(const half* x, float* y, int N) {
  int row = get_program_id(0), r[T] = 0 ... T;
  float top[T] = -INFINITY, sum[T] = 0, all = 0;
  for (int n = 0; n < N; n += T) {
    float v[T] = n + r < N ? x[row * N + n + r] : -INFINITY;
    float next[T] = max(top, v);
    sum = next > -INFINITY ? sum * exp(top - next) + exp(v - next) : 0;
    top = next;
    all += (n + r < N ? v : 0)[+];
  }
  y[row] = all + top[max] + log((top > -INFINITY ? sum * exp(top - top[max]) : 0)[+]);
}
"""


def test_short_rows_whose_sums_are_carried() -> None:
    """Of rows that are read once, with a maximum and a sum for each element."""
    kernel = package.compile(CARRIED, arch="sm_90a")
    assert [(k.tile, k.threads) for k in (kernel, *kernel.variants)] == [
        ((1,), 128), ((1,), 32)]
    assert [kernel.variant(9, None, None, n) for n in (160, 4096, 4097)] == [1, 1, 0]


@pytest.mark.parametrize("text, why", [
    ("T=", "neither NAME=VALUE"), ("U=3", "there is no tunable 'U'"), ("N%0", "a multiple of 0"),
    ("num_warps=3", "can be 1, 2, 4, 8 or 16"), ("M%8", "parameters of its facts"),
    ("x>=1", "cannot be"),
    ("h:T=64", "no kernel of that name"), ("x%12", "a power of two"), ("N>=4294967296", "cannot"),
    ("N>=3,N<=2", "cannot hold"), ("1:T=64", "names no kernel"), ("", "neither NAME=VALUE")])
def test_variants_that_are_none(text: str, why: str) -> None:
    path = write(Path(), "k.tc", STREAM)
    done = tritonc(str(path), f"--variant={text}", "-o", "x.ptx")
    assert done.code == 1 and why in done.err, done.err
    assert not Path("x.ptx").exists()


def test_other_misuse() -> None:
    path = write(Path(), "k.tc", STREAM)
    assert tritonc(str(path), "--variants=64").code == 2
    assert tritonc(str(path), "--variants=x").code == 2
    done = tritonc(str(path), *[f"--variant=T=64,N>={n}" for n in range(1, 65)], "-o", "x.ptx")
    assert done.code == 1 and "it can have 63" in done.err
    assert tritonc(str(path), "--emit=tir", "-o", "k.tir").code == 0
    assert "not of Triton-IR" in tritonc("k.tir", "--variants", "-o", "x.ptx").err
    done = tritonc(str(path), "--variants", "-v", "-o", "x.ptx")  # the model knows no product there
    assert done.code == 0 and "no variants of twice" in done.err
    assert "variants" not in read(Path("x.ptx").read_text())["kernels"][0]


def test_several_targets(thorough: bool) -> None:
    """Variants of all of them; those that are not launched alike are left out."""
    need("ptxas", "fatbinary")
    done = tritonc(words("cost")[0], "--variants" if thorough else "--variants=2",
                   "--arch=sm_80,sm_90", "-o", "k.fatbin", "--header=k.h")
    assert done.code == 0, done.err
    assert "product_launch_variant" in Path("k.h").read_text()
    assert "product__v1" in Path("k.fatbin").read_bytes().decode("latin-1")


# --- the choice: C against Python ---

MAIN = """\
#include "{name}.h"
#include <stdio.h>
int main(void) {{
  long long r0, r1 = 0;
  unsigned long long {words};
  while (scanf("%lld{second}{formats}", &r0{take}, {addresses}) == {count}) {{
    unsigned v = {kernel}_variant({call});
    printf("%u %llu\\n", v, (unsigned long long){kernel}_allowed({call}));
  }}
  (void)r1;
  return 0;
}}
"""
CASTS = {"product": ["(const float *)(uintptr_t)a0", "(const float *)(uintptr_t)a1",
                     "(float *)(uintptr_t)a2", "(unsigned)a3", "(long long)a4", "a5", "(int)a6"],
         "twice": ["(float *)(uintptr_t)a0", "(unsigned)a1", "(int)a2"],
         "linear": [f"(const TRITONC_BFLOAT16 *)(uintptr_t)a{i}" for i in range(2)] + [
             "(TRITONC_BFLOAT16 *)(uintptr_t)a2", "(int)a3", "(int)a4", "(int)a5"]}


def program(name: str, kernel: str) -> str:
    casts, axes = CASTS[kernel], 1 if kernel == "twice" else 2
    if name == "rows":
        casts = [cast.replace("float", "TRITONC_HALF") for cast in casts]
    taken = [f"a{i}" for i in range(len(casts))]
    extents = ["r0", "r1"][:axes]
    return MAIN.format(
        name=name, kernel=kernel, words=", ".join(taken), second=" %lld" * (axes - 1),
        formats=" %llu" * len(casts), take=", &r1" * (axes - 1),
        addresses=", ".join(f"&{word}" for word in taken), count=axes + len(casts),
        call=", ".join([*extents, *casts]))


def cases(kernel: str, seed: int, count: int) -> Iterator[tuple[list[int], list[int]]]:
    """Extents of a range, and arguments as patterns of 64 bits: small, usual, huge, negative."""
    rng = random.Random(seed)

    def number(bits: int) -> int:
        kind = rng.randrange(5)
        if kind == 0:
            return rng.choice([0, 1, -1, -(1 << bits - 1), (1 << bits - 1) - 1, (1 << bits) - 1])
        if kind == 1:
            return rng.randrange(-100, 100)
        if kind == 2:
            return rng.randrange(1 << bits)
        return rng.randrange(1 << rng.randrange(1, 20))

    def extent() -> int:
        if rng.randrange(20) == 0:
            return rng.choice([-1, -(1 << 63), (1 << 63) - 1, 1 << 31, (1 << 31) - 1, 0])
        return rng.randrange(1 << rng.randrange(1, rng.choice([16, 24, 32]))) << rng.choice([0, 8])

    for _ in range(count):
        if kernel == "product":
            pointers, integers = 3, [32, 64, 64, 32]
        else:
            pointers, integers = 1, [32, 32]
        arguments = [rng.randrange(64) * rng.choice([1, 16]) for _ in range(pointers)]
        arguments += [number(bits) % (1 << bits) for bits in integers]
        if rng.randrange(2):
            arguments[-1] = 1  # the stride
        yield [extent() for _ in range(2 if kernel == "product" else 1)], arguments


def usual(seed: int, count: int) -> Iterator[tuple[list[int], list[int]]]:
    """Products of a few to some thousand rows and columns, aligned."""
    rng = random.Random(seed)
    for _ in range(count):
        m, n, k = (rng.choice([rng.randint(1, 8192), 128 * rng.randint(1, 64)]) for _ in range(3))
        yield [m, n], [16, 32, 48, m, n, k]


@pytest.mark.parametrize("rule", ["cost", "rows", "rounds", "nearest", "first", "few", "packed"])
def test_c_and_python_choose_alike(rule: str, tmp_path: Path) -> None:
    """Whatever the arguments are: the same variant, of those that may run."""
    compilers = [name for name in ("gcc", "g++", "clang++") if shutil.which(name)]
    need(*compilers[:1] or ["gcc"])
    kernel_name = "twice" if rule in ("first", "packed") else (
        "linear" if rule == "rounds" else "product")
    write_outputs(rule)
    kernel = package.load(f"{rule}.ptx")
    assert kernel.variants and kernel._chooser is not None
    given = [*(usual(7, 4000) if rule == "rounds" else cases(kernel_name, 7, 4000))]
    Path("cases").write_text("".join(
        f"{' '.join(map(str, [*extents, *rest]))}\n" for extents, rest in given))
    unsigned = {"M", "depth", "N", "K"}
    wanted = []
    for extents, rest in given:
        values = [At(bits) if p.pointer else bits if p.name in unsigned
                  or bits < 1 << SIGNED[p.name] - 1 else bits - (1 << SIGNED[p.name])
                  for p, bits in zip(kernel.parameters, rest, strict=True)]
        mask = kernel._chooser.allowed(extents, values)
        number = kernel.variant(tuple(extents), *values)
        assert mask[number]
        wanted.append((number, sum(1 << i for i, may in enumerate(mask) if may)))
    if rule == "rounds":  # the last round of large tiles is in small ones
        assert any(any(row[8:9]) for row in kernel._chooser.row["choice"]["large"][1:2])
    else:
        assert {number for number, _ in wanted} == set(range(len(kernel.variants) + 1))
    every = (1 << len(kernel.variants) + 1) - 1
    library = stub(tmp_path)
    flags = ["-Wconversion", "-O1", "-fsanitize=undefined", "-fno-sanitize-recover"]
    for compiler in compilers:
        file = "choose.c" if compiler == "gcc" else "choose.cpp"
        Path(file).write_text(program(rule, kernel_name))
        build(tmp_path, "choose", file, library, *flags, compiler=compiler)
        said = run("sh", "-c", "./choose < cases", cwd=tmp_path, LD_LIBRARY_PATH=".").splitlines()
        assert len(said) == len(given)
        for (extents, rest), line, want in zip(given, said, wanted, strict=True):
            number, allowed = map(int, line.split())
            assert (number, allowed & every) == want, (compiler, extents, rest)


LOGIC = """\
#include "cost.h"
#include "first.h"
#include "nearest.h"
#include "stub.h"
#include <stdio.h>

static int failures;
#define CHECK(condition) \\
  do { if (!(condition)) { printf("line %d: %s\\n", __LINE__, #condition); failures++; } } while (0)
#define COST(m, n, a, M, N, K) cost_product_launch(m, n, NULL, a, x, x, M, N, K, 1)

int main(void) {
  CUcontext context;
  float *x = (float *)64, *odd = (float *)68;
  unsigned v;
  cuInit(0);
  stub_context(&context);
  cuCtxSetCurrent(context);
  CHECK(first_load_file("first.ptx", NULL, 0) == CUDA_SUCCESS);
  CHECK(nearest_load_file("nearest.ptx", NULL, 0) == CUDA_SUCCESS);
  CHECK(twice_variants == 3 && product_variants == 2);
  stub.count = 3;
  /* what holds decides */
  CHECK(twice_launch(1024, NULL, x, 1024, 1) == CUDA_SUCCESS);
  CHECK(strcmp(stub.name, "twice__v1") == 0 && stub.grid[0] == 4);
  CHECK(twice_launch(1024, NULL, odd, 1024, 1) == CUDA_SUCCESS);
  CHECK(strcmp(stub.name, "twice__v2") == 0);
  CHECK(twice_launch(1024, NULL, odd, 60, 2) == CUDA_SUCCESS);
  CHECK(strcmp(stub.name, "twice__v3") == 0);
  CHECK(twice_launch(1024, NULL, odd, 1024, 2) == CUDA_SUCCESS);
  CHECK(strcmp(stub.name, "twice") == 0);
  CHECK(stub.launches == 4);
  /* by hand */
  CHECK(twice_launch_variant(0, 1024, NULL, x, 1024, 1) == CUDA_SUCCESS);
  CHECK(strcmp(stub.name, "twice") == 0);
  CHECK(twice_launch_variant(2, 1024, NULL, x, 1024, 1) == CUDA_SUCCESS);
  CHECK(strcmp(stub.name, "twice__v2") == 0 && stub.launches == 6);
  CHECK(twice_launch_variant(1, 1024, NULL, odd, 1024, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(twice_launch_variant(4, 1024, NULL, x, 1024, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(twice_launch_variant(4294967295u, 1024, NULL, x, 1024, 1) == CUDA_ERROR_INVALID_VALUE);
  /* what is wrong is wrong as without variants, and nothing is launched */
  CHECK(twice_launch(-1, NULL, x, 1024, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(twice_launch(INT64_MIN, NULL, x, 1024, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(twice_launch(INT64_MAX, NULL, x, 1024, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(twice_launch(1024, NULL, (float *)65, 1024, 1) == CUDA_ERROR_MISALIGNED_ADDRESS);
  CHECK(twice_launch_variant(2, 1024, NULL, (float *)65, 1024, 1)
        == CUDA_ERROR_MISALIGNED_ADDRESS);
  CHECK(twice_launch(0, NULL, NULL, 0, 0) == CUDA_SUCCESS);
  CHECK(stub.launches == 6);
  CHECK(twice_launch(5, NULL, NULL, 1024, 1) == CUDA_ERROR_INVALID_VALUE); /* it writes there */
  CHECK(twice_launch_variant(1, 1024, NULL, NULL, 1024, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(twice_launch(5, NULL, NULL, 0, 1) == CUDA_SUCCESS); /* and here it does not */
  /* tuned sizes */
  stub.count = 7;
  CHECK(product_launch(16, 2560, NULL, x, x, x, 16, 2560, 2560, 1) == CUDA_SUCCESS);
  CHECK(strcmp(stub.name, "product__v1") == 0 && stub.grid[0] == 1 && stub.grid[1] == 40);
  CHECK(product_launch(4096, 4096, NULL, x, x, x, 4096, 4096, 4096, 1) == CUDA_SUCCESS);
  CHECK(strcmp(stub.name, "product") == 0 && stub.grid[0] == 64 && stub.grid[1] == 32);
  CHECK(stub.threads == product_threads);
  /* a grid that the nearest cannot have: the next that can */
  CHECK(product_launch(16, 65535 * 64 + 1, NULL, x, x, x, 16, 2560, 2560, 1) == CUDA_SUCCESS);
  CHECK(strcmp(stub.name, "product") == 0);
  CHECK(product_launch_variant(1, 16, 65535 * 64 + 1, NULL, x, x, x, 16, 2560, 2560, 1)
        == CUDA_ERROR_INVALID_VALUE);
  CHECK(product_launch(16, 65535LL * 128 + 1, NULL, x, x, x, 16, 2560, 2560, 1)
        == CUDA_ERROR_INVALID_VALUE);
  CHECK(stub.launches == 10);
  /* the cost model: what is wrong, whichever variant it would choose */
  CHECK(cost_load_file("cost.ptx", NULL, 0) == CUDA_SUCCESS);
  CHECK(COST(-1, 64, x, 64, 64, 64) == CUDA_ERROR_INVALID_VALUE);
  CHECK(COST(64, INT64_MIN, x, 64, 64, 64) == CUDA_ERROR_INVALID_VALUE);
  CHECK(COST(INT64_MAX, INT64_MAX, x, 64, 64, 64) == CUDA_ERROR_INVALID_VALUE);
  CHECK(COST(1LL << 32, 64, x, 64, 64, 64) == CUDA_ERROR_INVALID_VALUE);
  CHECK(COST(64, 64, (float *)66, 64, 64, 64) == CUDA_ERROR_MISALIGNED_ADDRESS);
  CHECK(COST(0, 64, NULL, 64, 64, 64) == CUDA_SUCCESS);
  for (v = 0; v < 8; v++) {
    CHECK(cost_product_launch_variant(v, -1, 64, NULL, x, x, x, 64, 64, 64, 1)
          == CUDA_ERROR_INVALID_VALUE);
    CHECK(cost_product_launch_variant(v, 64, 64, NULL, x, x, (float *)65, 64, 64, 64, 1) != 0);
  }
  CHECK(stub.launches == 10);
  /* sizes whose products exceed 64 bits, negative ones, and null: some variant */
  CHECK(COST(0x7fffffff, 65535, x, 0xffffffffu, INT64_MAX, UINT64_MAX) == CUDA_SUCCESS);
  CHECK(COST(64, 64, NULL, 0, INT64_MIN, 1ull << 63) == CUDA_SUCCESS);
  CHECK(stub.launches == 12);
  if (failures == 0)
    puts("ok");
  return failures != 0;
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "g++"])
def test_launching_logic(compiler: str, tmp_path: Path) -> None:
    """Headers of several sources in one program, each with variants."""
    need(compiler)
    write_outputs("cost", "--prefix=cost")
    for rule in ("first", "nearest"):
        write_outputs(rule)
    library = stub(tmp_path)
    Path("logic.c").write_text(LOGIC)
    language = ["-x", "c++"] if compiler == "g++" else []
    build(tmp_path, "logic", *language, "logic.c", "-x", "none", library, compiler=compiler)
    assert run("./logic", cwd=tmp_path, LD_LIBRARY_PATH=".") == "ok\n"


MEMORY = """\
#include "memory.h"
#include "stub.h"
#include <stdio.h>

static int failures;
#define CHECK(condition) \\
  do { if (!(condition)) { printf("line %d: %s\\n", __LINE__, #condition); failures++; } } while (0)
#define LAUNCH(m, n, k, bytes, place) \\
  product_launch_workspace(m, n, NULL, place, bytes, x, x, x, m, n, k, 1)

int main(void) {
  CUcontext context;
  float *x = (float *)64;
  void *place = (void *)4096;
  size_t bytes;
  cuInit(0);
  stub_context(&context);
  cuCtxSetCurrent(context);
  CHECK(memory_load_file("memory.ptx", NULL, 0) == CUDA_SUCCESS);
  /* few tiles, a long sum: eight blocks for each of 2 tiles, whose sums have 64 x 64 floats */
  bytes = product_workspace_bytes(64, 128, x, x, x, 64, 128, 65536, 1);
  CHECK(bytes == 4096 + 2 * 8 * 64 * 64 * 4);
  CHECK(LAUNCH(64, 128, 65536, bytes, place) == CUDA_SUCCESS);
  CHECK(strcmp(stub.name, "product__v1") == 0 && stub.grid[1] == 2 && stub.grid[2] == 8);
  stub.count = 8;
  CHECK(LAUNCH(64, 128, 65536, bytes, place) == CUDA_SUCCESS);
  CHECK(*(void **)stub.arguments[7] == place);
  stub.count = 0;
  /* less memory, none, or the launch that takes none: another entry */
  CHECK(LAUNCH(64, 128, 65536, bytes - 1, place) == CUDA_SUCCESS);
  CHECK(strcmp(stub.name, "product") == 0 && stub.grid[2] == 1);
  CHECK(LAUNCH(64, 128, 65536, bytes, NULL) == CUDA_SUCCESS && strcmp(stub.name, "product") == 0);
  CHECK(product_launch(64, 128, NULL, x, x, x, 64, 128, 65536, 1) == CUDA_SUCCESS);
  CHECK(strcmp(stub.name, "product") == 0);
  CHECK(product_launch_variant(1, 64, 128, NULL, x, x, x, 64, 128, 65536, 1)
        == CUDA_ERROR_INVALID_VALUE);
  CHECK(LAUNCH(64, 128, 65536, bytes, (void *)4104) == CUDA_ERROR_MISALIGNED_ADDRESS);
  /* many tiles, and nothing to do */
  CHECK(product_workspace_bytes(4096, 4096, x, x, x, 4096, 4096, 64, 1) == 0);
  CHECK(LAUNCH(4096, 4096, 64, bytes, place) == CUDA_SUCCESS && strcmp(stub.name, "product") == 0);
  CHECK(product_workspace_bytes(0, 128, x, x, x, 0, 128, 65536, 1) == 0);
  CHECK(LAUNCH(0, 128, 65536, bytes, place) == CUDA_SUCCESS);
  CHECK(product_launch_workspace(-1, 128, NULL, place, bytes, x, x, x, 1, 128, 65536, 1)
        == CUDA_ERROR_INVALID_VALUE);
  if (failures == 0)
    puts("ok");
  return failures != 0;
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "g++"])
def test_memory_for_sums(compiler: str, tmp_path: Path) -> None:
    """A variant that takes memory of the launch, from the launch that has some."""
    need(compiler)
    path = write(Path(), "memory.tc", PRODUCT)
    done = tritonc(str(path), "--arch=sm_90a", "--tune=TM=64", "--tune=TN=64", "--tune=TK=16",
                   "--variant=memory_k=8", "--header", "memory.h", "-o", "memory.ptx")
    assert done.code == 0, done.err
    (variant,) = read(Path("memory.ptx").read_text())["kernels"][0]["variants"]
    assert (variant["cluster"], variant["workspace"]) == (8, 8 * 64 * 64 * 4)
    library = stub(tmp_path)
    Path("memory.c").write_text(MEMORY)
    language = ["-x", "c++"] if compiler == "g++" else []
    build(tmp_path, "memory", "-Wconversion", "-Wshadow", *language, "memory.c", "-x", "none",
          library, compiler=compiler)
    assert run("./memory", cwd=tmp_path, LD_LIBRARY_PATH=".") == "ok\n"


def test_memory_is_for_variants() -> None:
    path = write(Path(), "k.tc", PRODUCT)
    done = tritonc(str(path), "--tune=memory_k=8", "-o", "x.ptx")
    assert done.code == 1 and "'memory_k' is for variants" in done.err
    write(Path(), "s.tc", STREAM)
    done = tritonc("s.tc", "--variant=memory_k=8", "-o", "x.ptx")
    assert done.code == 1 and "no loop is split among blocks" in done.err
    rows = manifest_of(str(path), "--arch=sm_90a", "--variants=3", "--workspace")["kernels"]
    takes = [choice.is_in_memory(variant) for variant in rows[0]["variants"]]
    assert takes == [False] * 3 + [True] * 2


RESERVED = """\
const tunable int T = {64, 256};
kernel void f(float* allowed, float* length, int variant, int best, int time, int f_variant,
              int f_allowed, int f_launch_variant, int points, int size, int least, int number,
              int f_check, int variants) {
  int r[T] = get_global_range(0);
  @(r < length[0]) *(allowed + r) = variant + best + time + f_variant + f_allowed + points + size
    + f_launch_variant + least + number + f_check + variants;
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "g++", "clang", "clang++"])
def test_headers_compile_without_a_warning(compiler: str, tmp_path: Path) -> None:
    """Two modules, one with a prefix, and parameters with the names that the choice uses."""
    need(compiler)
    path = write(Path(), "r.tc", RESERVED.replace("length[0]", "*length"))
    facts = "variant>=3,best%4,allowed%32,time<=-5,points==7"
    done = tritonc(str(path), "--tune=T=64", f"--variant=T=256,{facts}", "--header", "r.h")
    assert done.code == 0, done.err
    for rule in ("cost", "nearest", "first"):
        write_outputs(rule, "--embed", f"--prefix={rule}")
    language = ["-x", "c++"] if "++" in compiler else []
    Path("a.c").write_text("".join(f'#include "{name}.h"\n' for name in
                                   ("cost", "r", "first", "nearest", "cost"))
                           + "int main(void) { return cost_product_variants != 4; }\n")
    for flag in ("-O0", "-O2", "-DTRITONC_DLOPEN"):
        standard = "-std=c++11" if language else "-std=c99"
        run(compiler, standard, *"-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror".split(),
            flag, "-isystem", INCLUDE, *language, "-c", "a.c", "-o", "a.o", cwd=tmp_path)


# --- the pieces ---


def test_logarithms_grow() -> None:
    numbers = sorted({*range(1, 70000), *(1 << e for e in range(63)),
                      *((1 << e) - 1 for e in range(1, 64)), (1 << 64) - 1})
    found = [choice.log2(n) for n in numbers]
    assert found == sorted(found) and choice.log2(1) == 0 == choice.log2(-(1 << 63))
    assert max(abs(a / 65536 - math.log2(min(n, choice.LARGEST)))
               for a, n in zip(found, numbers, strict=True)) < 0.009


def test_times_hold_in_64_bits() -> None:
    cycles = [choice.MOST_CYCLES] * 3
    for blocks in (1, choice.MOST_BLOCKS):
        most = choice.Cost(1, blocks, 1 << 20, 1 << 20, *cycles, (1, 1))
        assert choice.time(most, (2, 1, 1), (2**31 - 1, 2**31, 2**31), (2**63, 2**63)) < 2**63


def test_what_several_targets_have_in_common() -> None:
    """The choice is of the variants that are left, by their new numbers."""
    rule = {"rule": "nearest", "sizes": [], "points": [
        {"size": [1], "variant": 2}, {"size": [2], "variant": 1}, {"size": [3], "variant": 0}]}
    assert choice.restricted(rule, [2])["points"] == [
        {"size": [1], "variant": 1}, {"size": [3], "variant": 0}]


def test_info_lists_variants() -> None:
    done = tritonc("info", *words("first"), "--arch=sm_80")
    assert done.code == 0 and "variant 1, twice__v1\n" in done.out
    assert "  requires: N is a multiple of 4\n  requires: N is at least 64\n" in done.out
    assert "  tunable T = 256\n" in done.out


EDGES = """\
kernel void once(int* y, int n) { *y = n + 1; }
kernel void nothing() { }
kernel void wide(long* y, unsigned char k, char c, long n, bool b, float f) {
  int r[128] = get_global_range(0);
  int s[2] = get_global_range(1);
  int t[4] = get_global_range(2);
  *(y + r) = k + c + n;
}
"""
EDGES_C = """\
#include "e.h"
#include <stdio.h>
int main(void) {
  int *y = (int *)8;
  printf("%u %u %u %u %u\\n", once_variant(y, 3), once_variant(y, 4), nothing_variant(),
         wide_variant(1, 1, 1, 0, 200, -5, -3, 1, 1.0f),
         wide_variant(1, 1, 1, 0, 3, -5, INT64_MAX, 1, 1.0f));
  return 0;
}
"""


def test_kernels_without_axes_and_numbers_at_the_ends_of_types(tmp_path: Path) -> None:
    need("gcc", "g++")
    path = write(Path(), "e.tc", EDGES)
    done = tritonc(str(path), "--variant=once:n==3", "--variant=nothing:num_warps=2",
                   "--variant=k>=-100,c==-5,n>=-9223372036854775808,n<=-3",
                   "--variant=wide:n==9223372036854775807,k<=4", "-o", "e.ptx", "--header", "e.h")
    assert done.code == 0, done.err
    write(tmp_path, "e.c", EDGES_C)
    library = stub(tmp_path)
    for compiler, language in (("gcc", []), ("g++", ["-x", "c++"])):
        build(tmp_path, "e", "-Wconversion", *language, "e.c", "-x", "none", library,
              compiler=compiler)
        assert run("./e", cwd=tmp_path, LD_LIBRARY_PATH=".") == "1 0 1 1 2\n"
    wide, once = (package.load("e.ptx", kernel=name) for name in ("wide", "once"))
    assert wide.variant((1, 1, 1), None, 200, -5, -3, True, 1.0) == 1
    assert wide.variant((1, 1, 1), None, 3, -5, 2**63 - 1, True, 1.0) == 2
    assert (once.variant((), None, 3), once.variant(1, None, 4)) == (1, 0)
