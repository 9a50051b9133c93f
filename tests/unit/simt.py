"""Runs the LLVM IR that the emitter writes, with no GPU: all threads of a block, in lockstep.

A value is a NumPy array with an element per thread (a list of them for vectors and structs).  Where
threads part at a branch, the block that stands first in the text goes on, with those that wait for
it; so they meet again where the branches join.  Shuffles, and barriers of all, insist that all
threads are there; at a barrier of some, those that come wait until as many have come as it says.
If all wait for ever, that is an error.  Accesses are checked for alignment and for lying in a
buffer; bfloat is held in float32.

With `chance`, warps (warpgroups, where these multiply) go on by themselves in an order that it
says, and copies land at any time up to the wait for them: a barrier too few gives wrong results.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from simt_functions import CALLS, FLOATS, numpy_type, raw, unraw
from simt_functions import asm as run_asm
from simt_text import access, assembly, called, closing, split, typed
from simt_values import BINARY, COMPARE, Lanes, cast, element_types, merge, signed, size_of

from tritonc.interp.memory import Memory

SHARED = 1 << 20  # the address at which shared memory starts, so that 0 is no address


@dataclass
class Meeting:
    """A barrier: who has come since it opened last and who waits, who may go on but has not yet;
    and what those had to say for whom it opened."""

    came: Any
    waiting: Any
    leaving: Any
    said: Any
    count: int = 0
    votes: Any = None


@dataclass
class Function:
    name: str
    parameters: list[tuple[str, str]]
    blocks: dict[str, list[tuple[str, str, str]]] = field(default_factory=dict)
    order: dict[str, int] = field(default_factory=dict)


_INSTRUCTION = re.compile(r"\s+(?:(%\S+) = )?(\w+) ?(.*)")
_METADATA = re.compile(r", !\w+(\.\w+)? !\d+")
_FLAGS = re.compile(r"\b(?:nuw|nsw|disjoint|reassoc|nsz|arcp|contract|afn|volatile)\b ?")


# What atomicrmw makes of what was there and what is given, by kind.
_RMW: dict[str, Any] = {
    "add": np.add, "fadd": np.add, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "min": np.minimum, "max": np.maximum, "umin": np.minimum, "umax": np.maximum,
    "xchg": lambda old, new: new,
}


class Machine:
    """A module, the memory of a launch, and the threads of the block that runs."""

    def __init__(self, text: str, memory: Memory, threads: int,
                 chance: random.Random | None = None) -> None:
        self.memory, self.threads, self.chance = memory, threads, chance
        self.functions: dict[str, Function] = {}
        self.globals: dict[str, int] = {}
        self.tables: dict[str, Any] = {}
        self.block_id = self.grid = (0, 0, 0)
        self.block = (threads, 1, 1)
        self.all = np.ones(threads, bool)
        self.constants: dict[tuple[str, str], Lanes] = {}
        self.stalled = False  # whether threads have just waited in vain
        self.held: Any = None  # those that have to try the instruction again
        self.meetings: dict[int, Meeting] = {}
        self.registers = np.zeros(threads, np.int64)  # that each thread has
        size = threads if chance is None else min(threads, 128 if "wgmma" in text else 32)
        self.units = [np.arange(threads) // size == i for i in range(-(-threads // size))]
        self.unit = -1  # whose turn it is
        # By unit or thread, copies of the group that is not committed, and those before it.
        self.copies: dict[Any, list[list[Callable[[], None]]]] = {}
        self._parse(text)

    def launch(self, name: str, arguments: list[Any], grid: tuple[int, ...],
               block: tuple[int, int, int] | None = None) -> None:
        """`block`: its shape; by default all threads along the first axis."""
        function, self.block = self.functions[name], block or self.block
        self.grid = (*grid, *(1,) * (3 - len(grid)))
        given = [self._argument(t, a) for (t, _), a in zip(function.parameters, arguments,
                                                          strict=True)]
        for z in range(self.grid[2]):
            for y in range(self.grid[1]):
                for x in range(self.grid[0]):
                    self.block_id = (x, y, z)
                    self.shared = np.zeros(1 << 18, np.uint8)
                    self.meetings.clear()
                    self.registers[:] = (1 << 16) // self.threads & ~7
                    self.call(function, given, self.all)
                    for who in [*self.copies]:
                        self.wait(who, -1)
                    self.copies.clear()

    def _argument(self, t: str, a: Any) -> Any:
        if t == "bfloat":
            return np.full(self.threads, a, np.float32)
        if t in FLOATS:
            return np.full(self.threads, a, numpy_type(t))
        wide = np.full(self.threads, int(a) & (1 << 64) - 1, np.uint64)
        return wide.astype(numpy_type(t))

    # text

    def _parse(self, text: str) -> None:
        function: Function | None = None
        label = ""
        for line in text.splitlines():
            if line.startswith("define"):
                name = re.search(r"@([\w.$]+)\(", line)
                assert name
                inside = line[name.end() : line.index(") ", name.end())]
                if "addrspace(" in inside or "(" in inside:
                    inside = line[name.end() : closing(line, name.end())]
                parameters = [(typed(p)[0], p.split()[-1]) for p in split(inside)]
                function = Function(name[1], parameters)
                self.functions[name[1]] = function
            elif line.startswith("}"):
                function = None
            elif function is not None and line and line[0] != " ":
                label = line.rstrip(":")
                function.order[label] = len(function.order)
                function.blocks[label] = []
            elif function is not None and line.strip():
                found = _INSTRUCTION.fullmatch(_METADATA.sub("", line))
                assert found, line
                rest = found[3] if '"' in found[3] else _FLAGS.sub("", found[3])
                function.blocks[label].append((found[1] or "", found[2], rest))
            elif line.startswith("@"):
                self._global(line)

    def _global(self, line: str) -> None:
        name, _, rest = line.partition(" = ")
        if "addrspace(3)" in rest:
            self.globals[name] = SHARED
        elif "[" in rest and " x i64] [" in rest:
            content = rest[rest.index("] [") + 3 : rest.rindex("]")]
            words = [int(w.split()[1]) for w in split(content)]
            self.globals[name] = self.memory.allocate(np.array(words, np.uint64), name)
        elif name[1:] in self.memory.symbols:
            self.globals[name] = self.memory.symbols[name[1:]].base

    # operands

    def value(self, env: dict[str, Lanes], t: str, text: str) -> Lanes:
        if text[0] == "%":
            return env[text]
        key = (t, text)
        if key not in self.constants:
            self.constants[key] = self._constant(t, text)
        return self.constants[key]

    def _constant(self, t: str, text: str) -> Lanes:
        if text[0] == "<":
            return [self._constant(*typed(e)) for e in split(text[1:-1])]
        if t[0] == "<":
            count, _, e = t[1:-1].partition(" x ")
            return [self._constant(e, text) for _ in range(int(count))]
        if t[0] == "{":
            return [self._constant(e, text) for e in split(t[1:-1])]
        if text in ("poison", "undef", "zeroinitializer", "null"):
            number: Any = 0
        elif text in ("true", "false"):
            number = text == "true"
        elif text[0] == "@":
            number = self.globals[text]
        elif text[:3] in ("0xH", "0xR"):
            bits = np.array([int(text[3:], 16)], np.uint16)
            wide = bits.astype(np.uint32) << np.uint32(16)
            number = bits.view(np.float16)[0] if text[2] == "H" else wide.view(np.float32)[0]
        elif text[:2] == "0x":
            number = np.array([int(text, 16)], np.uint64).view(np.float64)[0]
        elif text.startswith("inttoptr"):
            number = int(text.split()[2])
        else:
            number = float(text) if t in FLOATS else int(text)
        if t == "i128":
            return np.full(self.threads, int(number) % (1 << 128), object)
        if t in FLOATS or t == "i1":
            return np.full(self.threads, number, numpy_type(t))
        return np.full(self.threads, int(number) % (1 << 64), np.uint64).astype(numpy_type(t))

    # control

    def call(self, function: Function, arguments: list[Lanes], mask: Any) -> Lanes:
        env: dict[str, Lanes] = {name: a for (_, name), a in zip(function.parameters, arguments,
                                                                strict=True)}
        first, outer = next(iter(function.blocks)), self.unit
        waiting = {(i, first, 0): mask & unit for i, unit in enumerate(self.units)
                   if (mask & unit).any()}  # by unit, block and instruction
        came_from = np.zeros(self.threads, np.int32)
        result: Lanes = None
        turn = vain = 0  # of those that wait in vain, which come after the others
        late: dict[tuple[int, str, int], int] = {}
        while waiting:
            places = [*waiting]
            if self.chance is not None and not vain:
                chosen = self.chance.choice(places)[0]
                places = [place for place in places if place[0] == chosen]
            place = min(places, key=lambda p: (late.get(p, 0), function.order[p[1]], p[2]))
            active = waiting.pop(place)
            unit, label, at = place
            self.unit, first = unit, at
            self.stalled = False
            turn += 1
            if not first:
                self._phis(function, label, env, active, came_from)
            for at, (name, op, rest) in enumerate(function.blocks[label][first:], first):
                if op == "phi":
                    continue
                if op == "ret":
                    if rest != "void":
                        t, text = typed(rest)
                        result = merge(active, self.value(env, t, text), result)
                elif op == "br":
                    for target, going in self._targets(env, rest, active):
                        if going.any():
                            came_from[going] = function.order[label]
                            place_of = unit, target, 0
                            waiting[place_of] = waiting.get(place_of, False) | going
                else:
                    found = self._execute(env, op, rest, active)
                    if self.held is not None:
                        here = unit, label, at
                        waiting[here] = waiting.get(here, False) | self.held
                        late[here] = turn
                        active, self.held = active & ~self.held, None
                        if not active.any():
                            self.stalled = at == first
                            break
                    if name:
                        env[name] = merge(active, found, env.get(name))
            late[place] = turn if self.stalled else 0
            vain = vain + 1 if self.stalled and not self.land(vain > 0) else 0
            assert vain <= 2 * len(waiting), f"waits for ever: {[*waiting]}"
        self.unit = outer
        return result

    def land(self, must: bool) -> bool:
        """Perhaps let a copy land that is not waited for by its thread; whether one has."""
        return False

    def copy(self, who: Any, copy: Callable[[], None]) -> None:
        """A thread or unit starts a copy of the group that it commits next."""
        if self.chance is None or self.chance.random() < 0.5:
            copy()
        else:
            self.copies.setdefault(who, [[]])[-1].append(copy)

    def commit(self, who: Any) -> None:
        self.copies.setdefault(who, [[]]).append([])

    def wait(self, who: Any, pending: int) -> None:
        """Until at most so many groups are left."""
        groups = self.copies.get(who, [])
        while len(groups) - 1 > pending:
            for copy in groups.pop(0):
                copy()

    def _phis(self, function: Function, label: str, env: dict[str, Lanes], active: Any,
              came_from: Any) -> None:
        new = {}
        for name, op, rest in function.blocks[label]:
            if op != "phi":
                break
            t, pairs = typed(rest)
            found = env.get(name)
            for pair in split(pairs):
                text, source = split(pair.strip()[1:-1])
                going = active & (came_from == function.order[source.strip()[1:]])
                if going.any():
                    found = merge(going, self.value(env, t, text.strip()), found)
            new[name] = found
        env.update(new)

    def _targets(self, env: dict[str, Lanes], rest: str, active: Any) -> Iterator[tuple[str, Any]]:
        parts = split(rest)
        if len(parts) == 1:
            yield rest.split("%")[1], active
            return
        condition = self.value(env, *typed(parts[0]))
        yield parts[1].split("%")[1], active & condition
        yield parts[2].split("%")[1], active & ~condition

    def meet(self, active: Any, numbers: Any, count: int, waits: bool = True, said: Any = False
             ) -> None:
        """Some come to barriers of these numbers, which open when `count` have; perhaps to wait."""
        for number in np.unique(numbers[active]).tolist():
            none = ~self.all
            b = self.meetings.setdefault(number, Meeting(none, none, none, none.copy()))
            here = active & (numbers == number)
            new = here & ~b.leaving & ~b.waiting
            b.leaving = b.leaving & ~here
            if new.any():
                assert not b.came.any() or b.count == count, "a barrier of two counts"
                assert not (b.came & new).any(), f"threads come twice to barrier {number}"
                b.came, b.count = b.came | new, count
                b.said[new] = np.broadcast_to(said, new.shape)[new]
                assert b.came.sum() <= count, f"too many threads at barrier {number}"
                if b.came.sum() == count:
                    b.votes, b.leaving = b.said[b.came], b.leaving | b.waiting
                    b.came = b.waiting = none
                elif waits:
                    b.waiting = b.waiting | new
            self.hold(here & b.waiting)

    def hold(self, threads: Any) -> None:
        """These have to try again."""
        if threads.any():
            self.held = threads if self.held is None else self.held | threads

    # instructions

    def _execute(self, env: dict[str, Lanes], op: str, rest: str, active: Any) -> Lanes:
        if op == "call":
            return self._call(env, rest, active)
        handler = getattr(self, f"_{op}", None)
        if handler is not None:
            return handler(env, rest, active)
        if " to " in rest:
            return self._cast(env, op, rest)
        return self._binary(env, op, rest)

    def _call(self, env: dict[str, Lanes], rest: str, active: Any) -> Lanes:
        if " asm " in rest:
            result, text, constraints, operands = assembly(rest)
            return run_asm(self, result, text, constraints,
                           [(t, self.value(env, t, text)) for t, text in operands], active)
        name, arguments = called(rest)
        values = [self.value(env, t, text) for t, text in arguments]
        if name in self.functions:
            return self.call(self.functions[name], values, active)
        types, function = [t for t, _ in arguments], CALLS(name)
        if types and types[0][0] == "<" and "nvvm" not in name:  # element by element
            return [function(self, name, [element_types(t)[0] for t in types], [*parts], active)
                    for parts in zip(*values, strict=True)]
        return function(self, name, types, values, active)

    def _binary(self, env: dict[str, Lanes], op: str, rest: str) -> Lanes:
        t, operands = typed(rest)
        texts = split(operands)
        a = self.value(env, t, texts[0])
        b = self.value(env, t, texts[1]) if len(texts) > 1 else None
        if t[0] == "<":
            return [BINARY[op](element_types(t)[0], *pair) for pair in zip(
                a, b or [None] * len(a), strict=True)]
        return BINARY[op](t, a, b)

    def _icmp(self, env: dict[str, Lanes], rest: str, active: Any) -> Lanes:
        predicate, _, rest = rest.partition(" ")
        t, operands = typed(rest)
        a, b = (self.value(env, t, text) for text in split(operands))
        if predicate[0] == "s":
            a, b = signed(a), signed(b)
        return np.asarray(COMPARE[predicate[-2:]](a, b), bool)

    def _fcmp(self, env: dict[str, Lanes], rest: str, active: Any) -> Lanes:
        predicate, _, rest = rest.partition(" ")
        t, operands = typed(rest)
        a, b = (self.value(env, t, text) for text in split(operands))
        unordered = np.isnan(a) | np.isnan(b)
        if predicate in ("uno", "ord"):
            return unordered == (predicate == "uno")
        found = COMPARE[predicate[1:]](a, b)
        return found & ~unordered if predicate[0] == "o" else found | unordered

    def _select(self, env: dict[str, Lanes], rest: str, active: Any) -> Lanes:
        condition, a, b = (self.value(env, *typed(part)) for part in split(rest))
        return merge(condition, a, b)

    def _cast(self, env: dict[str, Lanes], op: str, rest: str) -> Lanes:
        source, _, to = rest.rpartition(" to ")
        t, text = typed(source)
        return cast(op, t, to, self.value(env, t, text))

    def _getelementptr(self, env: dict[str, Lanes], rest: str, active: Any) -> Lanes:
        t, pointer, *indices = split(rest)
        address = self.value(env, *typed(pointer))
        index_type, text = typed(indices[-1])
        step = signed(self.value(env, index_type, text)).astype(np.int64)
        size = 8 if "x i64" in t else size_of(t)
        return address + (step * size).astype(np.uint64)

    def _extractelement(self, env: dict[str, Lanes], rest: str, active: Any) -> Lanes:
        vector, index = split(rest)
        return self.value(env, *typed(vector))[int(typed(index)[1])]

    def _insertelement(self, env: dict[str, Lanes], rest: str, active: Any) -> Lanes:
        vector, value, index = split(rest)
        found = list(self.value(env, *typed(vector)))
        found[int(typed(index)[1])] = self.value(env, *typed(value))
        return found

    def _extractvalue(self, env: dict[str, Lanes], rest: str, active: Any) -> Lanes:
        struct, index = split(rest)
        return self.value(env, *typed(struct))[int(index)]

    def _insertvalue(self, env: dict[str, Lanes], rest: str, active: Any) -> Lanes:
        struct, value, index = split(rest)
        found = list(self.value(env, *typed(struct)))
        found[int(index)] = self.value(env, *typed(value))
        return found

    def _freeze(self, env: dict[str, Lanes], rest: str, active: Any) -> Lanes:
        return self.value(env, *typed(rest))

    def _fence(self, env: dict[str, Lanes], rest: str, active: Any) -> Lanes:
        return None

    def _load(self, env: dict[str, Lanes], rest: str, active: Any) -> Lanes:
        t, _, space, text, align = access(rest, False)
        address = self.value(env, space, text)
        self._aligned(align, address, active)
        types = element_types(t)
        found = []
        for i, e in enumerate(types):
            at = address + np.uint64(i * size_of(e))
            found.append(unraw(e, self.read(at, size_of(e), space, active)))
        return found if t[0] == "<" else found[0]

    def _store(self, env: dict[str, Lanes], rest: str, active: Any) -> Lanes:
        t, text, space, address_text, align = access(rest, True)
        address = self.value(env, space, address_text)
        self._aligned(align, address, active)
        found = self.value(env, t, text)
        for i, (e, one) in enumerate(zip(element_types(t), found if t[0] == "<" else [found],
                                         strict=True)):
            self.write(address + np.uint64(i * size_of(e)), raw(e, one), size_of(e), space, active)

    def _aligned(self, align: int, address: Any, active: Any) -> None:
        here = address[active] & np.uint64(align - 1)
        assert not np.count_nonzero(here), f"not aligned to {align}"

    def _cmpxchg(self, env: dict[str, Lanes], rest: str, active: Any) -> Lanes:
        pointer, compare, value, *_ = split(rest)
        space, text = typed(pointer)
        address = self.value(env, space, text)
        t, compare_text = typed(compare)
        want = self.value(env, t, compare_text)
        new = self.value(env, t, typed(value)[1].split()[0])
        old, equal = np.zeros_like(want), np.zeros(self.threads, bool)
        for lane in np.nonzero(active)[0]:
            one = np.arange(self.threads) == lane
            here = self.read(address, size_of(t), space, one).astype(want.dtype)
            old[lane], equal[lane] = here[lane], here[lane] == want[lane]
            if equal[lane]:
                self.write(address, new, size_of(t), space, one)
        return [old, equal]

    def _atomicrmw(self, env: dict[str, Lanes], rest: str, active: Any) -> Lanes:
        """One lane after the other; what shared memory is added to in place."""
        kind, _, rest = rest.partition(" ")
        pointer, value = split(rest)[:2]
        space, text = typed(pointer)
        t, new = typed(value)
        address, given = self.value(env, space, text), self.value(env, t, new.split()[0])
        old = np.zeros_like(given)
        signed = given.dtype.str.replace("u", "i")
        for lane in np.nonzero(active)[0]:
            one = np.arange(self.threads) == lane
            old[lane] = unraw(t, self.read(address, size_of(t), space, one))[lane]
            a, b = (x[lane : lane + 1].view(signed if kind in ("min", "max") else given.dtype)
                    for x in (old, given))
            after = given.copy()
            after[lane] = _RMW[kind](a, b).view(given.dtype)[0]
            self.write(address, raw(t, after), size_of(t), space, one)
        return old

    # memory

    def read(self, address: Any, size: int, space: str, active: Any) -> Any:
        """Raw elements of `size` bytes; 0 in threads that are not active."""
        found = np.zeros(self.threads, f"u{size}")
        for place, which, index in self._places(address, size, space, active):
            found[which] = place[index]
        return found

    def write(self, address: Any, values: Any, size: int, space: str, active: Any) -> None:
        stored = values.astype(f"u{size}")
        for place, which, index in self._places(address, size, space, active):
            place[index] = stored[which]  # the last thread's stays

    def _places(self, address: Any, size: int, space: str, active: Any
                ) -> Iterator[tuple[Any, Any, Any]]:
        """Arrays of elements of `size` bytes, and which threads access which element of each."""
        shared = "(3)" in space or space == "shared"
        lanes, first = np.nonzero(active)[0], address[active].astype(np.int64)
        assert not np.count_nonzero(first & size - 1), "misaligned"
        for base, place in [(SHARED, self.shared)] if shared else [
                (buffer.base, buffer.array) for buffer in self.memory.buffers]:
            if not first.size:
                return
            elements = place.reshape(-1).view(np.uint8)
            elements = elements[:elements.size // size * size].view(f"u{size}")
            index = first - base >> size.bit_length() - 1
            inside = (index >= 0) & (index < elements.size)
            some = np.count_nonzero(inside)
            if some == index.size:
                yield elements, lanes, index
                return
            if some:
                yield elements, lanes[inside], index[inside]
                lanes, first = lanes[~inside], first[~inside]
        assert not first.size, f"outside of every buffer: {first[:4]}"
