"""The end of the backend: Triton-IR with layouts to LLVM IR, and that to PTX.

`emit` is text and needs no library; `assemble` is llvmlite.  Both are functions of their arguments
alone: no name, path or property of this machine gets into what they give.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from tritonc.analysis.aliases import Roots, pointer_roots
from tritonc.analysis.values import origin
from tritonc.backend.emit import emit_op
from tritonc.backend.emit.function import FunctionEmitter
from tritonc.backend.emit.literals import llvm_type
from tritonc.backend.emit.module import DATA_LAYOUT, TRIPLE, ModuleEmitter
from tritonc.backend.ptxas_faults import worked_around
from tritonc.backend.shared.shared_memory import SHARED_ALIGNMENT
from tritonc.backend.target.target import Target
from tritonc.ir.core import Kernel, Module, Value
from tritonc.ir.ops import READ, WRITE
from tritonc.ir.types import CONSTANT, Pointer, Scalar, element
from tritonc.options import Options
from tritonc.source import Note, fail

if TYPE_CHECKING:
    import llvmlite.binding as llvm

PARAMETER_BYTES, MANY_PARAMETER_BYTES = 4096, 32764  # CUDA programming guide, __global__ functions
DYNAMIC_SHARED = "dynamic_shared"
PRODUCTS = "tritonc-products"  # the attribute of a function with products on CUDA cores


def emit(module: Module, target: Target, options: Options) -> str:
    """The module as LLVM IR.

    Every tile has a layout, every buffer an offset, and no operation is left that a pass lowers.
    Raises CompileError where the target lacks an instruction, at its operation.
    """
    emitter = ModuleEmitter(target, options)
    for table in module.constants:
        emitter.constant_table(table)
    for kernel in module.kernels:
        shared = _shared_memory(emitter, kernel, target)
        function = FunctionEmitter(emitter, kernel, shared, emit_op)
        _parameters(function, kernel)
        emitter.functions.append(function.emit(_header(kernel, target, options)))
    return emitter.text()


def uses_dynamic_shared(kernel: Kernel, target: Target) -> bool:
    """Whether a launch must ask for the kernel's shared memory, because it is more than static."""
    return bool(kernel.attributes.get("shared_bytes", 0) > target.static_shared)


def _shared_memory(emitter: ModuleEmitter, kernel: Kernel, target: Target) -> str:
    """The global that is the kernel's shared memory: of its size, or as the launch says."""
    size = kernel.attributes.get("shared_bytes", 0)
    if not size:
        return ""
    if uses_dynamic_shared(kernel, target):
        return emitter.define_global(
            DYNAMIC_SHARED, f"external addrspace(3) global [0 x i8], align {SHARED_ALIGNMENT}")
    return emitter.define_global(
        f"shared_{kernel.name}",
        f"internal addrspace(3) global [{size} x i8] poison, align {SHARED_ALIGNMENT}")


def _header(kernel: Kernel, target: Target, options: Options) -> str:
    """The function up to its brace: exactly the source's parameters, and the launch bounds."""
    _check_parameters(kernel, target)
    roots = pointer_roots(kernel)
    written, read = _reached(kernel, roots, WRITE), _reached(kernel, roots, READ)
    parameters = []
    for value, info in zip(kernel.parameters, kernel.info, strict=True):
        e = element(value.type)
        attributes = ""
        if isinstance(e, Pointer):
            if e.space == CONSTANT:
                raise fail("constant-parameter", info.span or kernel.span,
                           f"parameter '{value.name}' points to constant memory, whose tables a "
                           "kernel names itself")
            if info.no_alias and not (value in written and value in read):
                attributes += " noalias"  # else LLVM reads no more what other threads have written
            if value not in written:
                attributes += " readonly"
            alignment = info.multiple_of & -info.multiple_of
            attributes += f" align {max(alignment, e.element.bytes)}"
        parameters.append(f"{_parameter_type(value)}{attributes} {parameter_name(value, kernel)}")
    launch = [f'"nvvm.reqntid"="{kernel.threads},1,1"']
    if any(op.name == "fma_dot" for op in kernel.ops()):
        launch.append(f'"{PRODUCTS}"')
    if kernel.attributes.get("cluster", 1) > 1 and "workspace" not in kernel.attributes:
        launch.append(f'"nvvm.cluster_dim"="1,1,{kernel.attributes["cluster"]}"')
    if kernel.attributes.get("min_blocks"):
        launch.append(f'"nvvm.minctasm"="{kernel.attributes["min_blocks"]}"')
    if kernel.attributes.get("max_registers"):
        launch.append(f'"nvvm.maxnreg"="{kernel.attributes["max_registers"]}"')
    if options.denormal == "flush" or (options.denormal is None and options.fast_math):
        launch.append('"denormal-fp-math-f32"="preserve-sign,preserve-sign"')
    return f"define ptx_kernel void @{kernel.name}({', '.join(parameters)}) {' '.join(launch)}"


