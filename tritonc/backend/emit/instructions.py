"""The instructions of a function in LLVM IR, as text.

What depends on the thread alone (its lane, its part of an index) goes to the *prelude*, the entry
block, and is computed once per kernel whatever the number of uses."""

from collections.abc import Callable, Sequence

from tritonc.backend.emit.module import CONVERGENT, WRITES, ModuleEmitter


class Instructions:
    """Appends instructions to `lines`, or to the prelude."""

    def __init__(self, module: ModuleEmitter) -> None:
        self.module = module
        self.lines: list[str] = []
        self.count = 0  # of numbered values
        self.label = ""  # the LLVM block being written
        self.prefix = ""  # of names; LLVM wants numbers in the order of lines
        self._new_labels = 0
        self._prelude: list[str] = []
        self._prelude_names: dict[str, str] = {}

    def op(self, text: str) -> str:
        name = f"%{self.prefix}{self.count}"
        self.count += 1
        self.lines.append(f"  {name} = {text}")
        return name

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def call(self, name: str, result: str, *arguments: str, attributes: str = "") -> str:
        """Call an intrinsic or function; an argument is "TYPE OPERAND"."""
        types = ", ".join(a.rpartition(" ")[0] for a in arguments)
        self.module.declare(name, f"{result} ({types})")
        text = f"call {result} @{name}({', '.join(arguments)}){attributes and ' ' + attributes}"
        if result == "void":
            self.line(text)
            return ""
        return self.op(text)

    def convergent(self, name: str, result: str, *arguments: str) -> str:
        """Call an intrinsic in which the threads of a warp or block take part together."""
        return self.call(name, result, *arguments, attributes=CONVERGENT)

    def asm(self, result: str, text: str, outputs: Sequence[str],
            inputs: Sequence[tuple[str, str]], attributes: str = WRITES, memory: bool = True
            ) -> str:
        """Inline assembly with side effects: the constraints of its outputs; of each input its
        constraint and "TYPE OPERAND"; whether it writes `memory` that LLVM knows."""
        constraints = [*outputs, *(constraint for constraint, _ in inputs)]
        constraints += ["~{memory}"] * memory
        call = (f'call {result} asm sideeffect "{text}", "{",".join(constraints)}"'
                f"({', '.join(argument for _, argument in inputs)}) {attributes}")
        if result == "void":
            self.line(call)
            return ""
        return self.op(call)

    def vector(self, t: str, names: Sequence[str]) -> str:
        """Elements of the LLVM type t as a vector."""
        found = "poison"
        for i, name in enumerate(names):
            found = self.op(f"insertelement <{len(names)} x {t}> {found}, {t} {name}, i32 {i}")
        return found

    def new_label(self, hint: str) -> str:
        """A fresh label, for an operation that needs control flow of its own."""
        self._new_labels += 1
        return f"{hint}.{self._new_labels}"

    def start_block(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.label = label

    def under(self, condition: str, hint: str, emit: Callable[[], object]) -> str:
        """Emit instructions that run where the i1 `condition` holds; "" stands for always.  The
        label of the block in which they end."""
        if not condition:
            emit()
            return self.label
        then, after = self.new_label(hint), self.new_label(f"{hint}.end")
        self.line(f"br i1 {condition}, label %{then}, label %{after}")
        self.start_block(then)
        emit()
        end = self.label
        self.line(f"br label %{after}")
        self.start_block(after)
        return end

    def where(self, condition: str, hint: str, t: str, other: str, emit: Callable[[], str]) -> str:
        """The result of `emit`, which runs where `condition` holds, of LLVM type t; `other`
        elsewhere."""
        if not condition:
            return emit()
        names, before = list[str](), self.label
        end = self.under(condition, hint, lambda: names.append(emit()))
        return self.op(f"phi {t} [ {names[0]}, %{end} ], [ {other}, %{before} ]")

    def prelude(self, text: str) -> str:
        """The name of an instruction in the entry block; equal texts are one instruction."""
        name = self._prelude_names.get(text)
        if name is None:
            name = f"%p{len(self._prelude_names)}"
            self._prelude_names[text] = name
            self._prelude.append(f"  {name} = {text}")
        return name

    def prelude_call(self, name: str) -> str:
        """An intrinsic that gives the same i32 throughout the kernel."""
        self.module.declare(name, "i32 ()")
        return self.prelude(f"call i32 @{name}()")

    def both(self, a: str, b: str) -> str:
        """The conjunction of two i1; "" stands for true."""
        if a in ("", "true"):
            return "" if b == "true" else b
        if b in ("", "true"):
            return a
        return self.op(f"and i1 {a}, {b}")
