"""The pages of the documentation, which travel in the package."""

from __future__ import annotations

from pathlib import Path

from byteps.common.errors import UnavailableError

_FOLDER = Path(__file__).resolve().parents[1] / "docs"


def names() -> dict[str, str]:
    """Return the title of each page, by the name of the page."""
    return {path.stem: _title(path) for path in sorted(_FOLDER.glob("*.md"))}


def page(name: str) -> str:
    """Return the text of a page. `running`, `running.md` and `docs/running.md` name the same."""
    stem = Path(name).name.removesuffix(".md")
    known = names()
    if stem not in known:
        raise UnavailableError(
            f"There is no page {name!r}. 'bps docs' lists the pages."
            if known
            else f"{_FOLDER} has no pages: the package runs from a checkout, whose folder docs has "
            "them, or pip has removed files of the package ('bps doctor' says so)."
        )
    return (_FOLDER / f"{stem}.md").read_text(encoding="utf-8")


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as lines:
        return next(lines).removeprefix("#").strip()
