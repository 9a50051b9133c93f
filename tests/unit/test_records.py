"""`records.dataclass` makes what `dataclasses.dataclass` makes."""

from __future__ import annotations

import dataclasses
import pickle
from dataclasses import field
from inspect import signature
from typing import Any

import pytest

from tritonc import records


@records.dataclass
class Plain:
    a: int
    b: str = "b"
    c: list[int] = field(default_factory=list)
    d: int = field(default=4, repr=False)


@records.dataclass
class Derived(Plain):
    """Has a field more, and another default."""

    b: str = "other"
    e: int = field(init=False)
    f: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.e = self.a + 1

    def __repr__(self) -> str:
        return f"<{self.e}>"


@records.dataclass(frozen=True)
class Frozen:
    a: int
    b: tuple[int, ...] = ()


@records.dataclass(frozen=True)
class Other:
    a: int
    b: tuple[int, ...] = ()


@records.dataclass(eq=False, slots=True)
class Slots:
    a: int
    b: int = 2


class Pair(records.NamedTuple):
    """Two."""

    a: int
    b: tuple[int, ...] = ()

    @property
    def both(self) -> int:
        return self.a + len(self.b)


class More(Pair):
    """Has a method more."""

    def twice(self) -> int:
        return 2 * self.a


@records.dataclass
class Empty:
    pass


def test_constructors() -> None:
    one, two = Plain(1), Plain(1, c=[2])
    assert (one.a, one.b, one.c, one.d) == (1, "b", [], 4) and two.c == [2]
    assert one.c is not Plain(1).c
    assert vars(Plain(1, "x", [3], 5)) == vars(Plain(d=5, c=[3], b="x", a=1))
    derived = Derived(1, f=(2,))
    assert (derived.b, derived.c, derived.d, derived.e, derived.f) == ("other", [], 4, 2, (2,))
    assert Slots(1).b == 2 and not hasattr(Slots(1), "__dict__")
    make: Any = Plain
    for wrong in ((), (1, 2, 3, 4, 5)):
        with pytest.raises(TypeError, match=r"Plain.__init__\(\)"):
            make(*wrong)
    with pytest.raises(TypeError, match="unexpected keyword argument 'g'"):
        make(1, g=2)


def test_equality_and_hashes() -> None:
    assert Plain(1) == Plain(1) != Plain(2) and Plain(1) != Derived(1) and Empty() == Empty()
    assert Frozen(1) == Frozen(1) and hash(Frozen(1)) == hash(Frozen(1)) and Frozen(1) != Other(1)
    assert len({Frozen(1), Frozen(1), Frozen(2), Other(1)}) == 3
    assert Slots(1) != Slots(1) and len({Slots(1), Slots(1)}) == 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(Plain(1))


def test_the_rest_of_the_protocol() -> None:
    assert repr(Plain(1)) == "Plain(a=1, b='b', c=[])" and repr(Derived(1)) == "<2>"
    assert list(signature(Plain).parameters) == ["a", "b", "c", "d"]
    assert dataclasses.replace(Plain(1), b="c") == Plain(1, "c")
    assert dataclasses.replace(Derived(1), a=5).e == 6
    assert [f.name for f in dataclasses.fields(Derived)] == ["a", "b", "c", "d", "e", "f"]
    assert pickle.loads(pickle.dumps(Frozen(1, (2,)))) == Frozen(1, (2,))
    match Plain(1, "x"):
        case Plain(number, text):
            assert (number, text) == (1, "x")


def test_fields_are_as_dataclasses_makes_them() -> None:
    def made(dataclass: Any) -> list[Any]:
        @dataclass
        class First:
            a: int
            b: list[int] = field(default_factory=list)
            c: int = field(default=3, repr=False)

        class Without(First):
            """Decorated by nothing."""

        @dataclass
        class Second(Without):
            c: int
            d: str = field(init=False)

        @dataclass(slots=True)
        class Third(First):
            e: int = 5

        return [First, Without, Second, Third]

    for ours, theirs in zip(made(records.dataclass), made(dataclasses.dataclass), strict=True):
        assert list(map(repr, dataclasses.fields(ours))) == list(
            map(repr, dataclasses.fields(theirs)))
        assert ours.__match_args__ == theirs.__match_args__
        assert [name for name in "abcde" if hasattr(ours, name)] == [
            name for name in "abcde" if hasattr(theirs, name)]
        assert dataclasses.asdict(ours(1, [2])) == dataclasses.asdict(theirs(1, [2])) if (
            ours.__name__ != "Second") else dataclasses.is_dataclass(ours)


def test_named_tuples() -> None:
    one = Pair(1)
    assert one == (1, ()) == Pair(b=(), a=1) and one.both == 1 and hash(one) == hash((1, ()))
    assert one._replace(b=(2,)) == Pair(1, (2,)) and one._asdict() == {"a": 1, "b": ()}
    assert Pair._fields == ("a", "b") and repr(one) == "Pair(a=1, b=())" and one[0] == one.a
    assert More(3).twice() == 6 and More(3).both == 3 and More._make([4, (5,)]).b == (5,)
    again = pickle.loads(pickle.dumps(Pair(1, (2,))))
    assert type(again) is Pair and again == Pair(1, (2,)) and again.b == (2,)
    make: Any = Pair
    for wrong in (lambda: one._replace(c=1), lambda: make(), lambda: make(1, 2, 3)):
        with pytest.raises(TypeError, match=r"Pair.__new__\(\)"):
            wrong()
    with pytest.raises(AttributeError):
        one.a = 2
    match one:
        case Pair(number, _):
            assert number == 1
