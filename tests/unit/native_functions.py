"""Runs helper functions of the emitter natively, compiled by LLVM for this machine."""

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from tritonc.backend.emit.body import HelperBuilder, helper_function
from tritonc.backend.emit.module import ModuleEmitter
from tritonc.backend.target.target import find
from tritonc.options import Options

_LOOP = """
define void @loop_{name}(ptr %x, ptr %y, i64 %n) {{
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %after, %next ]
  %p = getelementptr {t}, ptr %x, i64 %i
  %q = getelementptr {t}, ptr %y, i64 %i
  %v = load {t}, ptr %p
  %w = call {t} @{function}({t} %v)
  store {t} %w, ptr %q
  %after = add i64 %i, 1
  %more = icmp ult i64 %after, %n
  br i1 %more, label %next, label %end
end:
  ret void
}}
"""
_MODELS = """
define float @saturated_model(float %a, float %b, float %c) {
  %sum = call float @llvm.fma.f32(float %a, float %b, float %c)
  %low = fcmp ogt float %sum, 0.0
  %positive = select i1 %low, float %sum, float 0.0
  %high = fcmp olt float %positive, 1.0
  %part = select i1 %high, float %positive, float 1.0
  ret float %part
}
define float @rsqrt_model(float %x) {
  %s = call float @llvm.sqrt.f32(float %x)
  %r = fdiv float 1.0, %s
  ret float %r
}
define double @rsqrt_f64_model(double %x) {
  %s = call double @llvm.sqrt.f64(double %x)
  %r = fdiv double 1.0, %s
  %bits = bitcast double %r to i64
  %nan = fcmp uno double %r, 0.0
  %high = and i64 %bits, -4294967296
  %kept = select i1 %nan, i64 %bits, i64 %high
  %found = bitcast i64 %kept to double
  ret double %found
}
declare double @llvm.sqrt.f64(double)
define float @reciprocal_model(float %x) {
  %r = fdiv float 1.0, %x
  %wrong = fmul float %r, 0x3FF0000020000000
  ret float %wrong
}
declare float @llvm.sqrt.f32(float)
declare float @llvm.exp2.f32(float)
"""


class NativeFunctions:
    """Helpers by name, on arrays.  The hardware's approximations are exact here, but for the
    reciprocal, which is wrong in its last bit as the hardware's may be, and for 1 / sqrt(x) of a
    double, of which it has the high word."""

    def __init__(self, helpers: dict[tuple[str, str], HelperBuilder]) -> None:
        """`helpers`: (name, LLVM type) -> what writes it."""
        module = ModuleEmitter(find("sm_80"), Options())
        loops = [_LOOP.format(name=f"{name}_{t}", t=t,
                              function=helper_function(module, f"{name}.{t}", t, (t,), build))
                 for (name, t), build in helpers.items()]
        lines = [line for line in (module.text() + "".join(loops) + _MODELS).splitlines()
                 if not line.startswith(("target ", "declare float @llvm.nvvm.",
                                        "declare double @llvm.nvvm."))]
        text = "\n".join(lines).replace("addrspace(1) ", "")
        text = text.replace("@llvm.nvvm.rsqrt.approx.f(", "@rsqrt_model(")
        text = text.replace("@llvm.nvvm.rsqrt.approx.ftz.d(", "@rsqrt_f64_model(")
        text = text.replace("@llvm.nvvm.fma.rn.sat.f(", "@saturated_model(")
        text = text.replace("@llvm.nvvm.rcp.approx.ftz.f(", "@reciprocal_model(")
        text = text.replace("@llvm.nvvm.ex2.approx.ftz.f(", "@llvm.exp2.f32(")
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=1)
        parsed = llvm.parse_assembly(text)
        parsed.verify()
        self._engine = llvm.create_mcjit_compiler(parsed, machine)
        self._engine.finalize_object()

    def call(self, name: str, t: str, x: Any) -> Any:
        address = self._engine.get_function_address(f"loop_{name}_{t}")
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p,
                                    ctypes.c_int64)(address)
        given = np.ascontiguousarray(x, np.float32 if t == "float" else np.float64)
        found = np.empty_like(given)
        function(given.ctypes.data, found.ctypes.data, given.size)
        return found
