"""Random kernels as people write them: sizes are parameters, addresses are computed of them.

    python tests/campaign.py programs --replay 17      odd numbers are of kernels

Programs of `random_statements` nest statements at random; these follow the patterns that passes and
analyses look for, and break them a little: neighbours by a flat index or under masks that end rows,
rows that loops reduce, by operators and by functions, rows that change in place, records, bins,
tables, strides, products.  Sums are of integers, so that every order gives the same.
"""

from __future__ import annotations

import random
from typing import Any

import random_tiles

LIBRARY = """\
struct best { int value, place; };
struct top { int value, count; };
best better(best a, best b) {
  return b.value > a.value || b.value == a.value && b.place < a.place ? b : a;
}
top more(top a, top b) {
  int m = max(a.value, b.value);
  return {m, (a.value == m ? a.count : 0) + (b.value == m ? b.count : 0)};
}
"""
_TYPES = ("char", "unsigned char", "short", "unsigned short", "int", "int", "float", "float",
          "half", "double", "long")
_FLOATS = ("float", "half", "double")


class _Kernel:
    """Grows one kernel: `head` are its `//!` lines, `parameters` and `body` its text."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"kernel {seed}")
        self.head: list[str] = []
        self.parameters: list[str] = []
        self.body: list[str] = []
        self.written: list[str] = []

    def one(self, *of: Any) -> Any:
        return self.rng.choice(of)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def array(self, name: str, t: str, data: str, written: bool = False) -> None:
        hint = self.one("", "", "", " __aligned(16)", " __restrict")
        const = "" if written or self.chance(0.2) else "const "
        self.parameters.append(f"{const}{t}* {name}{hint}")
        self.head.append(f"arg: {name} = {data}")
        if written:
            self.written.append(name)

    def number(self, name: str, value: int, t: str = "int") -> str:
        """A size: a parameter, sometimes with a hint that holds, or a constant."""
        if self.chance(0.15):
            return str(value)
        low = value & -value
        hint = f" __multipleof({low})" if low > 1 and value > 0 and self.chance(0.3) else ""
        self.parameters.append(f"{t} {name}{hint}")
        self.head.append(f"arg: {name} = {value}")
        return name

    def text(self) -> str:
        return "\n".join([
            *(f"//! {line}" for line in self.head), f"//! clobber: {', '.join(self.written)}",
            "//! expect: none = none", "//! tolerance: np.inf", "", LIBRARY,
            f"kernel void k({', '.join([*self.parameters, 'float* none'])}) {{",
            *("  " + line for line in self.body), "}", ""]).replace(
                "//! clobber", "//! arg: none = zeros(1)\n//! clobber", 1)

    def small(self, t: str) -> str:
        return "0, 9" if t.startswith("unsigned") else "-4, 5"

    # --- neighbours of a flat index ---

    def neighbours(self) -> None:
        t, n = self.one(*_TYPES), self.rng.choice((32, 64, 128, 256))
        w = self.rng.choice((16, 32, 48, 64, 96, 17, 4, 128))
        h = self.rng.choice((1, 2, 5, 8))
        index = self.one("int", "int", "int", "unsigned", "long")
        whole = self.chance(0.6)
        self.head.append(f"range: {w * h if whole else -(-w * h // n)}")
        pad = 2 * w + 8 + n
        self.array("x", t, f"randint({self.small(t)}, {w * h + 2 * pad + 2 * n})")
        self.array("y", self.one(t, "int", "float", "double"), f"zeros({w * h})", True)
        W, H = self.number("W", w, self.one(index, "int")), self.number("H", h)
        at = "get_global_range(0)" if whole else f"get_program_id(0) * {n} + 0 ... {n}"
        self.body += [f"{index} i[{n}] = {at};", f"{index} w[{n}] = i % {W}, h[{n}] = i / {W};",
                      f"bool inside[{n}] = i < {W} * {H};", f"{t} s[{n}] = 0;"]
        for _ in range(self.rng.randint(1, 5)):
            self.body.append(self.neighbour(t, n, W, H, pad))
        store = f"{self.one('y[i]', '*(y + i)')} = s;"
        self.body.append(self.one(f"@inside {store}", f"if (inside) {{ {store} }}",
                                  f"if (inside) {{ {store} }}"))

    def neighbour(self, t: str, n: int, W: str, H: str, pad: int) -> str:
        d, size = self.rng.choice((1, 1, 1, 2, 3)), self.rng.choice((1, 1, 2))
        left = self.chance(0.5)
        moved = f"w - {d}" if left else f"w + {d}"
        signed = "(int)"
        within = f"{signed}w >= {d}" if left else f"{signed}w < {signed}({W}) - {d}"
        row = self.one(f"h * {W}", "(i - w)", f"((h + {size}) % {H}) * {W}",
                       f"((h + {H} - 1) % {H}) * {W}", f"i / {W} * {W}")
        wrapped = f"(w + {W} * 4 - {d}) % {W}" if left else f"(w + {d}) % {W}"
        clamped = (f"max({signed}w - {d}, 0)" if left else
                   f"min({signed}w + {d}, {signed}({W}) - 1)")
        chosen = f"({within} ? {moved} : {self.one('0', 'w', f'{W} - 1')})"
        value = self.one(
            f"x[{pad} + {row} + {wrapped}]", f"x[{pad} + {row} + {clamped}]",
            f"x[{pad} + {row} + {chosen}]",
            f"({within} ? x[{pad} + i {'-' if left else '+'} {d}] : {self.one('0', '3')})",
            f"x[{pad} + i {'-' if left else '+'} {d}]",
            f"(h >= {size} ? x[{pad} + i - {size} * {W}] : 0)")
        if self.chance(0.7):
            value = f"(inside ? {value} : 0)"
        return f"s {self.one('+=', '+=', '-=')} {value};"

    # --- neighbours in rows that masks end ---

    def masked_neighbours(self) -> None:
        """Masks that say exactly where a row ends, and some that end it elsewhere."""
        t, n = self.one(*_TYPES), self.one(32, 64, 128)
        length, count = self.one(16, 32, 48, 64, 96, 128, 80, 33), self.one(1, 3)
        index = self.one("int", "int", "int", "unsigned", "long")
        self.array("x", t, f"randint({self.small(t)}, {count * length})")
        self.array("y", self.one("int", "float"), f"zeros({count * length})", True)
        N, M = self.number("N", length, self.one(index, "int")), self.number("M", count)
        column, least = self.one((f"get_program_id(0) * {n} + 0 ... {n}", 0),
                                 ("get_global_range(0)", 0), (f"0 ... {n}", 0),
                                 (f"{(first := self.one(1, 4, 16))} + 0 ... {n}", first))
        extent = -(-length // n) if "program" in column else length
        self.head.append(f"range: {1 if least or column[0] == '0' else extent}, {count}")
        self.body += [f"int m = get_program_id(1); {index} c[{n}] = {column};",
                      f"bool in[{n}] = c < {N}; {t} s[{n}] = in ? x[m * {N} + c] : 0;"]
        for _ in range(self.rng.randint(1, 4)):
            d = self.one(0, 0, 1, 1, -1, -1, 2, -2, 3, -3, 4, -5)
            end = self.one(f"c < {N} - {d}", f"c < {N} - {d}", f"{N} - {d} > c", f"c + {d} < {N}",
                           f"c <= {N} - {d + 1}", f"c < {N} - {d} - 1") \
                if d > 0 else self.one("in", "in", f"c < {N}", f"{N} > c", f"c < {N} - 1")
            begin = self.one("", "", "", "", "c > 0 &&", "c >= 3 &&") if d >= 0 else self.one(
                f"c >= {-d} &&", f"c > {-d - 1} &&", f"c >= {1 - d} &&")
            more = self.one("", "", "", "", "", "", f"&& m < {M} - 1", "&& (c & 3) != 1", "&& in")
            moved = f"c + {d}" if d >= 0 else f"c - {-d}"
            self.body.append(
                f"s += {begin} {end} {more} ? x[m * {N} + {moved}] : {self.one('0', '3')};")
            if self.chance(0.15):
                self.body.append(f"@in y[m * {N} + c] = s;")
        self.body.append(f"@in y[m * {N} + c] = s;")

    # --- rows that loops reduce ---

    def rows(self) -> None:
        t, n = self.one(*_TYPES), self.rng.choice((16, 32, 64, 128))
        length, count = self.rng.choice((16, 100, 128, 129, 200, 256, 7)), self.rng.randint(1, 3)
        self.head.append(f"range: {count}")
        self.array("x", t, f"randint({self.small(t)}, {count * length + 600})")
        self.array("y", self.one("int", "int", "long"), f"zeros({count * 8})", True)
        self.array("z", "int", f"zeros({count * (length + 600)})", True)
        N = self.number("N", length)
        masked = self.chance(0.8)
        self.body += [f"int row = get_program_id(0), r[{n}] = 0 ... {n};",
                      "int total = 0, high = -99; best at = {-99, 0}; top tops = {-99, 0};",
                      f"int lanes[{n}] = 0;"]
        load = (f"(r + j < {N} ? x[row * {N} + j + r] : {self.one('0', '1', '-1')})"
                if masked else f"x[row * {N} + j + r]")
        uses = self.rng.sample([
            f"total += (int)v[{self.one('+', 'max', 'min', '|')}];",
            "high = max(high, (int)v[max]);", "lanes += (int)v;",
            f"at = better(at, reduce((best[{n}]){{(int)v, j + r}}, 0, better));",
            f"tops = more(tops, reduce((top[{n}]){{(int)v, 1}}, 0, more));",
            "total ^= (int)v[^];",
            f"@(j + r < {N}) z[row * ({N} + 600) + j + r] = (int)v{self.one('', ' + total')};",
            "if (total > 40) break;", "if (high == 4) continue;",
        ], self.rng.randint(1, 5))
        body = [f"{t if not t.startswith('h') else 'float'} v[{n}] = {load};", *uses]
        if t in _FLOATS:
            body = [line.replace("v[^]", "v[max]").replace("v[|]", "v[min]") for line in body]
        step = f"j += {n}"
        ways = [
            [f"for (int j = 0; j < {N}; {step}) {{", *body, "}"],
            ["int j = 0;", f"for (;;) {{ if (j >= {N}) break;", *body, f"{step};", "}"],
            ["int j = 0;", f"do {{ {body[0]}", *body[1:], f"{step};", f"}} while (j < {N});"],
            ["int j = 0;", "while (true) {", *body, f"{step};", f"if (j >= {N}) break;",
             "lanes += 1;", "}"],
            [f"for (int j = ({N} - 1) / {n} * {n}; j >= 0; j -= {n}) {{", *body, "}"],
            [f"for (int j = 0; j < {N}; {step}) {{", *body,
             f"if (total == {self.rng.randint(-9, 9)}) return;", "}"],
        ]
        if any("continue" in line for line in body):
            ways = [ways[0], ways[4]]
        self.body += self.rng.choice(ways)
        stores = ["total", "high", "at.value", "at.place", "tops.value", "tops.count", "lanes[+]"]
        self.body += [f"y[row * 8 + {k}] = {what};" for k, what in enumerate(stores)
                      if self.chance(0.8)]

    # --- rows that change in place, one parameter or two ---

    def in_place(self) -> None:
        t, n = self.one("int", "float", "short", "double"), self.rng.choice((16, 32, 64))
        rows, length = self.rng.choice((1, 3, 6)), self.rng.choice((16, 40, 64, 100))
        self.head.append("range: 1")
        self.array("x", t, f"randint(-4, 5, {(rows + 3) * length + 200})", True)
        R, N = self.number("R", rows), self.number("N", length)
        shift = self.one("0", "0", "1", f"{N}", "3", "16")
        self.body += [f"int r[{n}] = 0 ... {n};", f"{t} s[{n}] = 0;"]
        there, here = f"x[(j {self.one('', '+ 1')}) * {N} + r + {shift}]", f"x[j * {N} + r]"
        if self.chance(0.5):
            there, here = here, there
        inner = self.rng.sample([f"s += {there};", f"{here} = s + j;", f"@(r < {N}) {here} = s;",
                                 f"@(r < {N}) {here} += {there};", f"s = max(s, {there});",
                                 f"if ({there.replace('+ r', '+ 1')} > 3) break;"], 3)
        loop = self.one(f"for (int j = 0; j < {R}; j++) {{",
                        f"for (int j = {R} - 1; j >= 0; j--) {{",
                        f"for (int j = 0; ; j++) {{ s += {there}; if (j >= {R} - 1) break;",
                        f"for (int j = 0; j < {R}; j += 2) {{")
        self.body += [loop, *inner, "}", "x[r] = s;"]

    # --- records, bins, tables ---

    def records(self) -> None:
        t, n = self.one(*_TYPES), self.rng.choice((32, 64, 128))
        fields, count = self.rng.choice((2, 3, 4, 5, 8)), self.rng.choice((16, 64, 100, 128, 130))
        self.head.append(f"range: {count}")
        self.array("x", t, f"randint({self.small(t)}, {(count + n) * fields})")
        self.array("y", self.one(t, "int"), f"zeros({(count + n) * fields})", True)
        self.array("bins", "int", "zeros(64)", True)
        N = self.number("N", count)
        F = self.number("F", fields) if self.chance(0.3) else str(fields)
        self.body += [f"int i[{n}] = get_global_range(0);", f"bool inside[{n}] = i < {N};"]
        names = [f"f{k}" for k in range(fields)]
        for k, name in enumerate(names):
            load = f"x[i * {F} + {k}]"
            self.body.append(f"{t} {name}[{n}] = " + self.one(
                f"inside ? {load} : 0;", f"inside ? {load} : 0;", f"{load};"))
        self.rng.shuffle(names)
        total = " + ".join(names[:3])
        self.body += [f"@inside y[i * {F} + {k}] = {self.one(name, total)};"
                      for k, name in enumerate(names) if self.chance(0.8)]
        if self.chance(0.6):
            self.body.append(self.one(
                f"@inside atomic_add(bins + ((int)({total}) & 31), 1);",
                f"atomic_add(bins + ((int)({total}) & 63), inside ? (int)f0 : 0);",
                "bins[0 ... 64] = 1; __debug_barrier();"
                if count <= n else "@inside atomic_max(bins + (i & 15), (int)f0);"))

    def table(self) -> None:
        """A tile of two axes whose rows a table gives."""
        t = self.one("int", "float", "half", "short")
        m, n = self.rng.choice((4, 8, 16)), self.rng.choice((8, 16, 32, 64))
        rows, length = self.rng.choice((3, 8, 17)), self.rng.choice((8, 16, 40, 64, 65))
        self.head.append(f"range: {rows}")
        self.array("x", t, f"randint(-4, 5, {20 * (length + 64)})")
        self.array("index", "int", f"randint(0, 20, {rows + m})")
        out = self.one(t, "float", "double")
        self.array("y", out, f"zeros({(rows + m) * (length + 64)})", True)
        M, N = self.number("M", rows), self.number("N", length)
        s = self.number("stride", length + self.rng.choice((0, 1, 8, 64)))
        self.body += [
            f"int i[{m}] = get_global_range(0), c[{n}] = 0 ... {n};",
            f"int from[{m}] = {self.one('index[i]', f'i < {M} ? index[i] : 0', 'i % 20')};",
            f"for (int j = 0; j < {N}; j += {n}) {{",
            f"  bool inside[{m}, {n}] = (i < {M})[:, newaxis] && c + j < {N};",
            f"  {t} v[{m}, {n}] = inside ? x[from[:, newaxis] * {s} + c + j] : 0;",
            self.one("  v += v;", "  v = v[:, max][:, newaxis] - v;", "",
                     f"  {t} u[{m}, {n}] = inside ? "
                     f"x[from[:, newaxis] * {s} + {N} - 1 - c - j] : 0; v += u * 2;"),
            f"  @inside y[i[:, newaxis] * {N} + c + j] = v;", "}"]

    def distances(self) -> None:
        """A table by the distance of rows and columns, which is clamped on one side or both."""
        t, total = self.one("int", "float", "short"), self.one("int", "long")
        m, n = self.rng.choice((8, 16, 64)), self.rng.choice((32, 64, 128))
        rows, columns = self.rng.choice((16, 70, 150)), self.rng.choice((64, 200, 400))
        self.head.append(f"range: {rows}")
        self.array("x", t, "randint(-9, 10, 4000)")
        self.array("y", total, f"zeros({rows + m})", True)
        N = self.number("N", columns)
        low, high = self.rng.randint(-150, 20), self.rng.randint(-20, 150)
        bounds = [str(low), str(high)]
        if self.chance(0.3):
            bounds = [self.number("low", low), self.number("high", high)]
        far = self.one("j - i[:, newaxis]", "i[:, newaxis] - j", "i[:, newaxis] + j - 90",
                       "2 * j - i[:, newaxis]", "j - 40 + 0 * i[:, newaxis]")
        far = self.one(f"clamp({far}, {', '.join(bounds)})", f"max({far}, {bounds[0]})",
                       f"min({far}, {bounds[1]})", f"max(min({far}, {bounds[1]}), {bounds[0]})",
                       f"min(max({far}, {bounds[0]}), {bounds[1]})")
        at = self.one(f"{far} + 1500", f"2 * {far} + 1500", f"1500 - {far}")
        load = self.one(f"x[{at}]", f"(j < {N} ? x[{at}] : 0)")
        self.body += [
            f"int i[{m}] = get_global_range(0);", f"{total} sum[{m}] = 0;",
            self.one(f"for (int k = 0; k < {N}; k += {n}) {{",
                     f"for (int k = ({N} - 1) / {n} * {n}; k >= 0; k -= {n}) {{"),
            f"  int j[{n}] = k + 0 ... {n};", f"  {total} v[{m}, {n}] = ({total}){load};",
            self.one("  sum += v[:, +];", f"  v = j < {N} ? v : 1; sum += v[:, +];",
                     "  sum = max(sum, v[:, max]);"), "}", "y[i] = sum;"]

    # --- matrices with strides, and products that follow from each other ---

    def strides(self) -> None:
        """A matrix that is read by its strides, past its ends with care, and written turned."""
        t = self.one("int", "float", "half", "char")
        m, n = self.rng.choice((8, 16, 32)), self.rng.choice((8, 16, 32))
        rows, columns = self.rng.choice((7, 16, 33)), self.rng.choice((8, 20, 32, 64))
        self.head.append(f"range: {rows}")
        row, column = self.rng.choice(((columns, 1), (1, rows), (columns + 3, 1), (2 * columns, 2)))
        self.array("x", t, f"randint(-4, 5, {(rows + m) * row + (columns + n) * column + 600})")
        self.array("y", self.one(t, "float"), f"zeros({(rows + m) * (columns + n)})", True)
        M, N = self.number("M", rows), self.number("N", columns)
        sm, sn = self.number("sm", row), self.number("sn", column)
        i = self.one("i", f"i % {M}", f"min(i, {M} - 1)", f"(i < {M} ? i : 0)")
        j = self.one("j", f"j % {N}", f"min(j, {N} - 1)")
        inside = f"(i < {M})[:, newaxis] && j < {N}"
        load = f"x[({i})[:, newaxis] * {sm} + ({j}) * {sn}]"
        if "%" not in i + j and self.chance(0.6):
            load = f"({inside} ? {load} : {self.one('0', '1')})"
        loop = self.one(f"for (int k = 0; k < {N}; k += {n}) {{",
                        f"for (int k = ({N} - 1) / {n} * {n}; k >= 0; k -= {n}) {{")
        at = self.one(f"i[:, newaxis] * {N} + j", f"i[:, newaxis] + j * {M}")
        keep = self.chance(0.3)
        self.body += [
            f"int i[{m}] = get_global_range(0);", f"{t} last[{m}, {n}] = 0;", loop,
            f"  int j[{n}] = k + 0 ... {n};", f"  {t} v[{m}, {n}] = {load};",
            f"  @({inside}) y[{at}] = {'last' if keep else self.one('v', 'v + k', 'v * 2')};",
            "  last = v;", "}"]

    def chain(self) -> None:
        """Two products of small integers, as attention has them, with masks between."""
        m, n, d = (self.rng.choice(of) for of in ((16, 32, 64), (16, 32, 64), (16, 32)))
        rows, keys = self.rng.choice((m, m + 5, 2 * m)), self.rng.choice((n, n + 9, 3 * n))
        t = self.one("half", "half", "bfloat16", "float")
        self.head.append(f"range: {rows}")
        for name, size in (("q", rows + m), ("k", keys + n), ("v", keys + n)):
            self.array(name, t, f"randint(-1, 2, {size * d})")
        self.array("y", "float", f"zeros({(rows + m) * d})", True)
        M, N, D = self.number("M", rows), self.number("N", keys), str(d)
        end = self.one(N, f"min({N}, i0 + {m})")
        first = self.one("0", f"max(0, i0 - {n}) / {n} * {n}")
        mask = self.one(f"j < {N}", f"j < {N} && j <= i[:, newaxis]",
                        f"j < {N} && (i[:, newaxis] + j) % 3 != 0")
        middle = self.rng.sample([
            "s = max(s, 0);", "s = s * 2 - 1;", f"s = ({mask}) ? s : 0;",
            "s = (s > high[:, newaxis]) ? s : 1;"], self.rng.randint(0, 3))
        after = self.rng.sample(["high = max(high, s[:, max]);", "total += s[:, +];",
                                 "acc = (high > 3)[:, newaxis] ? acc : acc * 0.5f;"],
                                self.rng.randint(0, 3))
        whole = f"({mask}) ? s : 0" if "?" not in "".join(middle[-1:]) else "s"
        body = [
            f"int j[{n}] = b + 0 ... {n};",
            f"{t} tk[{n}, {d}] = (j < {N})[:, newaxis] ? *(k + j[:, newaxis] * {D} + c) : 0;",
            f"float s[{m}, {n}] = tq @ trans(tk);", *middle, f"s = {whole};", *after,
            f"{t} tv[{n}, {d}] = (j < {N})[:, newaxis] ? *(v + j[:, newaxis] * {D} + c) : 0;",
            f"acc += ({t})clamp(s, -16, 16) @ tv;"]
        self.body += [
            f"int i[{m}] = get_global_range(0), c[{d}] = 0 ... {d}, i0 = get_program_id(0) * {m};",
            f"{t} tq[{m}, {d}] = (i < {M})[:, newaxis] ? *(q + i[:, newaxis] * {D} + c) : 0;",
            f"float acc[{m}, {d}] = 0, high[{m}] = -9, total[{m}] = 0;",
            *self.one([f"for (int b = {first}; b < {end}; b += {n}) {{", *body, "}"],
                      [f"int b = {first};", f"while (b < {end}) {{", *body, f"b += {n};", "}"],
                      [f"int b = {first};", "do {", *body, f"b += {n};",
                       f"}} while (b < {end});"]),
            "acc += high[:, newaxis] + total[:, newaxis];",
            f"@((i < {M})[:, newaxis]) *(y + i[:, newaxis] * {D} + c) = acc;"]


def program(seed: int) -> str:
    """The text of a kernel with its problem."""
    kernel = _Kernel(seed)
    if kernel.chance(0.5):
        kernel.one(*random_tiles.PATTERNS)(kernel)
        return kernel.text()
    kernel.rng.choice((kernel.neighbours, kernel.masked_neighbours, kernel.rows, kernel.rows,
                       kernel.in_place, kernel.records, kernel.table, kernel.distances,
                       kernel.strides, kernel.strides, kernel.chain, kernel.chain))()
    return kernel.text()
