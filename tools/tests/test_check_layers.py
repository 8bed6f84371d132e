"""check_layers finds includes against the direction, and the table is parsed as it is written."""

import pytest

import check_layers
from repo import ROOT, read

TABLE = """
<!-- layers -->
| folder | may include | kind |
|---|---|---|
| `include/byteps` | | |
| `src/base` | | |
| `src/plan` | `base` | pure |
| `src/transport` | `base` | |
| `src/transport/tcp` | `base` | backend |
| `src/house` | `base`, its rooms | pure |
| `src/house/cellar` | | room |
| `src/house/kitchen` | `cellar` | room |
| `src/road` | `base` | |
| `src/road/lane` | `src/road` | room |
| `src/session` | `include/byteps`, `base`, `plan`, `transport`, `house` | |
| `apps` | `src/transport/tcp` | |
| `tests` | anything | |
<!-- /layers -->
"""


def check(make_repo, contents: dict[str, str]) -> list[str]:
    root = make_repo({"ARCHITECTURE.md": TABLE, **contents})
    return [str(f) for f in check_layers.check(root)]


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("src/base/a.cc", '"src/plan/queue.h"'),
        ("src/transport/a.cc", '"src/plan/queue.h"'),
        ("src/plan/a.cc", '"byteps/byteps.h"'),
        ("src/plan/a.cc", "<byteps/byteps.h>"),
        ("include/byteps/byteps.h", '"src/base/status.h"'),
        ("src/session/a.cc", '"src/transport/tcp/loop.h"'),
        ("src/plan/a.cc", "<thread>"),
        ("src/plan/a.cc", "<sys/socket.h>"),
        ("src/plan/a.cc", '"src/base/locks.h"'),
        ("src/base/a.cc", '"status.h"'),
        ("src/unknown/a.cc", '"src/base/status.h"'),
        ("src/transport/a.cc", '"src/transport/tcp/loop.h"'),
        ("src/house/cellar/a.cc", '"src/house/kitchen/pan.h"'),
        ("src/house/cellar/a.cc", '"src/house/house.h"'),
        ("src/house/cellar/a.cc", '"src/plan/queue.h"'),
        ("src/house/cellar/a.cc", "<thread>"),
        ("src/road/a.cc", '"src/road/lane/car.h"'),
        ("src/transport/a_test.cc", '"src/house/cellar/wine.h"'),
        ("src/plan/a_test.cc", '"src/transport/tcp/loop.h"'),
    ],
)
def test_wrong_include_is_found(make_repo, path: str, include: str) -> None:
    contents = {
        "src/base/locks.h": "#pragma once\n#include <mutex>\n",
        path: f"#include {include}\n",
    }
    assert [f for f in check(make_repo, contents) if f.startswith(path)]


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("src/plan/a.cc", '"src/base/status.h"'),
        ("src/session/a.cc", '"byteps/byteps.h"'),
        ("apps/main.cc", '"src/transport/tcp/loop.h"'),
        ("src/transport/tcp/loop.cc", '"src/transport/transport.h"'),
        ("src/transport/transport_test.cc", '"src/transport/tcp/loop.h"'),
        ("src/session/a_test.cc", '"src/transport/tcp/loop.h"'),
        ("src/plan/a_test.cc", "<thread>"),
        ("src/house/house.cc", '"src/house/cellar/wine.h"'),
        ("src/house/kitchen/a.cc", '"src/house/cellar/wine.h"'),
        ("src/house/kitchen/a.cc", '"src/base/status.h"'),
        ("src/house/cellar/a_test.cc", '"src/house/kitchen/pan.h"'),
        ("src/house/cellar/a_for_test.cc", '"src/house/house.h"'),
        ("src/session/a.cc", '"src/house/kitchen/pan.h"'),
        ("src/road/lane/a.cc", '"src/road/a.h"'),
        ("tests/a.cc", '"src/transport/tcp/loop.h"'),
        ("src/base/a.cc", "<gtest/gtest.h>"),
    ],
)
def test_right_include_passes(make_repo, path: str, include: str) -> None:
    assert check(make_repo, {path: f"#include {include}\n"}) == []


def test_include_in_a_comment_does_not_count(make_repo) -> None:
    assert check(make_repo, {"src/base/a.cc": '// #include "src/plan/queue.h"\n'}) == []


def test_header_rules(make_repo) -> None:
    contents = {
        "src/base/a.h": "// no guard\n",
        "src/base/b.h": "#pragma once\n",
        "src/base/b.cc": '#include <string>\n#include "src/base/b.h"\n',
    }
    assert check(make_repo, contents) == [
        "src/base/a.h:1: has no '#pragma once'",
        'src/base/b.cc:1: include "src/base/b.h" first',
    ]


def test_a_row_may_only_name_rows_above() -> None:
    with pytest.raises(ValueError, match="above"):
        check_layers.parse_table(TABLE.replace("| `src/base` | |", "| `src/base` | `plan` |"))


def test_the_table_of_the_repository_has_its_rules() -> None:
    layers = check_layers.parse_table(read(check_layers.TABLE_FILE, ROOT))
    assert layers["src/protocol"].kind == "pure"
    assert layers["src/plan"].kind == "pure"
    assert not layers["include/byteps"].may_include
    assert not {"src/protocol", "src/plan"} & layers["src/transport"].may_include
