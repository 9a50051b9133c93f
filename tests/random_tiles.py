"""More kernels for `random_patterns`: tiles that are scanned, sorted, split, packed, batched.

Each function adds one pattern to a kernel: rows by a list and columns by a remainder, weights of
few bits with a group's zero point, tiles of three axes, scans that loops carry on, lists of several
lengths, a state that each step changes, pairs of neighbours.  Numbers are small integers.
"""

from __future__ import annotations

from math import prod
from typing import Any

Kernel = Any  # of random_patterns


def array(k: Kernel, name: str, t: str, data: str, written: bool = False) -> None:
    """An array of one axis, of as many elements as the extents of `data` say."""
    what, _, rest = data.partition("(")
    numbers = rest.rstrip(")").split(", ") if what != "arange" else []
    first = 2 if what == "randint" else 0
    if numbers:
        size = prod(map(int, numbers[first:]))
        data = f"{what}({', '.join([*numbers[:first], str(size)])})"
    k.array(name, t, data, written)


def by_list(k: Kernel) -> None:
    """Rows that a list names, by a matrix of one of several experts; odd tiles, several exits."""
    m, n, c = (k.rng.choice(of) for of in ((16, 32, 48), (16, 32, 80), (16, 24, 32)))
    rows, columns, deep = k.one(m, 2 * m + 3), k.one(n, n + 7, 2 * n), k.one(c, 2 * c, 3 * c - 5)
    t = k.one("half", "bfloat16", "float", "char")
    k.head.append(f"range: {rows}, {columns}")
    array(k, "x", t, f"randint(-2, 3, 20, {deep})")
    array(k, "w", t, f"randint(-2, 3, 3, {columns}, {deep})")
    array(k, "list", "int", f"randint(-3, 20, {rows + m})")
    array(k, "expert", "int", f"randint(0, 3, {rows // m + 2})")
    array(k, "y", k.one("float", "half", "int"), f"zeros({rows}, {columns})", True)
    M, N, K = k.number("M", rows), k.number("N", columns), k.number("K", deep)
    column = k.one("j", f"j % {N}", f"min(j, {N} - 1)")
    mask = "" if "%" in column or "min" in column else f"(j < {N})[newaxis, :] && "
    acc = "int" if t == "char" else "float"
    body = [f"{t} a[{m}, {c}] = live[:, newaxis] && kk < {K} ? "
            f"x[row[:, newaxis] * {K} + kk] : 0;",
            f"{t} b[{c}, {n}] = {mask}(kk < {K})[:, newaxis] ? "
            f"w[(e * {N} + ({column}))[newaxis, :] * {K} + kk[:, newaxis]] : 0;",
            k.one("acc += a @ b;", "acc = dot(a, b, acc);", "acc -= dot(a, b);")]
    start = f"int kk[{c}] = k0 + 0 ... {c};"
    loop = k.one([f"for (int k0 = 0; k0 < {K}; k0 += {c}) {{", start, *body, "}"],
                 [f"int k0 = 0; while (true) {{ {start}", *body,
                  f"k0 += {c}; if (k0 >= {K}) break; }}"],
                 [f"for (int p = 0; p < ({K} + {c} - 1) / {c}; p++) {{ int k0 = p * {c}; {start}",
                  *body, "}"])
    k.body += [f"int i[{m}] = get_global_range(0), j[{n}] = get_global_range(1);",
               f"int row[{m}] = i < {M} ? list[i] : -1; bool live[{m}] = row >= 0;",
               "int e = expert[get_program_id(0)];",
               *k.one([], [f"if (e == {k.one(0, 2, 7)}) return;"]),
               f"{acc} acc[{m}, {n}] = {k.one('0', '1')};", *loop,
               f"float f[{m}] = live ? row - 2 : 0;" if k.chance(0.5) else f"int f[{m}] = 1;",
               f"@({k.one('live', f'(i < {M})')}[:, newaxis] && j < {N}) "
               f"y[i[:, newaxis] * {N} + j] = acc * f[:, newaxis];"]


