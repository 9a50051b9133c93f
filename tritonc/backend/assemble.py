"""LLVM IR to PTX, by llvmlite.

`assemble` is a function of its arguments alone: no name, path or property of this machine gets into
what it gives."""

import os
from ctypes import string_at
from functools import cache
from threading import Semaphore, Thread
from typing import TYPE_CHECKING, Any

from tritonc.backend.parts import join, split
from tritonc.backend.ptxas_faults import worked_around
from tritonc.backend.target.target import Target
from tritonc.options import Options

if TYPE_CHECKING:
    import llvmlite.binding as llvm

TRIPLE = "nvptx64-nvidia-cuda"
# With 32-bit pointers to shared, constant and local memory.
DATA_LAYOUT = ("e-p3:32:32-p4:32:32-p5:32:32-p6:32:32-p7:32:32-i64:64-i128:128-i256:256-v16:16-"
               "v32:32-n16:32:64")

# Lines of a function beyond which LLVM generates code without improving it: its strength reduction
# takes time quadratic in the length of a chain of integer operations, 3 s for 20,000 lines of one,
# and in the number of accesses, 3 s for 14,000 lines of a thread that makes 500.
# The assembler improves the code anyway.  Not so beside products in flight (wgmma): unimproved code
# copies its sums before they are waited for, which PTX forbids; at best, ptxas serialises all
# products of the function (C7514).
LONGEST_OPTIMIZED = 12_000

_PROCESSORS = Semaphore(os.cpu_count() or 1)
PRODUCTS = "tritonc-products"  # the attribute of a function with products on CUDA cores


@cache
def _library() -> Any:
    """llvmlite, initialised.  Imported here: it takes 50 ms that most uses can spare."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.set_option("tritonc", "--nvptx-short-ptr")  # before a machine is made
    # Straight-line strength reduction would ask of each pair of candidates whether the flags of
    # one make it poison: up to nine tenths of the time of code generation.  No value of ours is
    # poison where it is computed: flags are those that LLVM has proven, and what is reused
    # dominates its new use.  Without the pass, taps of a filter (depthwise convolution) have 40 %
    # more instructions, and take a quarter more time.
    llvm.set_option("tritonc", "--enable-poison-reuse-guard=false")
    return llvm


def machine(target: Target, level: int) -> "llvm.TargetMachine":
    llvm = _library()
    made = llvm.Target.from_triple(TRIPLE).create_target_machine(
        cpu=target.name, features=f"+ptx{target.ptx}", opt=level)
    assert str(made.target_data) == DATA_LAYOUT
    return made


def assemble(text: str, target: Target, options: Options) -> str:
    """The PTX of a module of LLVM IR.  Threads share the kernels of a large one."""
    first, *others = split(text)
    tasks = [Task(part, target, options) for part in others]
    return join([ptx_of(first, target, options), *(task.result() for task in tasks)])


class Task(Thread):
    """The PTX of a module, made by a thread: of as many as there are processors at a time."""

    def __init__(self, text: str, target: Target, options: Options) -> None:
        super().__init__()
        self._of, self._ptx, self._error = [(text, target, options)], "", list[Exception]()
        _library()
        self.start()

    def run(self) -> None:
        with _PROCESSORS:
            try:
                self._ptx = ptx_of(*self._of.pop())
            except Exception as error:
                self._error.append(error)

    def result(self) -> str:
        self.join()
        for error in self._error:
            raise error
        return self._ptx


def ptx_of(text: str, target: Target, options: Options) -> str:
    llvm = _library()
    size = max(part.count("\n") for part in text.split("\ndefine "))
    level = max(options.opt_level, 1) if "wgmma." in text else (
        options.opt_level if size <= LONGEST_OPTIMIZED else 0)
    code, module = machine(target, level), llvm.parse_assembly(text, llvm.create_context())
    if options.verify_each:
        module.verify()
    for function in module.functions if PRODUCTS in text else ():
        if any(PRODUCTS.encode() in attribute for attribute in function.attributes):
            # Early CSE, which code generation runs three times, looks at no calls of what may
            # become a coroutine.  No two of the multiply-adds of a product are equal; to find that
            # out took a fifth of LLVM's time.
            function.add_function_attribute("presplitcoroutine")
    optimize(module, code, options)
    with llvm.ffi.OutputString() as error:
        memory = _unlocked("LLVMPY_TargetMachineEmitToMemory")(code, module, 0, error)
        if not memory:
            raise RuntimeError(str(error))
    lib = llvm.ffi.lib
    try:
        ptx = string_at(lib.LLVMPY_GetBufferStart(memory), lib.LLVMPY_GetBufferSize(memory))
    finally:
        lib.LLVMPY_DisposeMemoryBuffer(memory)
    return worked_around(ptx.decode(), options)


def _unlocked(name: str) -> Any:
    """A function of llvmlite without the lock that it holds around each call: threads run those
    that take long at the same time, as LLVM allows for modules of different contexts.  With it,
    where llvmlite keeps it elsewhere: one after the other."""
    function = getattr(_library().ffi.lib, name)
    return getattr(function, "_cfn", function)


def optimize(module: "llvm.ModuleRef", code: "llvm.TargetMachine", options: Options) -> None:
    """The passes that pay: the emitter leaves straight-line code without memory.

    Measured on a matrix product of 2000 multiply-adds: parsing 6 ms, these passes 9, code 100 to
    110 at any level; gvn adds 20 and changes no register, as code generation ends with its own."""
    llvm = _library()
    builder = llvm.create_pass_builder(code, llvm.create_pipeline_tuning_options())
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    if options.opt_level:
        passes.add_instruction_combine_pass()
    if options.opt_level > 2:
        passes.add_new_gvn_pass()
        passes.add_instruction_combine_pass()
    if options.opt_level:
        passes.add_simplify_cfg_pass()
    _unlocked("LLVMPY_RunNewModulePassManager")(passes, module, builder)
