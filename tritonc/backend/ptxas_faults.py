"""What NVIDIA's assembler gets wrong, or takes registers for, and what is written instead.

`options.WORKAROUNDS` names each; `--no-workaround=NAME` leaves one out, to see whether a newer
ptxas still needs it.  "negations" does not rewrite PTX: `emit/floats/negations` finds its places.
"""

import re
from collections import Counter

from tritonc.options import Options


def worked_around(ptx: str, options: Options) -> str:
    """The PTX with all rewritings that the options leave in."""
    for name, rewrite in (("high-halves", separate_high_halves), ("extents", read_extents_late)):
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
    a convolution's taps, by a constant, got another row's sum).  IMAD.WIDE has no such sum.
    """
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
    there a thread has fewer registers than the bodies leave (`setmaxnreg`), so it spills them.
    """
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