def packed(k: Kernel) -> None:
    """Weights of 2, 4 or 8 bits, with zero points and scales of groups along K."""
    m, n, c = k.one(16, 32), k.one(16, 32, 64), k.one(32, 64)
    deep, group, bits = k.one(64, 128, 192), k.one(16, 32, 64), k.one(2, 4, 8)
    each = 8 // bits
    t = k.one("half", "bfloat16", "char") if bits < 8 else k.one("half", "bfloat16")
    k.head.append(f"range: {m}, {n}")
    array(k, "x", t, f"randint(-2, 3, {m}, {deep})")
    array(k, "w", "unsigned char", f"randint(0, 256, {n}, {deep // each})")
    array(k, "zero", "unsigned char", f"randint(0, {1 << min(bits, 3)}, {deep // group + 1}, {n})")
    array(k, "y", "float", f"zeros({m}, {n})", True)
    K, N, G = k.number("K", deep), k.number("N", n), k.number("G", group)
    word = f"w[j[:, newaxis] * ({K} / {each}) + kk / {each}]"
    place = k.one(f"kk % {each} * {bits}", f"(kk & {each - 1}) * {bits}",
                  f"({each - 1} - kk % {each}) * {bits}")
    zero = k.one(f"zero[(kk / {G})[newaxis, :] * {N} + j[:, newaxis]]",
                 f"zero[k0 / {G} * {N} + j[:, newaxis]]", "1")
    masked = k.chance(0.5)
    load = f"((kk < {K})[newaxis, :] ? {word} : 0)" if masked else word
    k.body += [f"int i[{m}] = get_global_range(0), j[{n}] = get_global_range(1);",
               f"{'int' if t == 'char' else 'float'} acc[{m}, {n}] = 0;",
               f"for (int k0 = 0; k0 < {K}; k0 += {c}) {{ int kk[{c}] = k0 + 0 ... {c};",
               f"  {t} a[{m}, {c}] = kk < {K} ? x[i[:, newaxis] * {K} + kk] : 0;",
               f"  int q[{n}, {c}] = {load} >> ({place}) & {(1 << min(bits, 7)) - 1};",
               f"  {t} b[{n}, {c}] = ({t})(kk < {K} ? q - {zero} : 0);",
               "  acc = dot(a, trans(b), acc);", "}",
               f"y[i[:, newaxis] * {N} + j] = acc;"]


def batched(k: Kernel) -> None:
    """Tiles of three axes: products, reductions along each axis, axes that change places."""
    a, b, c = k.one(4, 8, 12), k.one(8, 16, 24), k.one(2, 4, 5)
    count = k.one(c, 2 * c + 1)
    t = k.one("half", "float", "int", "short")
    k.head.append(f"range: {count}")
    array(k, "x", t, f"randint(-3, 4, {count + c}, {a}, {b})")
    array(k, "y", k.one("float", "int", "long"), f"zeros({(count + c) * a * (a + b)})", True)
    B = k.number("B", count)
    k.body += [f"int z[{c}] = get_global_range(0), i[{a}] = 0 ... {a}, j[{b}] = 0 ... {b};",
               f"{t} v[{c}, {a}, {b}] = (z < {B})[:, newaxis, newaxis] ? "
               f"x[(z[:, newaxis, newaxis] * {a} + i[:, newaxis]) * {b} + j] : 0;"]
    way = k.rng.randrange(4)
    last = f"[newaxis, newaxis, :] < {B}"
    if way == 0:
        k.body += [f"{t} q[{a}, {b}, {c}] = permute(v, 1, 2, 0), p[{b}, {a}, {c}] = trans(v);",
                   f"@(z{last}) y[z * {a * a} + i[:, newaxis, newaxis] * {a} "
                   "+ i[newaxis, :, newaxis]] = q @ p;"]
    elif way == 1:
        axis, index = k.one((0, f"i[:, newaxis] * {b} + j"), (1, f"z[:, newaxis] * {b} + j"),
                            (2, f"z[:, newaxis] * {a} + i"))
        f = k.one("sum", "argmax", "argmin", "any", "all")
        x = f"v > {k.one(-2, 0, 2)}" if f in ("any", "all") else "v"
        guard = "" if axis == 0 else f"@((z < {B})[:, newaxis]) "
        k.body += [f"auto s = {f}({x}, {axis});",
                   "if (get_program_id(0) == 0)" if axis == 0 else "",
                   f"{guard}y[{index}] = s;"]
    elif way == 2:
        k.body += [f"{t} s[{c}, {a}, {b}] = scan(v, {k.one(0, 1, 2)}, {k.one('sum', 'max', 'min')}"
                   f"{k.one('', ', reverse')});",
                   f"@((z < {B})[:, newaxis, newaxis]) y[(z[:, newaxis, newaxis] * {b} + "
                   f"j[newaxis, :, newaxis]) * {a} + i] = permute(s, 0, 2, 1);"]
    else:
        k.body += [f"for (int s = 0; s < {a}; s++) {{",
                   f"  {t} row[{c}, {b}] = (i[newaxis, :, newaxis] == s ? v : 0)[:, +, :];",
                   "  v = i[newaxis, :, newaxis] > s ? v - row[:, newaxis, :] : v; v = v % 8;"
                   if t in ("int", "short") else "  v += row[:, newaxis, :] * 0;", "}",
                   f"@((z < {B})[:, newaxis, newaxis]) y[(z[:, newaxis, newaxis] * {a} + "
                   f"i[:, newaxis]) * {b} + j] = v;"]


