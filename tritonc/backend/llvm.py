"""The end of the backend: Triton-IR with layouts to LLVM IR, which `assemble` makes PTX.

`emit` is text, a function of its arguments alone: no name, path or property of this machine gets
into what it gives."""

from tritonc.analysis.aliases import Roots, pointer_roots
from tritonc.analysis.values import origin
from tritonc.backend.assemble import PRODUCTS
from tritonc.backend.emit import emit_op
from tritonc.backend.emit.function import FunctionEmitter
from tritonc.backend.emit.literals import llvm_type
from tritonc.backend.emit.module import ModuleEmitter
from tritonc.backend.shared.shared_memory import SHARED_ALIGNMENT
from tritonc.backend.target.target import Target
from tritonc.ir.core import Kernel, Module, Value
from tritonc.ir.ops import READ, WRITE
from tritonc.ir.types import CONSTANT, Pointer, Scalar, element
from tritonc.options import Options
from tritonc.source import Note, fail

PARAMETER_BYTES, MANY_PARAMETER_BYTES = 4096, 32764  # CUDA programming guide, __global__ functions
DYNAMIC_SHARED = "dynamic_shared"


def emit(module: Module, target: Target, options: Options) -> str:
    """The module as LLVM IR.

    Every tile has a layout, every buffer an offset, and no operation is left that a pass lowers.
    Raises CompileError where the target lacks an instruction, at its operation."""
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
    exact = "maxntid" if "programs" in kernel.attributes else "reqntid"  # see `block_shape`
    launch = [f'"nvvm.{exact}"="{kernel.threads},1,1"']
    if any(op.name == "fma_dot" for op in kernel.ops()):
        launch.append(f'"{PRODUCTS}"')
    if kernel.attributes.get("cluster", 1) > 1 and "workspace" not in kernel.attributes:
        launch.append(f'"nvvm.cluster_dim"="1,1,{kernel.attributes["cluster"]}"')
    if kernel.attributes.get("min_blocks"):
        launch.append(f'"nvvm.minctasm"="{kernel.attributes["min_blocks"]}"')
    if kernel.attributes.get("max_registers"):
        launch.append(f'"nvvm.maxnreg"="{kernel.attributes["max_registers"]}"')
    if options.flushes:
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
    """The parameters that something with the effect on global memory may reach; all, if unknown."""
    found = {roots.get(op.operands[0]) for op in kernel.ops()
             if effect in op.effects and op.operands}
    return {*kernel.parameters} if None in found else {
        origin(root, ("assume_multiple",)) for root in found if root is not None}
