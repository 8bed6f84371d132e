"""What every checker needs: the files of the repository, C++ without comments, findings."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHOWN_MAX = 100
CXX_SUFFIXES = (".h", ".cc", ".cpp", ".c")


@dataclass(frozen=True, order=True)
class Finding:
    """One violation. `text` says what is wrong and what to write instead."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def files(root: Path = ROOT) -> list[str]:
    """Paths, relative to `root`, that are tracked or would be; sorted."""
    if not (root / ".git").exists():  # an unpacked archive
        return sorted(_files_without_git(root))
    command = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    result = subprocess.run(command, cwd=root, check=False, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: {result.stderr}")
    return sorted(p for p in set(result.stdout.split("\0")) if p and (root / p).is_file())


def _files_without_git(root: Path) -> Iterator[str]:
    """What .gitignore does not name; of patterns, those that this repository has."""
    patterns = _lines(root / ".gitignore")

    def is_ignored(path: Path, end: str) -> bool:
        names = ((path.as_posix() if p.startswith("/") else path.name, p) for p in patterns)
        return any(fnmatch(name + end, p.removeprefix("/")) for name, p in names)

    for folder, folders, names in os.walk(root):
        place = Path(folder).relative_to(root)
        folders[:] = [
            name
            for name in folders
            # Caches of tools ignore themselves.
            if not is_ignored(place / name, "/")
            and "*" not in _lines(root / place / name / ".gitignore")
        ]
        yield from (str(place / name) for name in names if not is_ignored(place / name, ""))


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n") if path.is_file() else []


def is_cxx(path: str) -> bool:
    return path.endswith(CXX_SUFFIXES)


def read(path: str, root: Path = ROOT) -> str:
    return (root / path).read_text(encoding="utf-8")


_CXX_TOKEN = re.compile(
    r"""
      //[^\n]*                               # line comment
    | /\*.*?\*/                              # block comment
    | R"(?P<tag>[^()\s\\]{0,16})\(.*?\)(?P=tag)"   # raw string
    | "(?:\\.|[^"\\\n])*"                    # string
    | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'    # character, but not a digit separator
    """,
    re.VERBOSE | re.DOTALL,
)


def _blank(match: re.Match[str]) -> str:
    text = match.group(0)
    quote = text[0] if text[0] in "\"'" else ""
    blanks = re.sub(r"[^\n]", " ", text)
    return quote + blanks[1:-1] + quote if quote and len(text) >= 2 else blanks


def code_only(text: str) -> str:
    """C++ with comments, strings and characters blanked out; lines and columns stay."""
    return _CXX_TOKEN.sub(_blank, text)


def cxx_comments(text: str) -> Iterator[tuple[int, str]]:
    """Offset and text of each comment of C++; of // comments one per line."""
    for match in _CXX_TOKEN.finditer(text):
        if match.group(0).startswith("/"):
            yield match.start(), match.group(0)


def report(name: str, findings: Iterable[Finding]) -> int:
    """Prints the findings; the exit status of a checker."""
    found = sorted(findings)
    for finding in found[:SHOWN_MAX]:
        print(finding)
    if found:
        print(f"{name}: {len(found)} finding(s)")
    return 1 if found else 0


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


Checker = Callable[[str, str], Iterable[Finding]]