def scanned(k: Kernel) -> None:
    """Columns or rows that are scanned piece by piece, ranked, sorted, or shifted."""
    m, n = k.one(4, 8, 16, 32), k.one(8, 16, 32, 128)
    rows, columns = k.one(m, 3 * m, 2 * m + 1), k.one(n, n - 3, 2 * n)
    t = k.one("unsigned char", "int", "short", "float")
    k.head.append(f"range: {columns}")
    array(k, "x", t, f"randint(0, 9, {rows}, {columns})")
    array(k, "y", k.one("int", "long", "float"), f"zeros({rows}, {columns})", True)
    H, W = k.number("H", rows), k.number("W", columns)
    acc = k.one("int", "unsigned") if t != "float" else "float"
    f, join, sign, start = k.one(("sum", "+", "+", "0"), ("max", "max", "max", "0"),
                                 ("min", "min", "min", "99"))
    joined = f"{join}({{}}, {{}})" if join != "+" else "{} + {}"
    line = (f"i[:, newaxis] * {W} + j")
    use = k.one("", "", f"c = flip(c, {k.one(0, 1)});", "c = sort(c, 1);",
                f"c = gather(c, broadcast(max(i - i0 - 1, 0)[:, newaxis], {m}, {n}), 0);",
                "c += argmax(v, 0) + (v > 4 ? 1 : 0)[+, :];")
    k.body += [f"int j[{n}] = get_global_range(0); {acc} carry[{n}] = {start};",
               f"for (int i0 = 0; i0 < {H}; i0 += {m}) {{ int i[{m}] = i0 + 0 ... {m};",
               f"  bool in[{m}, {n}] = (i < {H})[:, newaxis] && j < {W};",
               f"  {acc} v[{m}, {n}] = in ? x[{line}] : {start};",
               f"  {acc} c[{m}, {n}] = {joined.format(f'scan(v, 0, {f})', 'carry')}; {use}",
               f"  @in y[{line}] = c;",
               f"  carry = {joined.format('carry', f'v[{sign}, :]')};", "}"]


def lists(k: Kernel) -> None:
    """Each element has a list of its own length: sparse rows, strings, graphs."""
    n, rows, longest = k.one(16, 32, 64, 128), k.one(20, 64, 100), k.one(3, 7, 12)
    t = k.one("int", "unsigned char", "float", "long", "double")
    k.head.append(f"range: {rows}")
    array(k, "x", t, f"randint(0, 9, {rows * longest + longest})")
    array(k, "from", "int", f"arange({rows}) * {longest}")
    array(k, "length", k.one("int", "unsigned char", "short"), f"randint(0, {longest + 1}, {rows})")
    array(k, "y", k.one("int", "long", "unsigned"), f"zeros({rows})", True)
    array(k, "bins", "int", "zeros(16)", True)
    N = k.number("N", rows)
    k.body += [f"int r[{n}] = get_global_range(0); bool inside[{n}] = r < {N};",
               f"int at[{n}] = inside ? from[r] : 0, end[{n}] = inside ? at + length[r] : 0;",
               f"{k.one('int', 'unsigned', 'long')} s[{n}] = {k.one('0', '7', 'r')};"]
    step = k.one("s += on ? (int)x[at] : 0;", "@on { s ^= (int)x[at]; s *= 5; }",
                 "@on s = s * 3 + (int)x[at];",
                 "@on atomic_add(bins + ((int)x[at] & 15), 1);",
                 "int v[N_] = on ? (int)x[at] : 0; @(v > 4) s += v;").replace("N_", str(n))
    body = [f"bool on[{n}] = at < end;", step, "at++;"]
    k.body += k.one(["while (any(at < end)) {", *body, "}"],
                    ["for (int e = 0; any(at < end); e++) {", *body, "}"],
                    ["int most = (end - at)[max];", "for (int e = 0; e < most; e++) {", *body, "}"],
                    [f"for (int e = 0; e < {longest}; e++) {{", body[0],
                     k.one("if (!any(on)) break;", "if (!any(on)) continue;"), *body[1:], "}"])
    k.body.append(k.one("@inside y[r] = s;", "if (any(s > 9)) @inside y[r] = s;",
                        "if (inside && s != 3) y[r] = s;"))


