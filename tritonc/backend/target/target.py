"""The GPUs that can be compiled for, as data: limits, features and the PTX version to write.

Passes and emitters ask a `Target` for fields and features; none compares version numbers.  What the
hardware and the assembler have is one table, `FEATURES`: the least compute capability and PTX
version of each feature.  An instruction must not reach LLVM unless its feature is there, for LLVM
ends the process when it cannot select one; `require` turns that into a located error.

Sources: CUDA C++ Programming Guide, "Compute Capabilities"; PTX ISA, "Target ISA Notes" of each
instruction; the pairs were confirmed by assembling.  Names of GPUs: developer.nvidia.com/cuda-gpus.
"""

from tritonc.records import NamedTuple
from tritonc.source import Note, Span, fail
from tritonc.spelling import closest


class Feature(NamedTuple):
    """From capability `sm` and PTX version `ptx` on.

    With `only`, instead, in the architecture-specific targets (sm_90a) of those capabilities."""

    sm: int
    ptx: int
    what: str  # for messages: what the program wanted
    only: tuple[int, ...] = ()


FEATURES: dict[str, Feature] = {
    # memory
    "async_copy": Feature(80, 70, "asynchronous copies to shared memory (cp.async)"),
    "async_copy_ignore": Feature(80, 75, "asynchronous copies under a predicate"),
    "mbarrier_transactions": Feature(90, 80, "barriers that count bytes (mbarrier expect_tx)"),
    "tma_load": Feature(90, 80, "TMA loads (cp.async.bulk.tensor)"),
    "tensor_map": Feature(90, 83, "tensor maps made by kernels", (90, 100, 103, 120)),
    "wide_access": Feature(100, 88, "accesses of 32 bytes"),
    "l1_hint": Feature(70, 74, "hints for the L1 cache"),
    "cluster": Feature(90, 80, "clusters of blocks"),
    # atomics
    "atomic_order": Feature(70, 60, "atomics that acquire and release"),
    "atomic_f16": Feature(70, 63, "atomic addition of f16"),
    "atomic_bf16": Feature(90, 78, "atomic addition of bf16"),
    "atomic_vector": Feature(90, 81, "atomic additions of several floats"),
    # matrix instructions
    "ldmatrix": Feature(75, 65, "ldmatrix"),
    "stmatrix": Feature(90, 78, "stmatrix"),
    "mma_f16_k8": Feature(75, 65, "mma.sync m16n8k8 of f16"),
    "mma_s8_k16": Feature(75, 65, "mma.sync m8n8k16 of 8-bit integers"),
    "mma_f16": Feature(80, 70, "mma.sync m16n8k16 of f16"),
    "mma_bf16": Feature(80, 70, "mma.sync of bf16"),
    "mma_tf32": Feature(80, 70, "mma.sync of tf32"),
    "mma_s8": Feature(80, 70, "mma.sync m16n8k32 of 8-bit integers"),
    "mma_f64": Feature(80, 70, "mma.sync of f64"),
    "mma_f64_k16": Feature(90, 78, "mma.sync m16n8k8 and m16n8k16 of f64"),
    "mma_f8": Feature(89, 84, "mma.sync of 8-bit floats"),
    "wgmma": Feature(90, 80, "wgmma", (90,)),
    # arithmetic
    "bf16_fma": Feature(80, 70, "fused multiply-add of bf16"),
    "bf16_arithmetic": Feature(90, 78, "arithmetic in bf16"),
    "halves": Feature(90, 80, "minima and maxima of two integers of 16 bits at once"),
    "f8_conversion": Feature(89, 81, "conversions to 8-bit floats"),
    "integer_pack": Feature(75, 65, "integers packed as they saturate (cvt.pack)"),
    "tanh": Feature(75, 70, "tanh.approx"),
    "reduce_lanes": Feature(80, 70, "reductions of a warp (redux.sync)")}

# PTX versions that LLVM writes, times ten.
PTX_VERSIONS = (60, 61, 62, 63, 64, 65, 70, 71, 72, 73, 74, 75, 76, 77, 78,
                80, 81, 82, 83, 84, 85, 86, 87, 88, 90)  # fmt: skip


