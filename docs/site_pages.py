"""Collects the pages of the site, which `make docs` builds with Sphinx.

    python docs/site_pages.py FOLDER

The site holds the pages of this folder, README.md, CONTRIBUTING.md and CHANGELOG.md.  A file of the
repository that a page links to, such as a sample, becomes a page too, so that each link that works
in the repository works in the site.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

ROOT = Path(__file__).parent.parent
# The table of contents: every page, in reading order.
NAVIGATION = {
    "Start": ["README.md", "docs/tutorial.md", "docs/coming_from.md", "docs/problems.md",
              "docs/debugging.md", "docs/proofs.md", "docs/tuning.md", "docs/embedding.md",
              "docs/python.md"],
    "Reference": ["docs/language.md", "docs/cli.md", "docs/diagnostics.md", "docs/targets.md",
                  "docs/ir.md", "docs/ops.md"],
    "Speed": ["docs/performance.md", "docs/paper.md"],
    "The compiler": ["docs/architecture.md", "docs/passes.md", "docs/bugs.md", "CONTRIBUTING.md",
                     "CHANGELOG.md"],
    "Notes": [f"docs/notes/{name}.md" for name in (
        "measurements", "products", "products_of_floats", "epilogues", "operands", "convolutions",
        "attention", "rows_and_streams", "stencils_and_scans", "unseen", "registers", "tuning",
        "compile_time", "ways", "variants", "passes", "messages", "trust", "frontend")],
}  # fmt: skip
LINK = re.compile(r"\]\(([^)#:]+)(#[^)]*)?\)")
_FENCED = re.compile(r"^```.*?^```$|^    .*?$", re.MULTILINE | re.DOTALL)
_LANGUAGES = {".tc": "c", ".h": "c", ".c": "c", ".cpp": "cpp", ".cu": "cpp", ".py": "python"}


def pages() -> dict[str, str]:
    """The text of each page, by its place in the site."""
    listed = [path for paths in NAVIGATION.values() for path in paths]
    waiting, texts = list(listed), dict[str, str]()
    while waiting:
        path = waiting.pop(0)
        if path in texts:
            continue
        text = _text(path)
        texts[path] = _linked(path, text)
        waiting += [target for link in links(path, text)
                    if not (target := _target(path, link)).startswith("docs/")]
    orphans = {path: f"---\norphan: true\n---\n\n{text}" for path, text in texts.items()
               if path not in listed}
    made = {place(path): text for path, text in (texts | orphans).items()}
    made["index.md"] += _contents()
    return made


def place(path: str) -> str:
    """Where the site has a file of the repository."""
    if path == "README.md":
        return "index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"source/{path.removesuffix('.md')}.md"


def links(path: str, text: str) -> list[str]:
    """The files that a page links to, as it writes them."""
    if not path.endswith(".md") and not (ROOT / path).is_dir():
        return []
    return [match[1] for match in LINK.finditer(_FENCED.sub("", text))]


def write(folder: Path) -> None:
    """Write all pages, and the pictures and tables that they show, into a folder."""
    for name, text in pages().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    for file in (ROOT / "docs").rglob("*"):
        if file.suffix in (".svg", ".csv", ".json"):
            copy = folder / file.relative_to(ROOT / "docs")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())


def _target(path: str, link: str) -> str:
    """The file that a link of a page means, from the root of the repository."""
    target = normpath(join(dirname(path), link))
    return join(target, "README.md") if (ROOT / target / "README.md").exists() else target


def _linked(path: str, text: str) -> str:
    """The text of a page, with the links that the site wants."""
    wanted = {link: relpath(place(_target(path, link)), dirname(place(path)) or ".")
              for link in links(path, text)}
    return LINK.sub(lambda m: f"]({wanted[m[1]]}{m[2] or ''})" if m[1] in wanted else m[0], text)


def _text(path: str) -> str:
    """The page of a file; of a folder, the list of its files."""
    found = ROOT / path
    if found.is_dir():
        names = [entry.name for entry in sorted(found.iterdir()) if entry.is_file()]
        return "\n".join([f"# {path}\n", *(f"- [{n}]({found.name}/{n})" for n in names), ""])
    text = found.read_text(encoding="utf-8")
    if path.endswith(".md"):
        return text
    return f"# {path}\n\n````{_LANGUAGES.get(found.suffix, 'text')}\n{text}\n````\n"


def _contents() -> str:
    """The table of contents, as Sphinx reads it."""
    lines = []
    for title, paths in NAVIGATION.items():
        rows = [place(path) for path in paths if path != "README.md"]
        lines += ["", "```{toctree}", ":hidden:", f":caption: {title}", "", *rows, "```"]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    write(Path(sys.argv[1]))
