"""Functions whose modules are imported when they are first called.

A compilation starts in some 200 ms, most of which it takes to import what it is made of.  A table
names its functions so where most runs call few of them."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from sys import modules
from typing import Any


class Later:
    """The function `name` of a module.

    >>> power = Later("math", "pow")
    >>> power(2, 3)
    8.0
    """

    def __init__(self, module: str, name: str) -> None:
        self.__module__ = module
        self.__name__ = name
        self._function: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        if self._function is None:
            self._function = getattr(import_module(self.__module__), self.__name__)
        return self._function(*arguments)


class LaterModule:
    """A module; each attribute is a function that is imported when it is called."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Later:
        return Later(self._name, name)


def whole_later(name: str) -> None:
    """Import a package so that its own code runs when it is first asked for what that defines.
    Modules inside can be imported before: of lark a parse needs a third."""
    spec = None if name in modules else find_spec(name)
    if spec is None or spec.loader is None:
        return
    loader, package = spec.loader, module_from_spec(spec)

    def whole(attribute: str) -> Any:
        del package.__dict__["__getattr__"]
        loader.exec_module(package)
        return getattr(package, attribute)

    package.__dict__["__getattr__"] = whole
    modules[name] = package