def state(k: Kernel) -> None:
    """A tile that each step of a recurrence changes, as linear attention and scans of time do."""
    d, n, steps = k.one(8, 16, 32), k.one(4, 16, 32), k.one(1, 5, 12)
    t = k.one("float", "int", "half")
    k.head.append("range: 2")
    for name, size in (("u", d), ("v", n)):
        array(k, name, t, f"randint(-2, 3, 2, {steps}, {size})")
    array(k, "g", t, f"randint(-1, 2, 2, {steps})")
    by_row = k.chance(0.5)
    array(k, "y", "float", f"zeros(2, {steps}, {d if by_row else n})", True)
    T = k.number("T", steps)
    acc = "int" if t == "int" else "float"
    out = "[:, +]" if by_row else "[+, :]"
    other = "v[at * {n} + j][newaxis, :]" if by_row else "u[at * {d} + i][:, newaxis]"
    body = [f"int at = h * {T} + t; {acc} ut[{d}] = u[at * {d} + i], vt[{n}] = v[at * {n} + j];",
            k.one("S *= g[at];", "S = g[at] == 0 ? 0 : S;", "if (g[at] < 0) S = 0;", "", "S = -S;"),
            f"S += ut[:, newaxis] * {k.one('vt', '(vt - (S * 0)[+, :])')}[newaxis, :];",
            f"y[at * {d if by_row else n} + {'i' if by_row else 'j'}] = "
            f"(S * {other.format(n=n, d=d)}){out};"]
    k.body += [f"int h = get_program_id(0), i[{d}] = 0 ... {d}, j[{n}] = 0 ... {n};",
               f"{acc} S[{d}, {n}] = 0;",
               *k.one([f"for (int t = 0; t < {T}; t++) {{", *body, "}"],
                      [f"for (int t = {T} - 1; t >= 0; t--) {{", *body, "}"],
                      ["int t = 0;", f"while (t < {T}) {{", *body, "++t;", "}"])]


def pairs(k: Kernel) -> None:
    """Neighbours that are split, computed with and joined again; shifts by gathers."""
    n, rows = k.one(16, 32, 64, 256), k.one(1, 2, 4, 8)
    t = k.one("float", "int", "half", "short")
    count = k.one(rows, rows + 1, 3 * rows)
    k.head.append(f"range: {count}")
    array(k, "x", t, f"randint(-4, 5, {count}, {n})")
    array(k, "y", k.one(t, "int", "float"), f"zeros({count}, {n})", True)
    R = k.number("R", count)
    acc = "int" if t in ("int", "short") else "float"
    half = f"{rows}, {n // 2}"
    shift = k.one("min(h + 1, LAST)", "max(h - 1, 0)", "h ^ 1", "LAST - h", "(h + 3) & LAST")
    index = f"broadcast(reshape({shift}, 1, {n // 2}), {half})".replace("LAST", str(n // 2 - 1))
    which = k.one("", f"  b += gather(a, {index}, 1);", f"  a -= gather(b, {index}, 1);",
                  "  b = b - a; a = a + b;")
    pair = k.one(f"auto p = split(reshape(v, {half}, 2)); {acc} a[{half}] = p.first, "
                 f"b[{half}] = p.second;",
                 f"auto p = split(permute(reshape(v, {rows}, 2, {n // 2}), 0, 2, 1)); "
                 f"{acc} a[{half}] = p.first, b[{half}] = p.second;")
    back = k.one(f"reshape(join(a, b), {rows}, {n})", "cat(a, b, 1)",
                 f"reshape(join(b, a + b), {rows}, {n})")
    k.body += [f"int r[{rows}] = get_global_range(0), i[{n}] = 0 ... {n}, h[{n // 2}] = "
               f"0 ... {n // 2};", f"bool ok[{rows}, 1] = (r < {R})[:, newaxis];",
               f"{acc} v[{rows}, {n}] = ok ? x[r[:, newaxis] * {n} + i] : 0;",
               f"for (int s = 0; s < {k.one(1, 2, 3)}; s++) {{", f"  {pair}", which,
               f"  v = {back};", "}", f"@ok y[r[:, newaxis] * {n} + i] = v;"]


PATTERNS = (by_list, packed, batched, scanned, lists, state, pairs)
