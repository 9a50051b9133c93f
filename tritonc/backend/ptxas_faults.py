"""What NVIDIA's assembler gets wrong, or takes registers for, and what is written instead.

`options.WORKAROUNDS` names each; `--no-workaround=NAME` leaves one out, to see whether a newer
ptxas still needs it.  "negations" does not rewrite PTX: `emit/floats/negations` finds its places.
"""

import re
from collections import Counter

from tritonc.options import Options


def worked_around(ptx: str, options: Options) -> str:
    """The PTX with all rewritings that the options leave in.

    And setp.ftz.bf16, by which LLVM 20 compares bfloats where subnormals are flushed, without the
    .ftz, which PTX has not."""
    if ".ftz.bf16" in ptx:
        ptx = re.sub(r"(\tsetp\.\w+)\.ftz\.bf16", r"\1.bf16", ptx)
    for name, rewrite in (("high-halves", separate_high_halves), ("extents", read_extents_late),
                          ("choices", choose_words)):
        if name not in options.no_workarounds:
            ptx = rewrite(ptx)
    return ptx


# As text: few kernels have any of this, and to compile the expressions takes half a millisecond.
HIGH_HALF = r"\tmul\.hi\.([su]32) \t(%r\d+), ([^;]+);"
SUM = r"\t(?:add\.s32 \t%r\d+, (%r\d+), (%?\w+)|sub\.s32 \t%r\d+, (%r\d+))"


def separate_high_halves(ptx: str) -> str:
    """The high half of a product that several sums use, as a word of the whole product.

    ptxas makes each sum x + mul.hi(a, b) one IMAD.HI, whose third operand is a pair of registers
    (0, x).  Where two such, of the same a, b, and result register, follow each other, its -O2 and
    -O3 remove the second: they compare only the first register of the pair (13.0.88; divisions of
    a convolution's taps, by a constant, got another row's sum).  IMAD.WIDE has no such sum."""
    if "mul.hi." not in ptx:
        return ptx
    sums = Counter(name for names in re.findall(SUM, ptx) for name in names)
    uses: Counter[tuple[str, str]] = Counter()
    for kind, name, operands in re.findall(HIGH_HALF, ptx):
        uses[kind, operands] += sums[name]

    def separated(found: re.Match[str]) -> str:
        kind, name, operands = found.groups()
        if uses[kind, operands] < 2:
            return found[0]
        return (f"\t{{ .reg .b64 whole; .reg .b32 low; mul.wide.{kind} whole, {operands}; "
                f"mov.b64 {{low, {name}}}, whole; }}")
    return re.sub(HIGH_HALF, separated, ptx)


EXTENT = r"\tmov\.u32 \t(%r\d+), (%nctaid\.[xyz]);\n"


def read_extents_late(ptx: str) -> str:
    """The extents of the grid, read where they are used, in kernels with a producer warp.

    They are constants, but ptxas gives them a register from where they are read first, at entry;
    there a thread has fewer registers than the bodies leave (`setmaxnreg`), so it spills them."""
    if "setmaxnreg" not in ptx:
        return ptx
    functions = re.split(r"(?m)(?=^\.visible \.entry )", ptx)
    for i, text in enumerate(functions):
        for name, extent in re.findall(EXTENT, text) if "setmaxnreg" in text else ():
            at = extent[1:].replace(".", "_")
            use = re.compile(rf"(?m)^\t([^\n]*{name}\b[^\n]*)$")
            text = use.sub(lambda line, name=name, extent=extent, at=at: (
                f"\t{{ .reg .b32 {at}; mov.u32 {at}, {extent}; "
                f"{re.sub(name + chr(92) + 'b', at, line[1])} }}"),
                text.replace(f"\tmov.u32 \t{name}, {extent};\n", "", 1))
        functions[i] = text
    return "".join(functions)


NARROW = r"\tcvt\.rn\.(b?f16)\.f32 \t(%rs\d+), (%r\d+);"
CHOICE = r"\tselp\.b16 \t(%rs\d+), (%?\w+), (%?\w+), (%p\d+);"


def choose_words(ptx: str) -> str:
    """A choice between a sum of a product and another number, made before the sum gets 16 bits.

    Where a sum of wgmma is made narrow and then chosen, ptxas reads it under the condition, takes
    that for a read while the product runs, and serialises all products of the function (C7514)."""
    if "wgmma" not in ptx or "selp.b16" not in ptx:
        return ptx
    lines, narrow = ptx.split("\n"), dict[str, tuple[str, str]]()  # of a block: the type, the sum
    sums = {name for line in lines if "wgmma.mma_async" in line
            for name in line[line.index("{"):line.index("}")].strip("{").split(", ")}
    for i, line in enumerate(lines):
        if line.startswith(("$", ".")) or "bra" in line or "wgmma" in line or (
                narrow and not sums.isdisjoint(re.findall(r"%r\d+", _results(line)))):
            narrow.clear()
        elif line.startswith("\tcvt.rn") and (found := re.match(NARROW, line)) and found[3] in sums:
            narrow[found[2]] = found[1], found[3]
        elif line.startswith("\tselp.b16") and (found := re.match(CHOICE, line)) and (
                found[2] in narrow or found[3] in narrow):
            kind = narrow[found[2] if found[2] in narrow else found[3]][0]
            words, halves = list[str](), list[str]()  # of each side; one is 0: no bit is lost
            for name in found[2], found[3]:
                mine, word = narrow.get(name, ("", ""))
                words.append(word if mine == kind else "0x00000000")
                halves.append("0x0000" if mine == kind else name)
            whole = {*halves} == {"0x0000"}
            lines[i] = (f"\t{{ .reg .b32 c; .reg .b16 d, e; selp.b32 c, {', '.join(words)}, "
                        f"{found[4]}; cvt.rn.{kind}.f32 {found[1] if whole else 'd'}, c; "
                        + ("}" if whole else f"selp.b16 e, {', '.join(halves)}, {found[4]}; "
                           f"or.b16 {found[1]}, d, e; }}"))
    return "\n".join(lines)


def _results(line: str) -> str:
    """What an instruction may set: its first operand, or the vector that this is."""
    operands = line.split("\t")[-1]
    return operands.split("}" if operands.startswith("{") else ",")[0]
