"""How a comment of C++ begins: with a subject or a verb, not with a word that replaces a noun."""

import re
from collections.abc import Iterator

from repo import Finding, cxx_comments, line_of

BANNED = (
    "of|who|whose|whoever|whom|what|whatever|which|whether|how|where|why|that|those"
    "|as|and|or|but|nor|else|also|then|so|than|because"
)
_BANNED = re.compile(rf"(?:/\*+|//+)!?[\s*]*(?P<word>{BANNED})\b", re.IGNORECASE)
ADVICE = "begin the comment with a subject, or with a verb as in 'Returns ...'"


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Offset and text of each comment that begins a line; of a block of // lines, the first one."""
    line_of_last = -1
    for offset, comment in cxx_comments(text):
        line = line_of(text, offset)
        continues = line == line_of_last + 1 and comment.startswith("//")
        line_of_last = line if comment.startswith("//") else -1
        stands_alone = not text[text.rfind("\n", 0, offset) + 1 : offset].strip()
        if stands_alone and not continues:
            yield offset, comment


def check_comments(path: str, text: str) -> Iterator[Finding]:
    if not path.endswith((".h", ".cc")):
        return
    for offset, comment in comments(text):
        match = _BANNED.match(comment)
        if match:
            yield Finding(path, line_of(text, offset), f"'{match['word']}': {ADVICE} [comment]")
