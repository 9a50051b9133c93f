"""How Sphinx builds the site (`make docs`) from the pages that site_pages.py collects."""

from __future__ import annotations

from pygments.lexers.c_cpp import CLexer
from sphinx.application import Sphinx

from tritonc import __version__

project = "tritonc"
release = __version__
extensions = ["myst_parser"]
html_theme = "furo"
html_title = f"tritonc {release}"
html_show_copyright = False
html_copy_source = False
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]  # Triton-C is C to the highlighter, but for @


def setup(app: Sphinx) -> None:
    """Colour Triton-C as C."""
    for name in ("tritonc", "tritonc-error"):
        app.add_lexer(name, CLexer)
