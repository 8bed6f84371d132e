"""Documents: relative links resolve, every folder of src/ has its place and its invariant in
ARCHITECTURE.md, every status code its section in docs/errors.md, every decision says whether it
holds, generated pages are current, and programs name pages that a user of a wheel has."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from repo import ROOT, Finding, files, line_of, read, report

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")  # the text may go over two lines
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
STATUS_CODE = re.compile(r"^\s*k([A-Z]\w*) = (\d+),", re.MULTILINE)
NAMED = re.compile(
    r"`((?:src|include|apps|sim|tools|docs|tests|bench|examples|python|cmake)/[\w/-]*\.[\w.]+)`"
)
# A file of the sources by the end of its path: in back quotes on any page, in the tour's pictures.
SHORT = re.compile(r"`([\w/-]*\w\.(?:h|cc|fbs|pml))`")
IN_PICTURE = re.compile(r"(?<![\w/*])(\w+\.(?:h|cc|fbs|py))\b")
TOUR = "ARCHITECTURE.md"
SITE = "mkdocs.yml"
NO_ADAPTERS = ("cli", "common", "keras_common", "misc", "server")


@dataclass(frozen=True)
class Generator:
    """`command` prints the page; its first word is a program below the root, or a file of Python.
    `remedy` writes the page. Only programs that need no build: a build folder may be older than the
    tree (a unit test compares docs/environment.md)."""

    page: str
    command: tuple[str, ...]
    remedy: str


GENERATORS = (
    Generator(
        "docs/compatibility-tests.md",
        ("tools/compatibility_tests.py",),
        "python3 tools/compatibility_tests.py > docs/compatibility-tests.md",
    ),
)


def check_links(path: str, text: str, root: Path) -> Iterator[Finding]:
    prose = FENCE.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)
    for match in LINK.finditer(prose):
        target = match.group(1).split("#")[0]
        if not target or "://" in target or target.startswith("mailto:"):
            continue
        if not (root / path).parent.joinpath(target).exists():
            yield Finding(path, line_of(prose, match.start()), f"link to {target}: no such file")


def check_named_files(path: str, text: str, root: Path) -> Iterator[Finding]:
    """A file of ours that is named in back quotes must be there."""
    for match in NAMED.finditer(FENCE.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)):
        if not (root / match.group(1)).exists():
            yield Finding(path, line_of(text, match.start()), f"no such file: {match.group(1)}")


def check_short_names(path: str, text: str, ends: set[str]) -> Iterator[Finding]:
    """A source that is named by the end of its path must be there. In the tour, pictures count."""
    prose = FENCE.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)
    named = list(SHORT.finditer(prose))
    if path == TOUR:
        named += [n for f in FENCE.finditer(text) for n in IN_PICTURE.finditer(text, *f.span())]
    for match in named:
        if match.group(1) not in ends:
            yield Finding(path, line_of(text, match.start()), f"no such file: {match.group(1)}")


def ends_of(paths: list[str]) -> set[str]:
    """Of each path `a/b/c.h`: `a/b/c.h`, `b/c.h` and `c.h`."""
    split = [path.split("/") for path in paths]
    return {"/".join(parts[i:]) for parts in split for i in range(len(parts))}


def check_architecture(paths: list[str], text: str) -> Iterator[Finding]:
    folders = {p.split("/")[1] for p in paths if re.match(r"src/\w+/.*\.(cc|h|fbs)$", p)}
    for folder in sorted(folders):
        section = re.search(rf"^#+ [^\n]*`src/{folder}/?`.*?(?=^#+ |\Z)", text, re.M | re.S)
        if not section:
            yield Finding(TOUR, 1, f"has no section for src/{folder}")
        elif "**Invariant:**" not in section.group(0):
            yield Finding(TOUR, 1, f"src/{folder}: no '**Invariant:** never ...' line")


def check_index(paths: list[str], folder: str, index: str) -> Iterator[Finding]:
    """Every page of `folder` is linked in its README."""
    for path in paths:
        name = path.removeprefix(folder)
        is_page = name != path and "/" not in name and name.endswith(".md") and name != "README.md"
        if is_page and f"]({name})" not in index:
            yield Finding(f"{folder}README.md", 1, f"does not link {name}")


def check_statuses(paths: list[str], root: Path) -> Iterator[Finding]:
    """Every decision says near its top whether it still holds."""
    for path in paths:
        if not re.fullmatch(r"docs/decisions/\d{4}-[\w-]+\.md", path):
            continue
        if "**Status.** Holds" not in "\n".join(read(path, root).splitlines()[:3]):
            yield Finding(path, 3, "no line '**Status.** Holds ...' below the title")


def check_site(paths: list[str], settings: str) -> Iterator[Finding]:
    """Every page of docs/, and the API of every adapter, has a place on the site."""
    wanted = [p for p in paths if re.fullmatch(r"docs/[\w-]+\.md", p)]
    adapters = (re.fullmatch(r"python/byteps/(\w+)/__init__\.py", p) for p in paths)
    names = [a[1] for a in adapters if a and a[1] not in NO_ADAPTERS]
    for page in [*wanted, *(f"api/{name}.md" for name in names)]:
        if f": {page}\n" not in settings:
            yield Finding(SITE, 1, f"nav does not have {page}")


def check_errors(header: str, page: str) -> Iterator[Finding]:
    for name, number in STATUS_CODE.findall(header):
        if name != "Ok" and not re.search(rf"^#+ .*`k{name}`.*\b{number}\b", page, re.M):
            yield Finding("docs/errors.md", 1, f"no section '## `k{name}` ({number})'")


def texts_of_python(source: str) -> Iterator[tuple[int, str]]:
    """The line and the text of every string of a program that is no docstring."""
    tree = ast.parse(source)
    docstrings = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    for node in (n for n in ast.walk(tree) if isinstance(n, ast.Constant)):
        if isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


def texts_of_cpp(source: str) -> Iterator[tuple[int, str]]:
    """The same of C++, of lines that are no comment."""
    for number, line in enumerate(source.splitlines(), 1):
        if not line.lstrip().startswith("//"):
            for match in re.finditer(r'"((?:[^"\\]|\\.)*)"', line):
                yield number, match[1]


def check_texts(path: str, source: str, pages: set[str]) -> Iterator[Finding]:
    """What a program says sends nobody to a file that a wheel does not have."""
    texts = texts_of_python(source) if path.endswith(".py") else texts_of_cpp(source)
    for number, text in texts:
        if named := re.search(r"\bdocs/([\w-]+)\.md", text):
            yield Finding(path, number, f"say 'bps docs {named[1]}': a user may have no {named[0]}")
        for name in re.findall(r"\bbps docs ([a-z-]+)", text):
            if name not in pages:
                yield Finding(path, number, f"'bps docs {name}': there is no docs/{name}.md")


def generate(generator: Generator, root: Path) -> str:
    program = str(root / generator.command[0])
    python = [sys.executable, "-B"] if program.endswith(".py") else []
    command = [*python, program, *generator.command[1:]]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout


def check_generated(root: Path) -> Iterator[Finding]:
    for generator in GENERATORS:
        page = root / generator.page
        if not page.exists() or page.read_text() != generate(generator, root):
            text = f"is not what its generator prints: run `{generator.remedy}`"
            yield Finding(generator.page, 1, text)


def check(root: Path = ROOT) -> Iterator[Finding]:
    paths = files(root)
    ends = ends_of(paths)
    for path in paths:
        if path.endswith(".md"):
            text = read(path, root)
            yield from check_links(path, text, root)
            yield from check_named_files(path, text, root)
            yield from check_short_names(path, text, ends)
    pages = {Path(p).stem for p in paths if re.fullmatch(r"docs/[\w-]+\.md", p)}
    for path in paths:
        if re.match(r"(python|src|apps)/.*\.(py|cc|h)$", path) and not path.endswith("_test.cc"):
            yield from check_texts(path, read(path, root), pages)
    yield from check_architecture(paths, read(TOUR, root))
    for folder in ("docs/", "docs/decisions/"):
        yield from check_index(paths, folder, read(f"{folder}README.md", root))
    yield from check_statuses(paths, root)
    yield from check_site(paths, read(SITE, root))
    yield from check_errors(read("src/base/status.h", root), read("docs/errors.md", root))
    yield from check_generated(root)


if __name__ == "__main__":
    sys.exit(report("docs", check()))
