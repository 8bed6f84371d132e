"""Copies what the site of `./dev docs` shows into a folder: all pages, with the same places to each
other, the files that they link to, and a page for the API of each adapter.

Usage: site_pages.py FOLDER
"""

import re
import shutil
import sys
from pathlib import Path

from check_docs import FENCE, LINK
from repo import ROOT, files, read

# Pages of tools that only developers start are read in the repository.
NO_PAGE = re.compile(r"^(\.|tests/|bench/|tools/|build/)")
ADAPTERS = ("torch", "jax", "numpy", "tensorflow", "keras", "mxnet")
API = """# byteps.{name}

{summary}

::: byteps.{name}
"""


def pages(paths: list[str]) -> list[str]:
    return [path for path in paths if path.endswith(".md") and not NO_PAGE.match(path)]


def linked_files(path: str, text: str, root: Path) -> list[Path]:
    """The files of the repository that a page links to."""
    found = []
    for match in LINK.finditer(FENCE.sub("", text)):
        target = match.group(1).split("#")[0]
        if not target or "://" in target or target.startswith("mailto:"):
            continue
        place = (root / path).parent.joinpath(target).resolve()
        if place.is_file():
            found.append(place)
    return found


def for_site(text: str) -> str:
    """A link to a folder shows its README in the repository; on a site it must name it."""
    return re.sub(r"\]\(([\w./-]+)/\)", r"](\1/README.md)", text)


def copy(source: Path, folder: Path, root: Path) -> None:
    target = folder / source.relative_to(root)
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix == ".md":
        target.write_text(for_site(source.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        shutil.copyfile(source, target)


def adapters(root: Path) -> list[str]:
    return [n for n in ADAPTERS if (root / "python/byteps" / n / "__init__.py").is_file()]


def summary(root: Path, name: str) -> str:
    """The first line of an adapter's docstring."""
    first = read(f"python/byteps/{name}/__init__.py", root).splitlines()[0]
    return first.strip('"')


def api_page(root: Path, name: str) -> str:
    """What mkdocstrings makes a page of. A function in a file of its own name is hidden behind the
    file, so it is named on its own."""
    text = API.format(name=name, summary=summary(root, name))
    for path in sorted((root / "python/byteps" / name).glob("*.py")):
        if re.search(rf"^(def|class) {path.stem}\b", path.read_text(encoding="utf-8"), re.M):
            text += f"\n::: byteps.{name}.{path.stem}.{path.stem}\n"
    return text


def make(folder: Path, root: Path = ROOT) -> int:
    """Fill the folder; the number of pages."""
    shutil.rmtree(folder, ignore_errors=True)
    shown = pages(files(root))
    for path in shown:
        copy(root / path, folder, root)
        for linked in linked_files(path, read(path, root), root):
            if linked.suffix != ".md":
                copy(linked, folder, root)
    (folder / "api").mkdir(parents=True)
    for name in adapters(root):
        page = folder / "api" / f"{name}.md"
        page.write_text(api_page(root, name), encoding="utf-8")
    return len(shown) + len(adapters(root))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(f"{make(Path(sys.argv[1]))} pages")
