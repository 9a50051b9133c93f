"""tritonc: a compiler from Triton-C to PTX.

From Python, `compile`, `compile_module` and `load` return kernels to launch, and `tritonc.torch`
makes operators of torch from them.  All are imported at their first use."""

from typing import Any

__version__ = "0.1.0"

_WHERE = {
    "compile": "tritonc.launch.python.api", "compile_module": "tritonc.launch.python.api",
    "load": "tritonc.launch.python.api", "CompileWarning": "tritonc.launch.python.api",
    "Kernel": "tritonc.launch.python.kernel", "Module": "tritonc.launch.python.kernel",
    "LaunchError": "tritonc.launch.python.launcher", "CompileError": "tritonc.source"}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'tritonc' has no attribute '{name}'")
    from importlib import import_module  # here, as below: `tritonc --version` needs none of this

    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
