"""Names of Triton, CUDA, HIP, OpenCL and NumPy, and what to write here.

`VOCABULARY` has, by language, each name and its replacement: messages about unknown names, and the
page docs/coming_from.md, read it.  In a replacement, what stands between backquotes is code.
"""

from __future__ import annotations

_SUMS = "`a[+]`, or `sum(a, axis)`"

VOCABULARY: dict[str, dict[str, str]] = {
    "triton": {
        "program_id": "`get_program_id(axis)`",
        "num_programs": "`get_num_programs(axis)`",
        "arange": "`a ... b` is the tile a, a + 1, ..., b - 1",
        "make_block_ptr": "a tile of pointers, as in `p + i[:, newaxis] * stride + j`; the "
                          "compiler finds the block",
        "make_tensor_descriptor": "a tile of pointers, as in `p + i[:, newaxis] * stride + j`; the "
                                  "compiler finds the block",
        "advance": "`p += step`, of a tile of pointers",
        "zeros": "a scalar fills a tile, as in `float x[16, 16] = 0`",
        "full": "a scalar fills a tile, as in `float x[16, 16] = 1`",
        "zeros_like": "a scalar fills a tile, as in `float x[16, 16] = 0`",
        "where": "`select(c, a, b)`, or `c ? a : b`",
        "to": "`(half)x` converts",
        "cast": "`(half)x` converts",
        "expand_dims": "`x[:, newaxis]`",
        "view": "`reshape(x, extents...)`",
        "ravel": "`reshape(x, count)`",
        "broadcast_to": "`broadcast(x, extents...)`",
        "interleave": "`reshape(join(a, b), count)`",
        "sigmoid": "`1 / (1 + exp(-x))`",
        "softmax": "`exp(x - max(x, axis)[:, newaxis])` divided by its sum",
        "argsort": "`sort` gives values; put the index into the low bits of what is sorted",
        "associative_scan": "`scan(x, axis, f)`, with f a function of the program",
        "xor_sum": "`x[^]`",
        "range": "`for (int i = a; i < b; i += c)`; a tile is `a ... b`",
        "static_range": "`for (int i = a; i < b; i += c)`",
        "tl": "builtin functions have no prefix: `dot(a, b)`",
        "device_print": "`printf(format, values...)`",
        "device_assert": "`assert(condition, text)`",
        "debug_barrier": "`__debug_barrier()`",
        "max_contiguous": "`multiple_of(x, n)`; the compiler finds contiguity itself",
        "max_constancy": "nothing: the compiler finds it",
        "inline_asm_elementwise": "there is no inline assembly",
        "num_warps": "`--tune num_warps=`, or a tuning file",
        "libdevice": "builtin functions have no prefix: `pow(x, y)`",
    },
    "cuda": {
        **dict.fromkeys(("threadIdx", "hipThreadIdx_x"),
                        "there are no threads in a program: `get_global_range(0)` is the tile of "
                        "this instance's indices"),
        **dict.fromkeys(("blockIdx", "hipBlockIdx_x"), "`get_program_id(axis)`"),
        **dict.fromkeys(("blockDim", "hipBlockDim_x"),
                        "the extent of a tile is a constant; the compiler chooses the number of "
                        "threads"),
        **dict.fromkeys(("gridDim", "hipGridDim_x"), "`get_num_programs(axis)`"),
        **dict.fromkeys(("warpSize", "__lane_id", "__activemask"),
                        "there are no warps in a program; a tile is spread over them"),
        **dict.fromkeys(("__syncthreads", "__syncwarp", "__builtin_amdgcn_s_barrier"),
                        "nothing: the compiler orders accesses of one instance that may overlap"),
        **dict.fromkeys(("__threadfence", "__threadfence_block", "__threadfence_system"),
                        "atomics order what other instances see: see Atomics and locks"),
        **dict.fromkeys(("__shfl_sync", "__shfl_xor_sync", "__shfl_up_sync", "__shfl_down_sync",
                         "__shfl", "__shfl_xor"),
                        "`sum(x, axis)`, `scan(x, axis)` and `gather(x, index, axis)` work across "
                        "the elements of a tile"),
        **dict.fromkeys(("__ballot_sync", "__any_sync", "__all_sync"), "`any(x)`, `all(x)`"),
        **dict.fromkeys(("__reduce_add_sync",), _SUMS),
        "__ldg": "`*p` loads; the compiler uses the read-only cache where it can",
        "__ffs": "`ctz(x) + 1`",
        **dict.fromkeys(("atomicAdd", "unsafeAtomicAdd"), "`atomic_add(p, v)`"),
        "atomicSub": "`atomic_add(p, -v)`",
        "atomicMax": "`atomic_max(p, v)`",
        "atomicMin": "`atomic_min(p, v)`",
        "atomicAnd": "`atomic_and(p, v)`",
        "atomicOr": "`atomic_or(p, v)`",
        "atomicXor": "`atomic_xor(p, v)`",
        "atomicExch": "`atomic_xchg(p, v)`",
        "atomicCAS": "`atomic_cas(p, compare, v)`",
        "atomicInc": "`atomic_add(p, 1)`; a limit takes a loop with `atomic_cas`",
        **dict.fromkeys(("fmaxf", "fmax"), "`max(a, b)`"),
        **dict.fromkeys(("fminf", "fmin"), "`min(a, b)`"),
        **dict.fromkeys(("__fmaf_rn", "__fma_rn"), "`fma(a, b, c)`"),
        "__fdividef": "`a / b`; `-ffast-math` allows an approximation",
        "__saturatef": "`clamp(x, 0, 1)`",
        "__sincosf": "`sin(x)` and `cos(x)`",
        "sincosf": "`sin(x)` and `cos(x)`",
        "normcdf": "`0.5 * erfc(-x * 0.70710678)`",
        "normcdff": "`0.5 * erfc(-x * 0.70710678)`",
        "tgamma": "`exp(lgamma(x))`, of positive numbers",
        "frexp": "`frexp_fraction(x)` and `frexp_exponent(x)`",
        "modf": "`trunc(x)` and `x - trunc(x)`",
        **dict.fromkeys(("__half2float", "__bfloat162float", "__int2float_rn"), "`(float)x`"),
        **dict.fromkeys(("__float2half", "__float2half_rn"), "`(half)x`"),
        "__float2bfloat16": "`(bfloat16)x`",
        "__float2int_rn": "`(int)rint(x)`",
        "__float2int_rz": "`(int)x`",
        **dict.fromkeys(("__float_as_int", "__float_as_uint"), "`bitcast<int>(x)`"),
        **dict.fromkeys(("__int_as_float", "__uint_as_float"), "`bitcast<float>(x)`"),
        "isnanf": "`isnan(x)`", "isinff": "`isinf(x)`",
        "malloc": "the host allocates memory, and passes pointers to the kernel",
        "memcpy": "`*(q + i) = *(p + i)`, with a tile of indices",
        "memset": "`*(p + i) = 0`, with a tile of indices",
        "cp_async": "a load; the compiler copies asynchronously where that pays",
        "wmma": "`dot(a, b, acc)`",
        "curand_uniform": "`rand(seed, offset)`",
        "curand_normal": "`randn(seed, offset)`",
    },
    "others": {
        **dict.fromkeys(("get_global_id", "get_local_id"),
                        "`get_global_range(axis)` is the tile of this instance's indices"),
        "get_group_id": "`get_program_id(axis)`",
        "barrier": "nothing: the compiler orders accesses of one instance that may overlap",
        "mad": "`fma(a, b, c)`",
        "rotate": "`rotl(x, n)`",
        "popcount": "`popc(x)`",
        "mul_hi": "`mulhi(a, b)`",
        **dict.fromkeys(("axis", "keepdims"), "arguments are given by place, as in `sum(x, 1)`"),
        "len": "extents are constants, which have names where they are declared",
        "matmul": "`a @ b`, or `dot(a, b, acc)`",
        "mean": "`sum(x, axis)` divided by the number of elements",
        "transpose": "`trans(x)`",
        "concatenate": "`cat(a, b, axis)`",
        "stack": "`join(a, b)`",
        "take": "`gather(x, index, axis)`",
        "clip": "`clamp(x, lo, hi)`",
        "power": "`pow(x, y)`",
        "square": "`x * x`",
        **dict.fromkeys(("NULL", "nullptr"), "0 converts to every pointer type"),
    },
}
# Of `tl.NAME`, where NAME is a function here, too, but something says it better.
MEMBERS: dict[str, str] = {
    "load": "`*p` loads, and so does `p[i]`; `mask ? *p : other` loads where the mask holds",
    "store": "`*p = x` stores, and so does `p[i] = x`; `@mask *p = x` where the mask holds",
    "sum": "`v[:, +]`, or `sum(v, axis)`",
    "max": "`v[:, max]`, or `max(v)` of all elements; `max(a, b)` of two tiles",
    "min": "`v[:, min]`, or `min(v)` of all elements; `min(a, b)` of two tiles",
    "dot": "`a @ b`, or `dot(a, b, acc)`",
    "cumsum": "`cumsum(v, axis)`",
    "reduce": "`reduce(v, axis, f)`, with f a function of the program",
    "trans": "`trans(x)`, or `^x`",
    "reshape": "`reshape(x, extents...)`, or `(float[M, N])x`",
    "split": "`split(x)`, whose members are `first` and `second`",
    "topk": "`topk(x, k, axis)`, whose members are `values` and `indices`",
}
FOREIGN: dict[str, str] = {name: text for names in VOCABULARY.values()
                           for name, text in names.items()}


def plain(text: str) -> str:
    """As a message says it: code in quotes, or without if there is nothing else.

    >>> plain("`rotl(x, n)`"), plain("`(half)x` converts")
    ('rotl(x, n)', "'(half)x' converts")
    """
    alone = text.count("`") == 2 and text[0] == text[-1] == "`"
    return text.strip("`") if alone else text.replace("`", "'")
