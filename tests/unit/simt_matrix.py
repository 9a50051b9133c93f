"""What `simt` leaves out: matrix instructions that go through memory, tensor maps, copies of boxes.

A warpgroup's product reads shared memory by its descriptors as PTX defines them ("Strides",
"Matrix descriptor format"), a copy of a box writes it as "TMA loads: swizzling modes" says; so
what a kernel computes is right only if layouts, descriptors and maps agree with the definition.
Copies land at once and products end at once: races are for the simulation of machine operations.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from simt import SHARED, Lanes, Machine, split, typed
from simt_functions import places

from tritonc.ir.layouts.fragment import a_fragment, accumulator_fragment
from tritonc.ir.numeric.formats import from_memory, memory_dtype, round_to_tf32
from tritonc.ir.types import BF16, F8E4M3, F8E5M2, F16, F32, I8, Scalar

OPERANDS = {"f16": F16, "bf16": BF16, "tf32": F32, "e4m3": F8E4M3, "e5m2": F8E5M2, "s8": I8}
GROUP = 128  # threads of a warpgroup
_ELEMENT_BYTES = {0: 1, 1: 2, 2: 4, 4: 8, 11: 4}  # of the element codes of tensor maps


@dataclass
class Barrier:
    """An mbarrier: `arrivals` to come of `count`, and bytes."""

    count: int
    arrivals: int
    bytes: int = 0
    phase: int = 0

    def settle(self) -> None:
        if self.arrivals == 0 and self.bytes == 0:
            self.phase ^= 1
            self.arrivals = self.count


@dataclass
class Descriptor:
    """A matrix in shared memory, as wgmma is told."""

    start: int
    leading: int
    stride: int
    swizzle: int

    def bytes_at(self, rows: Any, column_bytes: Any, transposed: bool) -> Any:
        """The addresses of the bytes `column_bytes` of each of `rows`; K-major: rows are m or n.

        `transposed`: rows are k, and bytes count along m or n.
        """
        s = self.swizzle or 16
        if self.swizzle == 0 and transposed:
            at = (rows // 8) * self.leading + (column_bytes // s) * self.stride
        elif self.swizzle == 0 or transposed:
            at = (rows // 8) * self.stride + (column_bytes // s) * self.leading
        else:
            at = (rows // 8) * self.stride + column_bytes
            assert (column_bytes < 32).all()
        if self.swizzle == 0 or transposed:
            column_bytes = column_bytes % s
            at = at + column_bytes
        return swizzled(self.start + at + (rows % 8) * s, self.swizzle)


def descriptor(word: int) -> Descriptor:
    fields = [word >> low & (1 << 14) - 1 for low in (0, 16, 32)]
    assert word >> 49 & 7 == 0, "a base offset"
    return Descriptor(*(16 * f for f in fields), {0: 0, 1: 128, 2: 64, 3: 32}[word >> 62])


def swizzled(address: Any, swizzle: int) -> Any:
    """The address bits from 7 on, XORed onto those from 4 on: 3, 2, 1 or none of them."""
    return address ^ (address >> 7 & swizzle // 16 - 1 if swizzle else 0 * address) << 4


def read_matrix(memory: Any, word: int, rows: int, depth: int, e: Scalar, transposed: bool) -> Any:
    """The raw elements [rows, depth] that a descriptor names; `rows` counts m or n."""
    at = _matrix_bytes(word, rows, depth, e.bytes, transposed)
    return np.ascontiguousarray(memory[at]).view(f"u{e.bytes}")[..., 0]


@lru_cache(64)  # loops read what they read before
def _matrix_bytes(word: int, rows: int, depth: int, size: int, transposed: bool) -> Any:
    mn, k, byte = np.ix_(np.arange(rows), np.arange(depth), np.arange(size))
    row, column = (k, mn) if transposed else (mn, k)
    return descriptor(word).bytes_at(*np.broadcast_arrays(row, column * size + byte), transposed)


@dataclass
class TensorMap:
    """The fields of a map in the making."""

    fields: dict[str, Any] = field(default_factory=dict)


class Box(NamedTuple):
    """A box of a tensor in global memory, in elements but for `base`, `pitch` and `size`."""

    base: int
    pitch: int
    size: int
    box: list[int]
    extent: list[int]
    start: list[int]
    swizzle: int
    element: int


class MatrixMachine(Machine):
    """Also knows wgmma, ldmatrix, stmatrix, mbarrier and TMA loads."""

    def __init__(self, text: str, memory: Any, threads: int,
                 chance: random.Random | None = None) -> None:
        self.barriers: dict[int, Barrier] = {}
        self.maps: dict[int, TensorMap] = {}
        self.seen: set[str] = set()  # the instructions that ran
        self.uncommitted = np.zeros(threads, bool)  # products of warpgroups
        self.flying: list[Callable[[], None]] = []  # boxes that have not landed
        super().__init__(text, memory, threads, chance)

    def _global(self, line: str) -> None:
        found = re.match(
            r"(@tensor_\w+) = internal addrspace\(1\) global \[(\d+) x (i8|i32)\]", line)
        if found is None:
            super()._global(line)
            return
        kind = np.uint8 if found[3] == "i8" else np.uint32
        self.globals[found[1]] = self.memory.allocate(np.zeros(int(found[2]), kind), found[1])
        assert self.globals[found[1]] % 128 == 0 or kind == np.uint32

    def _call(self, env: dict[str, Lanes], rest: str, active: Any) -> Lanes:
        if "wgmma." in rest or "tensormap.cp_fenceproxy" in rest:
            head = re.match(r'(.*?) asm sideeffect "([^"]*)", "([^"]*)"\((.*)\) #2', rest)
            assert head, rest
            arguments = [self.value(env, *typed(a)) for a in split(head[4])]
            if "tensormap" in rest:
                return self._publish(arguments, active)
            return self._warpgroup(head[2].replace("\\0A", "\n"), head[3], arguments, active)
        head = re.match(r"(.*?) @llvm\.nvvm\.([\w.]+)\(", rest)
        if head is not None:
            for prefix, handler in _INTRINSICS.items():
                if head[2].startswith(prefix):
                    self.seen.add(head[2])
                    inside = rest[head.end() : rest.rindex(")")]
                    values = [self.value(env, *typed(a)) for a in split(inside)]
                    return handler(self, head[2], values, active)
        return super()._call(env, rest, active)

    def _atomicrmw(self, env: dict[str, Lanes], rest: str, active: Any) -> Lanes:
        if not rest.startswith("xchg"):
            return super()._atomicrmw(env, rest, active)
        assert active.sum() == 1
        pointer, value = split(rest.removeprefix("xchg "))
        space, text = typed(pointer)
        address = self.value(env, space, text)
        old = self.read(address, 4, space, active)
        new = np.full(self.threads, int(value.split()[1]), np.uint32)
        self.write(address, new, 4, space, active)
        return old

    # warps

    def whole_warps(self, active: Any) -> Any:
        warps = active.reshape(-1, 32)
        assert (warps.all(1) | ~warps.any(1)).all(), "a warp that is not whole"
        return active

    def shuffle(self, name: str, v: list[Lanes], active: Any) -> Lanes:
        self.whole_warps(active)
        lane = np.arange(self.threads)
        segment = v[3].astype(np.int64) >> 8 & 31
        source = lane & segment | v[2].astype(np.int64) & ~segment & 31
        if "bfly" in name:
            source = (lane & 31) ^ source
        else:
            assert "idx" in name
        return v[1][(lane & ~31) | source]

    def sync_warp(self, name: str, v: list[Lanes], active: Any) -> Lanes:
        self.whole_warps(active)

    def load_matrix(self, name: str, v: list[Lanes], active: Any) -> Lanes:
        """Lane l gets 4 bytes of row l / 4, or column l / 4 of two rows."""
        self.whole_warps(active)
        count = int(name.partition(".x")[2][0])
        address = v[0].astype(np.int64) - SHARED
        assert not (address % 16).any()
        thread = np.arange(self.threads)
        lane, warp = thread & 31, thread & ~31
        found = []
        for matrix in range(count):
            tellers = warp + 8 * matrix
            if ".trans" in name:
                rows = [address[tellers + 2 * (lane % 4) + i] for i in (0, 1)]
                low, high = (self._bytes(row + 2 * (lane // 4), 2) for row in rows)
                found.append(low.astype(np.uint32) | high.astype(np.uint32) << 16)
            else:
                found.append(self._bytes(address[tellers + lane // 4] + 4 * (lane % 4), 4))
        return found[0] if count == 1 else found

    def store_matrix(self, name: str, v: list[Lanes], active: Any) -> Lanes:
        self.whole_warps(active)
        address = v[0].astype(np.int64) - SHARED
        assert not (address[active] % 16).any()
        thread = np.nonzero(active)[0]
        lane, warp = thread & 31, thread & ~31
        for matrix, words in enumerate(v[1:]):
            for i in (0, 1):
                row, column = lane // 4, 2 * (lane % 4) + i
                if ".trans" in name:
                    row, column = column, row
                at = address[warp + 8 * matrix + row] + 2 * column
                for byte in (0, 1):
                    shift = np.uint32(16 * i + 8 * byte)
                    self.shared[at + byte] = words[thread] >> shift & np.uint32(255)
        return None

    def _bytes(self, address: Any, size: int) -> Any:
        return np.ascontiguousarray(self.shared[address[:, None] + np.arange(size)]).view(
            f"u{size}")[:, 0]

    # warpgroups

    def _warpgroup(self, text: str, constraints: str, arguments: list[Lanes], active: Any) -> Lanes:
        parts = constraints.split(",")
        outputs = sum(p.startswith("=") for p in parts)
        tied = [int(p) for p in parts if p.isdigit()]
        assert tied in ([], list(range(outputs)))
        groups = active.reshape(-1, GROUP)
        assert (groups.all(1) | ~groups.any(1)).all(), "a part of a warpgroup"
        registers: list[Any] = [None] * outputs + arguments
        for i in tied:
            registers[i] = np.array(arguments[i])
        if not tied:
            assert all(p.startswith("=&") for p in parts[:outputs]), "not early"
        virtual: dict[str, Any] = {}
        fenced = committed = False
        for statement in filter(None, re.split(r"[;\n]\s*", text)):
            if statement.strip() in ("{", "}") or statement.startswith(".reg"):
                continue
            op, _, rest = statement.partition(" ")
            if op == "add.s64":
                to, source, number = split(rest)
                virtual[to] = registers[int(source[1:])] + np.uint64(int(number))
            elif op in ("add.u32", "mov.b32"):
                to, source, *number = split(rest)
                virtual[to] = registers[int(source[1:])] + np.uint32(sum(map(int, number)))
            elif op == "mov.b64":
                to, low, high = re.findall(r"\w+", rest)
                virtual[to] = virtual[low].astype(np.uint64) + (np.uint64(int(high))
                                                                << np.uint64(32))
            elif op.startswith("wgmma.mma_async"):
                assert fenced and not committed
                self.seen.add(op)
                self._multiply(op, rest, registers, virtual, active)
            elif op.startswith("wgmma.fence"):
                fenced = True
            elif op.startswith("wgmma.commit"):
                committed = True
            else:
                assert op == "wgmma.wait_group.sync.aligned", statement
                assert not self.uncommitted[active].any()
        assert fenced or not committed
        # The next steps of a product follow.
        self.uncommitted[active] = (fenced | self.uncommitted[active]) & (not committed)
        return registers[:outputs] if outputs > 1 else registers[0]

    def _multiply(self, op: str, rest: str, registers: list[Any], virtual: dict[str, Any],
                  active: Any) -> None:
        found = re.search(r"m64n(\d+)k(\d+)\.(\w+)\.(\w+)\.", op)
        assert found
        columns, depth, e = int(found[1]), int(found[2]), OPERANDS[found[4]]
        totals, a, b, scale, *more = split(rest)
        total = [int(n) for n in re.findall(r"\d+", totals)]
        assert len(total) == columns // 2
        turned = [m == "1" for m in more[2:]]  # after the signs of A and B
        in_registers = a[0] == "{"
        if not in_registers:
            turned = turned or [False, False]
        b_turned = turned[-1] if turned else False
        if e in (F16, BF16):
            assert len(more) == (3 if in_registers else 4)
        else:
            assert len(more) == (0 if e == I8 else 2)
        padded = 1 << (columns - 1).bit_length()  # the first registers have the first columns
        layout = accumulator_fragment(64, padded)
        for first in np.nonzero(active)[0][::GROUP]:
            if in_registers:
                words = [registers[int(n)] for n in re.findall(r"\d+", a)]
                left = self._fragment(words, first, e, depth)
            else:
                word = self._one(a, registers, virtual, first)
                left = self._matrix(word, 64, depth, e, turned[0])
            word = self._one(b, registers, virtual, first)
            right = self._matrix(word, columns, depth, e, b_turned)
            product = left @ right.T if more[:1] != ["-1"] else -left @ right.T
            product = np.pad(product, ((0, 0), (0, padded - columns)))
            for at, number in zip(places(layout), total, strict=padded == columns):
                one = product.reshape(-1)[at]
                if registers[number] is None:
                    kind = np.uint32 if e == I8 else np.float32
                    registers[number] = np.full(self.threads, 77777, kind)  # nobody's number
                here = registers[number][first : first + GROUP]
                if e == I8:
                    one = one.astype(np.int64).astype(np.uint32)
                registers[number][first : first + GROUP] = one if scale == "0" else here + one

    def _one(self, name: str, registers: list[Any], virtual: dict[str, Any], first: int) -> int:
        """A descriptor, which all threads of the group must agree on."""
        words = virtual[name] if name in virtual else registers[int(name[1:])]
        words = words[first : first + GROUP]
        assert (words == words[0]).all(), "threads of a warpgroup disagree"
        return int(words[0])

    def _matrix(self, word: int, rows: int, depth: int, e: Scalar, turned: bool) -> Any:
        raw = read_matrix(self.shared, word, rows, depth, e, turned)
        return numbers(e, raw)

    def _fragment(self, words: list[Any], first: int, e: Scalar, depth: int) -> Any:
        layout = a_fragment(64, depth, e.bits)
        tile = np.zeros(layout.size, f"u{e.bytes}")
        for i, word in enumerate(words):
            each = np.ascontiguousarray(word[first : first + GROUP]).view(f"u{e.bytes}")
            each = each.reshape(GROUP, -1)
            for j in range(each.shape[1]):
                tile[places(layout)[i * each.shape[1] + j]] = each[:, j]
        return numbers(e, tile.reshape(layout.shape))

    # tensor maps and copies

    def replace(self, name: str, v: list[Lanes], active: Any) -> Lanes:
        assert active.sum() == 1
        place = self._address(v[0], active)
        assert not self.shared[place : place + 128].any() or place in self.maps
        made = self.maps.setdefault(place, TensorMap())
        key = name.removeprefix("tensormap.replace.").removesuffix(".p3")
        values = [int(x[active][0]) for x in v[1:]]
        if len(values) == 2:
            key = f"{key}.{values[0]}"
        made.fields[key] = values[-1]

    def _address(self, pointer: Lanes, active: Any) -> int:
        return int(pointer[active][0]) - SHARED

    def _publish(self, arguments: list[Lanes], active: Any) -> Lanes:
        assert self.whole_warps(active).sum() == 32
        to, source = int(arguments[0][active][0]), int(arguments[1][active][0]) - SHARED
        assert to % 128 == 0 and source % 128 == 0
        self.maps[to] = self.maps.pop(source)

    def barrier_init(self, name: str, v: list[Lanes], active: Any) -> Lanes:
        assert active.sum() == 1
        count = int(v[1][active][0])
        self.barriers[self._address(v[0], active)] = Barrier(count, count)

    def expect(self, name: str, v: list[Lanes], active: Any) -> Lanes:
        assert active.sum() == 1
        barrier = self.barriers[self._address(v[0], active)]
        barrier.bytes += int(v[1][active][0])
        barrier.arrivals -= 1
        barrier.settle()
        return np.zeros(self.threads, np.uint64)

    def arrive(self, name: str, v: list[Lanes], active: Any) -> Lanes:
        for t in np.nonzero(active)[0]:
            barrier = self.barriers[int(v[0][t]) - SHARED]
            barrier.arrivals -= 1
            assert barrier.arrivals >= 0, "too many arrivals"
            barrier.settle()
        return np.zeros(self.threads, np.uint64)

    def try_wait(self, name: str, v: list[Lanes], active: Any) -> Lanes:
        done = np.zeros(self.threads, bool)
        for t in np.nonzero(active)[0]:
            done[t] = self.barriers[int(v[0][t]) - SHARED].phase != int(v[1][t])
        self.stalled = not done.any()
        return done

    def _box(self, number: int, starts: list[int]) -> Box:
        """The box of a map that begins at `starts`, of a tensor of two axes or more."""
        fields = self.maps[number].fields
        rank = fields["rank"] + 1
        assert rank == len(starts) >= 2
        assert all(fields[f"element.stride.{d}"] == 1 for d in range(rank))
        assert fields["interleave.layout"] == fields["fill.mode"] == 0
        size = _ELEMENT_BYTES[fields["elemtype"]]
        box = [fields[f"box.dim.{d}"] for d in range(rank)]
        extent = [fields[f"global.dim.{d}"] for d in range(rank)]
        pitches = [fields[f"global.stride.{d}"] for d in range(rank - 1)]
        base = fields["global.address"]
        start = [s - (s >> 31 << 32) for s in starts]
        swizzle = {0: 0, 1: 32, 2: 64, 3: 128}[fields["swizzle.mode"]]
        assert base % 16 == 0 and all(p % 16 == 0 for p in pitches) and start[0] * size % 16 == 0
        assert min(extent) >= 1 and max(box) <= 256 and all(n == 1 for n in box[2:])
        assert box[0] * size == swizzle and box[0] <= self.threads
        for d in range(2, rank):  # one slice
            base += start[d] * pitches[d - 1]
            if not 0 <= start[d] < extent[d]:
                extent[1] = 0
        return Box(base, pitches[0], size, box, extent, start, swizzle, fields["elemtype"])

    def copy_box(self, name: str, v: list[Lanes], active: Any) -> Lanes:
        assert active.sum() == 1
        axes = int(re.search(r"\.(\d)d", name)[1])  # type: ignore[index]
        to, barrier, tensor, *starts = (int(x[active][0]) for x in v[: 3 + axes])
        box = self._box(tensor, starts)
        assert to % (8 * box.swizzle) == 0
        self.flying.append(lambda: self._land(box, to, barrier))
        if self.chance is None:
            self.flying.pop()()

    def land(self, must: bool) -> bool:
        if self.chance is None or not self.flying:
            return False
        self.flying.pop(self.chance.randrange(len(self.flying)))()
        return True

    def _land(self, box: Box, to: int, barrier: int) -> None:
        for row in range(box.box[1]):
            line = np.zeros(box.swizzle, np.uint8)
            at, inside = self._line(box, row)
            if inside.any():
                read = self.read(at, box.size, "global", inside)
                line = read[: box.box[0]].view(np.uint8)
            if box.element == 11:
                line = round_to_tf32(line.view(np.float32)).view(np.uint8)
            place = to - SHARED + row * box.swizzle + np.arange(box.swizzle)
            self.shared[swizzled(place, box.swizzle)] = line
        waiting = self.barriers[barrier - SHARED]
        waiting.bytes -= box.box[0] * box.box[1] * box.size
        assert waiting.bytes >= 0
        waiting.settle()

    def _line(self, box: Box, row: int) -> tuple[Any, Any]:
        """The addresses of a row of a box, one for each thread, and which of them are inside."""
        lane = np.arange(self.threads)
        x, y = box.start[0] + lane, box.start[1] + row
        inside = (lane < box.box[0]) & (x >= 0) & (x < box.extent[0]) & (0 <= y < box.extent[1])
        return (box.base + y * box.pitch + x * box.size).astype(np.uint64), inside

    def store_box(self, name: str, v: list[Lanes], active: Any) -> Lanes:
        """What lies outside of the tensor is not written.  One thread, or one of each group."""
        if active.sum() > 1:
            assert not (np.nonzero(active)[0] % GROUP).any()
            for thread in np.nonzero(active)[0]:
                self.store_box(name, v, np.arange(self.threads) == thread)
            return None
        axes = int(re.search(r"\.(\d)d", name)[1])  # type: ignore[index]
        source, tensor, *starts = (int(x[active][0]) for x in v[: 2 + axes])
        box = self._box(tensor, starts)
        assert source % (8 * box.swizzle) == 0
        self.copy(("box", int(np.argmax(active))), lambda: self._leave(box, source))
        return None

    def _leave(self, box: Box, source: int) -> None:
        for row in range(box.box[1]):
            place = source - SHARED + row * box.swizzle + np.arange(box.swizzle)
            line = self.shared[swizzled(place, box.swizzle)].view(f"u{box.size}")
            at, inside = self._line(box, row)
            if inside.any():
                values = np.zeros(self.threads, line.dtype)
                values[: box.box[0]] = line
                self.write(at, values, box.size, "global", inside)

    def commit_boxes(self, name: str, v: list[Lanes], active: Any) -> Lanes:
        for thread in np.nonzero(active)[0].tolist():
            self.commit(("box", thread))

    def wait_boxes(self, name: str, v: list[Lanes], active: Any) -> Lanes:
        for thread in np.nonzero(active)[0].tolist():
            self.wait(("box", thread), int(v[0][0]))

    def nothing(self, name: str, v: list[Lanes], active: Any) -> Lanes:
        return None


def numbers(e: Scalar, raw: Any) -> Any:
    """Elements of memory as numbers to multiply."""
    held = np.ascontiguousarray(raw).view(memory_dtype(e))
    if e == F32:  # of a tf32, the hardware reads the upper bits
        held = (raw & 0xFFFFE000).view(np.float32)
    return held.astype(np.int64) if e == I8 else from_memory(e, held).astype(np.float64)


_INTRINSICS: dict[str, Any] = {
    "shfl.sync": MatrixMachine.shuffle,
    "bar.warp.sync": MatrixMachine.sync_warp,
    "ldmatrix": MatrixMachine.load_matrix,
    "stmatrix": MatrixMachine.store_matrix,
    "tensormap.replace": MatrixMachine.replace,
    "mbarrier.init": MatrixMachine.barrier_init,
    "mbarrier.arrive.expect.tx": MatrixMachine.expect,
    "mbarrier.arrive": MatrixMachine.arrive,
    "mbarrier.try.wait.parity": MatrixMachine.try_wait,
    "cp.async.bulk.tensor.g2s.tile": MatrixMachine.copy_box,
    "cp.async.bulk.tensor.s2g.tile": MatrixMachine.store_box,
    "cp.async.bulk.commit.group": MatrixMachine.commit_boxes,
    "cp.async.bulk.wait.group": MatrixMachine.wait_boxes,
    "fence": MatrixMachine.nothing,
}
