"""The module-level parts of the LLVM IR: declarations, globals, helper functions, metadata.

Helpers are small functions such as `exp` that the kernels call; each is written once per module, on
first use, and LLVM inlines it."""

from collections.abc import Callable

from tritonc.backend.assemble import DATA_LAYOUT, TRIPLE
from tritonc.backend.emit.literals import CONSTANT_SPACE, bits_of, literal, memory_type
from tritonc.backend.target.target import Target
from tritonc.ir.core import ConstantTable
from tritonc.ir.types import I1
from tritonc.options import Options, mapped_path
from tritonc.source import Span

# Attribute groups of calls.
READS, WRITES, CONVERGENT, PURE = "#0", "#1", "#2", "#3"
_ATTRIBUTES = (
    "attributes #0 = { nounwind willreturn memory(read) }",
    "attributes #1 = { nounwind willreturn }",
    "attributes #2 = { convergent nounwind }",
    "attributes #3 = { nounwind willreturn memory(none) }",
    "attributes #4 = { alwaysinline nounwind }",  # helpers
    "attributes #5 = { noinline nounwind }",
)
NO_WRITES = "!0"  # the metadata of `!invariant.load`


class ModuleEmitter:
    """Collects the text of a module.  Everything comes out in the order of first use."""

    def __init__(self, target: Target, options: Options) -> None:
        self.target = target
        self.options = options
        self.functions: list[str] = []
        self.tables: dict[str, int] = {}  # elements of each symbol of constant memory
        self._declarations: dict[str, str] = {}
        self._globals: dict[str, str] = {}
        self._helpers: dict[str, str] = {}
        self._strings: dict[bytes, str] = {}
        self._metadata: list[str] = ["!{}"]
        self._files: dict[str, int] = {}
        self._subprograms: dict[str, int] = {}
        self._scopes: dict[tuple[str, str], int] = {}  # kernel, file -> what locations stand in
        self._locations: dict[tuple[str, str, int, int], str] = {}
        self._unit = 0

    def declare(self, name: str, signature: str) -> None:
        """Declare an external function or intrinsic; `signature` is "RESULT (PARAMETERS)"."""
        if name not in self._declarations:
            result, _, parameters = signature.partition(" (")
            self._declarations[name] = f"declare {result} @{name}({parameters}"

    def define_global(self, name: str, definition: str) -> str:
        """Define a global variable once; gives its name."""
        self._globals.setdefault(name, f"@{name} = {definition}")
        return f"@{name}"

    def define_helper(self, name: str, text: Callable[[str], str]) -> str:
        """The name of a helper function, whose text is made on first use, given that name."""
        name = f"tritonc.{name}"
        if name not in self._helpers:
            self._helpers[name] = ""  # fixes its place
            self._helpers[name] = text(name)
        return name

    def string(self, text: str) -> str:
        """A zero-terminated string in global memory; gives its name."""
        data = text.encode() + b"\0"
        if data not in self._strings:
            name = f"tritonc_string_{len(self._strings)}"
            escaped = "".join(chr(c) if 32 <= c < 127 and c not in (34, 92) else f"\\{c:02X}"
                              for c in data)
            self.define_global(name, f"private unnamed_addr addrspace(1) constant "
                                     f"[{len(data)} x i8] c\"{escaped}\"")
            self._strings[data] = f"@{name}"
        return self._strings[data]

    def constant_table(self, table: ConstantTable) -> None:
        """Define a symbol of constant memory: its content, or zeros for the host to fill."""
        t = memory_type(table.element)
        self.tables[table.name] = table.count
        if table.data is None or not any(bits_of(table.element, v) for v in table.data):
            content = "zeroinitializer"
        else:
            values = [*table.data, *[0] * (table.count - len(table.data))]
            names = [str(int(bool(v))) if table.element == I1 else literal(table.element, v)
                     for v in values]
            content = f"[{', '.join(f'{t} {name}' for name in names)}]"
        kind = "externally_initialized global" if table.data is None else "constant"
        alignment = max(16, table.element.bytes)
        self.define_global(table.name, f"addrspace({CONSTANT_SPACE}) {kind} "
                                       f"[{table.count} x {t}] {content}, align {alignment}")

    # source lines

    def _node(self, text: str) -> int:
        self._metadata.append(text)
        return len(self._metadata) - 1

    def _file(self, presumed: str) -> int:
        if presumed not in self._files:
            path = mapped_path(presumed, self.options.file_prefix_map)
            name = path.replace("\\", "/").replace('"', "'")  # PTX cannot quote them,
            name = name.encode("utf-8", "replace").decode()  # nor is it anything but UTF-8
            self._files[presumed] = self._node(f'!DIFile(filename: "{name}", directory: "")')
        return self._files[presumed]

    def subprogram(self, name: str, span: Span) -> str:
        """The debug information of a kernel; gives the suffix of its `define`."""
        name_of_file, line = span.presumed
        file = self._file(name_of_file)
        kind = "FullDebug" if self.options.debug else "DebugDirectivesOnly"
        if not self._unit:
            self._unit = self._node(
                f"distinct !DICompileUnit(language: DW_LANG_C99, file: !{file}, "
                'producer: "tritonc", isOptimized: true, runtimeVersion: 0, '
                f"emissionKind: {kind})")
        types = self._node("!DISubroutineType(types: !0)")
        node = self._node(
            f'distinct !DISubprogram(name: "{name}", scope: !{file}, file: !{file}, '
            f"line: {line}, scopeLine: {line}, type: !{types}, "
            f"spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !{self._unit})")
        self._subprograms[name] = self._scopes[name, name_of_file] = node
        return f" !dbg !{node}"

    def _scope(self, function: str, presumed: str) -> int:
        """What stands for the part of a kernel that a file holds: a header, or what #line names."""
        if (function, presumed) not in self._scopes:
            kernel, file = self._subprograms[function], self._file(presumed)
            self._scopes[function, presumed] = self._node(
                f"!DILexicalBlockFile(scope: !{kernel}, file: !{file}, discriminator: 0)")
        return self._scopes[function, presumed]

    def location(self, function: str, span: Span) -> str:
        """The suffix of an instruction that comes from `span`."""
        name, line = span.presumed
        found = self._locations.get((function, name, line, span.column))
        if found is None:
            scope = self._scope(function, name)
            node = self._node(f"!DILocation(line: {line}, column: {span.column}, "
                              f"scope: !{scope})")
            found = self._locations[function, name, line, span.column] = f", !dbg !{node}"
        return found

    def text(self) -> str:
        metadata = [f"!{i} = {text}" for i, text in enumerate(self._metadata)]
        if self._unit:
            flags = len(metadata)
            metadata += [f"!llvm.dbg.cu = !{{!{self._unit}}}",
                         f"!llvm.module.flags = !{{!{flags}}}",
                         f'!{flags} = !{{i32 2, !"Debug Info Version", i32 3}}']
        parts = [f'target triple = "{TRIPLE}"', f'target datalayout = "{DATA_LAYOUT}"', "",
                 *self._globals.values(), "", *self.functions, *self._helpers.values(),
                 *self._declarations.values(), "", *_ATTRIBUTES, "", *metadata, ""]
        return "\n".join(parts)
