"""A comment that names a file that is not there is found."""

import pytest

from tidy_paths import check_paths

PATH = "src/protocol/worker/front/front.cc"
FILES = {
    PATH,
    "docs/membership.md",
    "include/byteps/byteps.h",
    "src/protocol/codec.h",
    "src/protocol/worker/lane/lane.h",
    "src/protocol/shard/shard.h",
    "src/wire/control.fbs",
}


def lines(comment: str) -> list[int]:
    return [finding.line for finding in check_paths({PATH: comment + "\n"}, FILES)]


@pytest.mark.parametrize(
    "comment",
    [
        "// The lane (lane.h).",
        "int x;  // The lane (worker/lane.h).",
        "/* The lane:\n * front/lane.h. */",
        "// The lane (src/worker/lane/lane.h).",
        "// The lane (../lane.h).",
        "// The lane (lane/front.cc).",
        "// docs/nothing.md says why.",
    ],
)
def test_file_that_does_not_exist_is_found(comment: str) -> None:
    assert lines(comment) == [1 + comment.count("\n")]


@pytest.mark.parametrize(
    "comment",
    [
        "// The front (front.cc).",
        "// The lane (lane/lane.h).",
        "// The lane (worker/lane/lane.h, ../lane/lane.h).",
        "// The shard, from src/ (protocol/shard/shard.h).",
        "// The codec, in a folder above (codec.h).",
        "// docs/membership.md has the rules. byteps/byteps.h has the call.",
        "// The schema is src/wire/control.fbs.",
        "// A system header: <sys/nothing.h>.",
        "// Files named *mistakes_for_test.h or *_rules.h.",
        "// https://example.org/nothing.md",
        '#include "src/nothing.h"',
        'auto* text = "nothing.h";',
    ],
)
def test_right_way_passes(comment: str) -> None:
    assert lines(comment) == []
