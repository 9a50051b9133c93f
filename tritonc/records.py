"""Dataclasses and named tuples that are made quickly.

`dataclasses.dataclass` writes the source of a class's methods and has Python compile it.  For some
150 classes that took a tenth of a cold compilation.  This one makes the same classes otherwise: the
code of a constructor differs in names alone from that of others with as many fields, and the other
methods are the same for all; so it is with `typing.NamedTuple`.  Who keeps to `frozen` is the type
checker; here it says that equal objects have equal hashes."""

import dataclasses
from collections.abc import Mapping
from functools import cache, partial, wraps
from operator import attrgetter
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from functools import cached_property as cached_property
    from typing import NamedTuple as NamedTuple
else:
    from collections import namedtuple

    class cached_property:
        """As that of functools in Python 3.12: without a lock."""

        def __init__(self, find):
            self.find, self.__doc__ = find, find.__doc__

        def __set_name__(self, owner, name):
            self.name = name

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            found = instance.__dict__[self.name] = self.find(instance)
            return found

    # What describes a field: it reads as fast as an attribute, and has no public name.
    _Field = type(namedtuple("_One", "a").a)

    class NamedTuple(tuple):
        """As `typing.NamedTuple`."""

        __slots__ = ()
        _fields = ()
        _field_defaults: Mapping[str, Any] = {}

        def __init_subclass__(cls):
            names = tuple(cls.__annotations__)
            if not names:  # a class with more methods
                return
            defaults = {name: vars(cls)[name] for name in names if name in vars(cls)}
            cls._fields = cls.__match_args__ = names
            cls._field_defaults = defaults
            cls._places = {name: i for i, name in enumerate(names)}
            cls.__new__ = FunctionType(_tuple_template(len(names)).replace(
                co_varnames=("cls", *names)), {"make": tuple.__new__}, "__new__",
                tuple(defaults.values()))
            cls.__new__.__qualname__ = f"{cls.__qualname__}.__new__"
            for i, name in enumerate(names):
                setattr(cls, name, _Field(i, name))

        @classmethod
        def _make(cls, values):
            return cls.__new__(cls, *values)

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def _replace(self, **named):
            made = list(self)
            try:
                for name, value in named.items():
                    made[self._places[name]] = value
            except KeyError as error:
                raise TypeError(f"{type(self).__name__}.__new__() has no field {error}") from None
            return tuple.__new__(type(self), made)

        def __getnewargs__(self):
            return tuple(self)

        def __repr__(self):
            shown = (f"{name}={value!r}" for name, value in self._asdict().items())
            return f"{type(self).__name__}({', '.join(shown)})"

    def dataclass(cls=None, /, *, eq=True, frozen=False, slots=False):
        """As `dataclasses.dataclass`."""
        if cls is None:
            return partial(dataclass, eq=eq, frozen=frozen, slots=slots)
        written = {name for name, value in vars(cls).items() if value is not None}
        cls.__doc__ = cls.__doc__ or cls.__name__  # else the signature of `__init__` is inspected
        made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
        methods = {"__init__": _constructor(made), "__repr__": _repr}
        if eq:
            methods |= _comparison(made, frozen)
        for name, method in methods.items():
            if name not in written:
                setattr(made, name, method)
        return made


def _constructor(cls: Any) -> Any:
    """`__init__` of a dataclass, which calls its `__post_init__`, if it has one."""
    fields = [f for f in dataclasses.fields(cls) if f.init]
    names = tuple(f.name for f in fields)
    makers = [(i, f.name, f.default_factory) for i, f in enumerate(fields)
              if f.default_factory is not dataclasses.MISSING]
    defaults = [f.default for f in fields if f.default is not dataclasses.MISSING
                or f.default_factory is not dataclasses.MISSING]  # where MISSING is never read
    code = _template(len(names), hasattr(cls, "__post_init__")).replace(
        co_varnames=("self", *names), co_names=(*names, "__post_init__"))
    init = FunctionType(code, {}, "__init__", tuple(defaults))
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    if not makers:
        return init

    @wraps(init)
    def made(self: Any, *values: Any, **named: Any) -> None:
        for i, name, make in makers:
            if i >= len(values) and name not in named:
                named[name] = make()
        init(self, *values, **named)

    return made


@cache
def _template(count: int, post: bool) -> CodeType:
    """A constructor of so many fields."""
    names = [f"a{i}" for i in range(count)]
    lines = [f"self.{name} = {name}" for name in names] + ["self.__post_init__()"] * post
    namespace: dict[str, Any] = {}
    exec(f"def __init__({', '.join(['self', *names])}): {'; '.join(lines) or 'pass'}", namespace)
    code: CodeType = namespace["__init__"].__code__
    return code


@cache
def _tuple_template(count: int) -> CodeType:
    """What makes a tuple of so many fields."""
    names = [f"a{i}" for i in range(count)]
    namespace: dict[str, Any] = {}
    exec(f"def __new__({', '.join(['cls', *names])}): return make(cls, ({', '.join(names)},))",
         namespace)
    code: CodeType = namespace["__new__"].__code__
    return code


def _comparison(cls: Any, frozen: bool) -> dict[str, Any]:
    names = [f.name for f in dataclasses.fields(cls)]
    key: Any = attrgetter(*names) if names else lambda self: ()

    def eq(self: Any, other: Any) -> Any:
        if other is self:
            return True
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    return {"__eq__": eq, "__hash__": (lambda self: hash(key(self))) if frozen else None}


def _repr(self: Any) -> str:
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"
