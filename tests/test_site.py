"""The pages of the site: each is in the table of contents, and each link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from modules import load

ROOT = Path(__file__).parent.parent
SITE = load(ROOT / "docs" / "site_pages.py")
PAGES: dict[str, str] = SITE.pages()
_LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)")
_CODE = re.compile(r"^(`{3,}).*?^\1$|`[^`\n]+`|<!--.*?-->", re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub and Sphinx name them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_contents_name_every_page() -> None:
    listed = [path for paths in SITE.NAVIGATION.values() for path in paths]
    there = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert len(set(listed)) == len(listed)
    assert set(listed) == there | {"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}


@pytest.mark.parametrize("name", [name for name in PAGES if name.count("/") < 2])
def test_links(name: str) -> None:
    """Of the pages as the site has them; a link to no page is one to a picture or a table."""
    for target, anchor in _LINK.findall(_CODE.sub("", PAGES[name])):
        place = (Path("/") / Path(name).parent / target).resolve().relative_to("/").as_posix()
        place = place if target else name
        assert place in PAGES or (ROOT / "docs" / place).is_file(), f"{name}: {target}"
        assert not anchor or anchor in anchors(PAGES[place]), f"{name}: {target}#{anchor}"


def test_links_in_the_repository() -> None:
    """The same links lead to files where the pages are read as they are."""
    for path in [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"),
                 *(ROOT / "examples").rglob("*.md"), *(ROOT / "editors").rglob("*.md")]:
        for target, _ in _LINK.findall(_CODE.sub("", path.read_text(encoding="utf-8"))):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_a_wrong_link_would_be_found() -> None:
    assert _LINK.findall("see [x](nowhere.md#a) and `[y](z.md)`, [b](#c)") == [
        ("nowhere.md", "a"), ("z.md", ""), ("", "c")]
    assert anchors("# A `b`, c\n\n```\n# no\n```\n") == {"a-b-c"}
