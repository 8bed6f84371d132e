"""A comment that begins with a word in place of a noun is found, wherever it may stand."""

import pytest

from tidy_comments import BANNED, check_comments

PATH = "src/base/a.h"


def lines(text: str, path: str = PATH) -> list[int]:
    return [finding.line for finding in check_comments(path, text)]


@pytest.mark.parametrize("word", BANNED.split("|"))
def test_each_banned_word_is_found(word: str) -> None:
    assert lines(f"int x;\n// {word.capitalize()} the shard sends.\nint y;\n") == [2]


@pytest.mark.parametrize(
    "comment",
    [
        "// what the shard sends",
        "  //Of the shard.",
        "/// What the shard sends.",
        "/* Of the shard. */",
        "/** Of the shard. */",
        "/*\n * Of the shard.\n */",
        "// What's left.",
    ],
)
def test_each_form_of_comment_is_read(comment: str) -> None:
    assert lines(comment + "\n") == [1]


@pytest.mark.parametrize(
    "text",
    [
        "// Returns what the shard sends.",
        "// REQUIRES: a view.",
        "// Asks the shard.",
        "// Offers a piece.",
        "// The shard sends the answers\n// of the pieces that it has.",
        "int x;  // of the shard",
        "int x;  // a long noun phrase that needs a second line because\n        // of its length",
        '// clang-format off\nauto kText = "// Of the shard";',
        'auto kText = R"(\n// Of the shard\n)";',
        "/* Sends it,\n * whatever it is. */",
    ],
)
def test_right_way_passes(text: str) -> None:
    assert lines(text + "\n") == []


def test_two_comments_are_two() -> None:
    assert lines("// Sends it.\n\n// Of the shard.\nint x;\n// Whose it is.\n") == [3, 5]
    assert lines("/* Sends it. */\n// Of the shard.\n") == [2]


def test_only_cxx_is_checked() -> None:
    comment = "// Of the shard.\n"
    assert lines(comment, "anywhere/deeper/a.h") == [1]
    assert lines(comment, "src/base/a.py") == []
