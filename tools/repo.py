"""What every checker needs: the files of the repository, C++ without comments, findings."""

import re
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
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
    command = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    output = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    return sorted(p for p in set(output.split("\0")) if p and (root / p).is_file())


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
