"""The preprocessor: directives, included files, the predefined macros, and its output as text.

    text --lexer--> tokens --directives--> tokens --macros--> tokens that the parser reads

`Preprocessor.next_token` yields the tokens of all files in one stream, and carries out directives
when it comes to them.  Macro expansion pulls from that stream, so a use may take its arguments
across lines, directives and the end of an included file.

Every mistake is reported with its place, and reading goes on; only where a limit is passed (nested
or repeated includes, exploding macros) does it stop, by raising CompileError."""

from tritonc.frontend.preprocess.directives import Preprocessor
from tritonc.frontend.preprocess.options import PreprocessOptions, load_source, read_bytes
from tritonc.frontend.preprocess.output import Preprocessed, render
from tritonc.source import Diagnostics, SourceFile

__all__ = ["PreprocessOptions", "Preprocessed", "expand_text", "load_source",
           "preprocess", "read_bytes", "render"]


def preprocess(source: SourceFile, options: PreprocessOptions, diagnostics: Diagnostics
               ) -> Preprocessed:
    """Preprocess the main file `source`.

    Errors go to `diagnostics`; with errors there the tokens are not worth parsing.  Raises
    CompileError where reading cannot go on."""
    return Preprocessor(options, diagnostics).run(source)


def expand_text(text: str) -> str:
    """`text` preprocessed, for examples: the spellings with the blanks between them."""
    diagnostics = Diagnostics()
    done = preprocess(SourceFile("example", text), PreprocessOptions(), diagnostics)
    diagnostics.raise_if_errors()
    return "".join(" " * t.space_before + t.text for t in done.tokens[:-1]).strip()