def _check_parameters(kernel: Kernel, target: Target) -> None:
    """Raise a CompileError if a launch cannot pass so many parameters."""
    size = 0
    for value in kernel.parameters:
        e = element(value.type)
        width = e.bytes if isinstance(e, Scalar) else 8
        size = -(-size // width) * width + width  # each at a multiple of its size
    many = target.capability >= 70
    limit = MANY_PARAMETER_BYTES if many and target.ptx >= 81 else PARAMETER_BYTES
    if size > limit:
        more = (Note(f"-mptx=8.1 and later take {MANY_PARAMETER_BYTES}"),) if many else ()
        raise fail("kernel-signature", kernel.span, f"the parameters of kernel '{kernel.name}' "
                   f"take {size} bytes; {target.name} in PTX {target.ptx // 10}.{target.ptx % 10} "
                   f"takes {limit} at most", *more)


def _parameter_type(value: Value) -> str:
    """A bool is a byte, as in C."""
    t = llvm_type(element(value.type))
    return "i8" if t == "i1" else t


def parameter_name(value: Value, kernel: Kernel) -> str:
    return f"%arg{kernel.parameters.index(value)}"


def _parameters(f: FunctionEmitter, kernel: Kernel) -> None:
    for value in kernel.parameters:
        name = parameter_name(value, kernel)
        e = element(value.type)
        if isinstance(e, Scalar) and e.bits == 1:
            name = f.prelude(f"icmp ne i8 {name}, 0")
        f.values[value] = [name]


def _reached(kernel: Kernel, roots: Roots, effect: str) -> set[Value]:
    """The parameters that something with the effect, on global memory, may reach: all, if it is
    not known of one."""
    found = {roots.get(op.operands[0]) for op in kernel.ops()
             if effect in op.effects and op.operands}
    return {*kernel.parameters} if None in found else {
        origin(root, ("assume_multiple",)) for root in found if root is not None}


# Lines of a function beyond which LLVM generates code without improving it: its strength reduction
# takes time quadratic in the length of a chain of integer operations, 3 s for 20,000 lines of one,
# and in the number of accesses, 3 s for 14,000 lines of a thread that makes 500.
# The assembler improves the code anyway.  Not so beside products in flight (wgmma): unimproved code
# copies its sums before they are waited for, which PTX forbids; at best, ptxas serialises all
# products of the function (C7514).
LONGEST_OPTIMIZED = 12_000

# ---- LLVM ----------------------------------------------------------------------------------------


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


def machine(target: Target, level: int) -> llvm.TargetMachine:
    """LLVM's machine for a target."""
    llvm = _library()
    made = llvm.Target.from_triple(TRIPLE).create_target_machine(
        cpu=target.name, features=f"+ptx{target.ptx}", opt=level)
    assert str(made.target_data) == DATA_LAYOUT
    return made


def assemble(text: str, target: Target, options: Options) -> str:
    """The PTX of a module of LLVM IR."""
    llvm = _library()
    size = max(part.count("\n") for part in text.split("\ndefine "))
    level = max(options.opt_level, 1) if "wgmma." in text else (
        options.opt_level if size <= LONGEST_OPTIMIZED else 0)
    code = machine(target, level)
    module = llvm.parse_assembly(text)
    if options.verify_each:
        module.verify()
    for function in module.functions if PRODUCTS in text else ():
        if any(PRODUCTS.encode() in attribute for attribute in function.attributes):
            # Early CSE, which code generation runs three times, looks at no calls of what may
            # become a coroutine.  No two of the multiply-adds of a product are equal; to find that
            # out took a fifth of LLVM's time.
            function.add_function_attribute("presplitcoroutine")
    optimize(module, code, options)
    return worked_around(str(code.emit_assembly(module)), options)


def optimize(module: llvm.ModuleRef, code: llvm.TargetMachine, options: Options) -> None:
    """The passes that pay: the emitter leaves straight-line code without memory.

    Measured on a matrix product of 2000 multiply-adds: parsing 6 ms, these passes 9, code 100 to
    110 at any level; gvn adds 20 and changes no register, as code generation ends with its own.
    """
    llvm = _library()
    builder = llvm.create_pass_builder(code, llvm.create_pipeline_tuning_options())
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    if options.opt_level:
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
    if options.opt_level > 2:
        passes.add_new_gvn_pass()
        passes.add_instruction_combine_pass()
    passes.run(module, builder)
