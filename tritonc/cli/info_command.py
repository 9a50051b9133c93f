"""`tritonc info`: how kernels are launched, what they need; or what this machine has."""

import os
import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from typing import Any

import click

from tritonc import __version__, driver, ptxas
from tritonc.backend.target.target import TARGETS, Target
from tritonc.cli import console
from tritonc.llvm_version import llvm_version
from tritonc.manifest import read
from tritonc.source import CompileError, fail
from tritonc.tune.tuning_file import with_tuning_file


def info_command(files: tuple[str, ...], **given: Any) -> int:
    """`tritonc info [FILE]`: the exit code.  `given` has the parameters by name."""
    messages = console.Messages(given)
    if not files:
        return _say(machine(given["ptxas"]))
    path = console.only_file(files)
    options = with_tuning_file(console.options_from(given), path)
    if path.endswith((".cubin", ".fatbin")):
        raise fail("unreadable-file", None, f"cannot read '{path}': machine code does not say how "
                   "its kernels are launched; the .ptx that it was made of does, and the source")
    source, diagnostics = console.read_source(path, options)
    if path.endswith(".ptx"):
        try:
            manifest, ptx = read(source.text), source.text
        except ValueError as error:
            raise fail("unreadable-file", None, f"cannot read '{path}': {error}") from None
    else:
        result = driver.compile(source, console.native(options), ("ptx",),
                                language=console.language_of(path, given), diagnostics=diagnostics)
        messages.show(result.diagnostics)
        assert result.manifest is not None
        manifest, ptx = result.manifest, result.outputs["ptx"]
    return _say(module(manifest, resources(ptx, manifest["target"], given["ptxas"])))


def _say(lines: Iterator[str]) -> int:
    click.echo("\n".join(lines))
    return console.SUCCESS


def resources(ptx: str, target: str, path: str | None) -> dict[str, ptxas.Resources]:
    """What ptxas says; nothing where it is not installed.  Raises CompileError."""
    try:
        return ptxas.resources(ptx, target, path)
    except CompileError as error:
        if path is None and error.diagnostics[0].name == "no-ptxas":
            return {}
        raise


def module(manifest: Mapping[str, Any], found: Mapping[str, ptxas.Resources]) -> Iterator[str]:
    """What a manifest says, and what ptxas found of each entry."""
    yield f"{manifest['target']}, PTX {manifest['ptx']}, {manifest['compiler']}"
    if "tuning" in manifest:
        yield f"tuning file: {manifest['tuning']}"
    for kernel in manifest["kernels"]:
        yield ""
        target = TARGETS[manifest["target"]]
        yield from _kernel(kernel, target, found.get(kernel["entry"]))
        for number, variant in enumerate(kernel.get("variants", ()), 1):
            yield from _variant(number, kernel, variant, target, found.get(variant["entry"]))
    for table in manifest["constants"]:
        filled = "initialized" if table["initialized"] else "filled by the host"
        yield f"\nconstant table {table['name']}: {table['count']} of {table['type']}, {filled}"


def _variant(number: int, kernel: Mapping[str, Any], variant: Mapping[str, Any], target: Target,
             needs: ptxas.Resources | None) -> Iterator[str]:
    yield f"variant {number}, {variant['entry']}"
    yield from _launched(variant)
    words = (("multiple_of", "a multiple of"), ("at_least", "at least"), ("at_most", "at most"))
    for fact in variant["requires"]:
        name = kernel["parameters"][fact["argument"]]["name"] if "argument" in fact else (
            f"the extent along axis {fact['range']}" if "range" in fact else "the number of blocks")
        for key, word in words:
            if key in fact:
                yield f"  requires: {name} is {word} {fact[key]}"
    yield from _resident(variant, target, needs)


def _kernel(kernel: Mapping[str, Any], target: Target, needs: ptxas.Resources | None
            ) -> Iterator[str]:
    parameters = ", ".join(_declared(p) for p in kernel["parameters"])
    yield f"kernel {kernel['name']}({parameters})"
    yield from _launched(kernel)
    for parameter in kernel["parameters"]:
        if "access" in parameter:
            yield f"  {parameter['name']}: {parameter['access']}"
    for text in kernel["assumptions"]:
        yield f"  assumes: {text}"
    yield from _resident(kernel, target, needs)


def _launched(kernel: Mapping[str, Any]) -> Iterator[str]:
    """How an entry is launched."""
    tile = " x ".join(map(str, kernel["tile"])) or "1"
    blocks = kernel.get("cluster", 1)
    count = f"a cluster of {blocks} blocks" if blocks > 1 else "one block"
    yield f"  {count} of {kernel['threads']} threads for {tile} of the global range"
    shared = kernel["shared_bytes"] + kernel["dynamic_shared_bytes"]
    asked = f", {kernel['dynamic_shared_bytes']} of them asked for by the launch"
    yield (f"  {shared} bytes of shared memory{asked if kernel['dynamic_shared_bytes'] else ''}")
    for name, value in kernel["tunables"].items():
        yield f"  tunable {name} = {value}"
    if small := kernel.get("small"):
        values = ", ".join(f"{name} = {value}" for name, value in small["tunables"].items())
        yield f"  launches of at most {small['most']} programs use smaller tiles: {values}"


def _resident(kernel: Mapping[str, Any], target: Target, needs: ptxas.Resources | None
              ) -> Iterator[str]:
    """What an entry needs of a multiprocessor."""
    shared = kernel["shared_bytes"] + kernel["dynamic_shared_bytes"]
    if needs is not None:
        spills = f"spills {needs.spill_stores} bytes" if needs.spill_stores else "no spills"
        yield f"  {needs.registers} registers a thread, {spills}, {needs.stack} bytes of stack"
        blocks = target.resident(kernel["threads"], needs.registers, shared)
        yield (f"  {blocks} block{'s' if blocks != 1 else ''} on a multiprocessor: "
               f"{blocks * kernel['threads']} of {target.threads_per_multiprocessor} threads")


def _declared(parameter: Mapping[str, Any]) -> str:
    space = "" if parameter["type"].endswith("*") else " "
    return f"{parameter['type']}{space}{parameter['name']}"


def machine(path: str | None) -> Iterator[str]:
    """Versions, tools, GPUs, targets."""
    yield f"tritonc {__version__}, LLVM {llvm_version()}, Python {platform.python_version()}"
    yield f"installed in {os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}"
    try:
        yield f"ptxas: {ptxas.find(path)}"
    except CompileError:
        yield "ptxas: not installed"
    try:
        yield f"cuda-bindings: {package_version('cuda-bindings')}"
    except PackageNotFoundError:
        yield "cuda-bindings: not installed"
    yield from _devices()
    yield f"targets: {', '.join(TARGETS)}"


def _devices() -> Iterator[str]:
    from tritonc.launch.cuda import Device, device_count

    try:
        count = device_count()
        for index in range(count):
            gpu = Device(index)
            major, minor = gpu.capability
            yield f"GPU {index}: {gpu.name}, compute capability {major}.{minor}, {gpu.target}"
        if not count:
            Device()  # says why
    except CompileError as error:
        yield f"no GPU: {error.diagnostics[0].message}"
