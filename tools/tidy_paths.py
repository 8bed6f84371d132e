"""Paths of files in comments of C++: each file must exist.

A path begins at the folder of its comment, at a folder above it, or at `src/` or `include/`.
"""

import posixpath
import re
from collections.abc import Iterator

from repo import Finding, cxx_comments, line_of

_SUFFIXES = "h|cc|c|fbs|pml|py|sh|md|txt"
# A system header, a pattern (*_rules.h) and a part of an address are not paths.
_PATH = re.compile(
    rf"(?<![\w./:<*{{}}-])(?:\.\./)*(?:[\w-]+/)*[\w-]+\.(?:{_SUFFIXES})\b(?![\w/(*]|\.\w)"
)
ADVICE = "no such file from here, from a folder above, from src/ or from include/ [path]"


def beginnings(path: str) -> Iterator[str]:
    """The folders at which a path in a comment of this file may begin."""
    folder = posixpath.dirname(path)
    while folder:
        yield folder
        folder = posixpath.dirname(folder)
    yield from ("", "src", "include")


def check_paths(texts: dict[str, str], paths: set[str]) -> Iterator[Finding]:
    """`texts`: the files to check; `paths`: all files of the repository."""
    for path, text in texts.items():
        folders = list(beginnings(path))
        for offset, comment in cxx_comments(text):
            for match in _PATH.finditer(comment):
                name = match.group()
                places = (posixpath.normpath(posixpath.join(folder, name)) for folder in folders)
                if paths.isdisjoint(places):
                    line = line_of(text, offset + match.start())
                    yield Finding(path, line, f"'{name}': {ADVICE}")