class Target(NamedTuple):
    """A GPU architecture.  Sizes in bytes; `ptx` is the PTX version to write, times ten."""

    name: str
    capability: int
    gpus: str  # that people know, for help
    ptx: int
    least_ptx: int
    shared_per_block: int  # the most that a launch may ask for
    shared_per_multiprocessor: int
    threads_per_multiprocessor: int
    blocks_per_multiprocessor: int
    multiprocessors: int  # of the usual part, for cost models
    features: frozenset[str] = frozenset()
    static_shared: int = 48 * 1024  # the most that needs no permission from the host
    shared_reserved: int = 0  # per block, by the system
    registers_per_multiprocessor: int = 65536
    registers_per_thread: int = 255
    partitions: int = 4  # of a multiprocessor, each with its share of warps and registers
    threads_per_block: int = 1024
    warp_size: int = 32

    @property
    def access_bytes(self) -> int:
        """The most that one access of global memory moves."""
        return 32 if "wide_access" in self.features else 16

    def resident(self, threads: int, registers: int, shared: int) -> int:
        """How many blocks of so many threads a multiprocessor can hold (CUDA C++ Programming Guide,
        occupancy); registers of a thread, bytes of shared memory of a block.

        A warp takes registers in units of 256, a block shared memory in units of 128 bytes.

        >>> find("sm_80").resident(128, 128, 0), find("sm_90a").resident(256, 32, 100 << 10)
        (4, 2)
        """
        warps = -(-threads // self.warp_size)
        held = -(-max(registers, 1) * self.warp_size // 256) * 256 * warps
        memory = -(-(shared + self.shared_reserved) // 128) * 128
        return min(self.registers_per_multiprocessor // held,
                   self.threads_per_multiprocessor // (warps * self.warp_size),
                   self.blocks_per_multiprocessor,
                   self.shared_per_multiprocessor // max(memory, 1))

    def require(self, feature: str, span: Span | None) -> None:
        """Raise a CompileError at `span` unless the target has the feature."""
        if feature in self.features:
            return
        row = FEATURES[feature]
        raise fail("target-lacks-feature", span, f"{self.name} has no {row.what}",
                   Note(f"it needs {_where(row)}"))


def _where(row: Feature) -> str:
    version = f"PTX {row.ptx // 10}.{row.ptx % 10}"
    if row.only:
        return f"{' or '.join(f'sm_{sm}a' for sm in row.only)}, and {version}"
    return f"sm_{row.sm} or later, and {version}"


def _features(capability: int, specific: bool, ptx: int) -> frozenset[str]:
    return frozenset(
        name for name, row in FEATURES.items() if ptx >= row.ptx
        and (specific and capability in row.only if row.only else capability >= row.sm))


def _targets(capability: int, gpus: str, ptx: int, least_ptx: int, shared: int,
             shared_of_multiprocessor: int, threads: int, blocks: int, multiprocessors: int
             ) -> list[Target]:
    """The targets of a capability; `shared` in KiB, `ptx` the least that has all features."""
    return [Target(
        f"sm_{capability}{suffix}", capability, gpus, ptx, least_ptx, shared * 1024,
        shared_of_multiprocessor * 1024, threads, blocks, multiprocessors,
        _features(capability, bool(suffix), ptx), shared_reserved=1024 if capability >= 80 else 0,
        partitions=2 if capability == 60 else 4)
        for suffix in (("", "a") if capability >= 90 else ("",))]


TARGETS: dict[str, Target] = {target.name: target for targets in (
    _targets(60, "P100", 63, 60, 48, 64, 2048, 32, 56),
    _targets(61, "P40, P4, GeForce 10", 63, 60, 48, 96, 2048, 32, 28),
    _targets(70, "V100", 74, 60, 96, 96, 2048, 32, 80),
    _targets(75, "T4, GeForce 16 and 20", 74, 63, 64, 64, 1024, 16, 40),
    _targets(80, "A100, A30", 75, 70, 163, 164, 2048, 32, 108),
    _targets(86, "A40, A10, RTX A6000, GeForce 30", 75, 71, 99, 100, 1536, 16, 84),
    _targets(87, "Jetson Orin", 75, 74, 163, 164, 1536, 16, 16),
    _targets(89, "L40, L4, GeForce 40", 84, 78, 99, 100, 1536, 24, 142),
    _targets(90, "H100, H200", 86, 80, 227, 228, 2048, 32, 132),
    _targets(100, "B200", 88, 86, 227, 228, 2048, 32, 148),
    _targets(103, "B300", 88, 88, 227, 228, 2048, 32, 160),
    _targets(120, "RTX PRO Blackwell, GeForce 50", 88, 87, 99, 100, 1536, 24, 170),
) for target in targets}


def find(name: str, ptx: str | None = None, span: Span | None = None) -> Target:
    """The target called `name`, writing PTX version `ptx` ("8.3") or the target's own.

    Raises CompileError for a name or a version that does not exist or do not go together.

    >>> find("sm_90a").ptx, "wgmma" in find("sm_90a").features, "wgmma" in find("sm_90").features
    (86, True, False)
    >>> find("sm_80", "7.0").ptx
    70
    """
    target = TARGETS.get(name)
    if target is None:
        close = closest(name, TARGETS)
        hint = Note(f"did you mean {close}?") if close else None
        raise fail("unknown-target", span, f"there is no target '{name}'",
                   *([hint] if hint else []), Note(f"targets: {', '.join(TARGETS)}"),
                   suggestion=close)
    if ptx is None:
        return target
    whole, _, part = ptx.partition(".")
    version = int(whole + part) if whole.isdecimal() and len(part) == 1 and part.isdecimal() else 0
    if version not in PTX_VERSIONS or version < target.least_ptx:
        known = [f"{v // 10}.{v % 10}" for v in PTX_VERSIONS if v >= target.least_ptx]
        raise fail("unknown-ptx-version", span, f"{name} cannot be written in PTX {ptx}",
                   Note(f"versions for {name}: {', '.join(known)}"))
    return target._replace(ptx=version, features=_features(
        target.capability, name.endswith("a"), version))
