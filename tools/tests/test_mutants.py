"""The edits that `./dev lane mutants` makes."""

import random
from pathlib import Path

import pytest

from mutants.campaign import AREAS, Area, Campaign, Known, Step
from mutants.edits import Edit, edits_of

CXX = """\
// a == b in a comment
bool Full(int a, int b) {
  if (a < b && !done_) return true;
  log(" == ");
  Take(a + 1);
  return false;
}
"""

PYTHON = '''\
def full(a: int) -> bool:
    """a == b in a text"""
    if a == 1 and not done:
        print("a + b")
        return True
    return False
'''


def _changes(path: str, text: str) -> set[tuple[int, str]]:
    return {(edit.line, edit.new.strip()) for edit in edits_of(path, text)}


def test_every_kind_is_made_in_code() -> None:
    changes = _changes("x.cc", CXX)
    assert {
        (3, "if (a <= b && !done_) return true;"),
        (3, "if (a < b || !done_) return true;"),
        (3, "if (a < b && done_) return true;"),
        (3, "if (true) return true;"),
        (3, "if (false) return true;"),
        (3, "if (a < b && !done_) return false;"),
        (5, "Take(a - 1);"),
        (5, "Take(a + 2);"),
        (5, ";"),
        (6, "return true;"),
    } <= changes


def test_comments_and_texts_are_left_alone() -> None:
    assert not [line for line, new in _changes("x.cc", CXX) if line == 1 or "!=" in new]
    assert not [line for line, new in _changes("x.py", PYTHON) if line == 2 or "a - b" in new]


def test_python_is_edited_in_its_own_words() -> None:
    changes = _changes("x.py", PYTHON)
    assert {
        (3, "if a != 1 and not done:"),
        (3, "if a == 1 or not done:"),
        (3, "if a == 1 and done:"),
        (3, "if True:"),
        (3, "if False:"),
        (4, "pass"),
        (5, "return False"),
        (6, "return True"),
    } <= changes


def test_an_edit_is_applied_to_its_line_alone() -> None:
    edit = Edit("x.cc", 2, "answer", "b", "c")
    assert edit.applied("a\nb\nb\n") == "a\nc\nb\n"
    with pytest.raises(ValueError, match=r"x\.cc:2"):
        edit.applied("a\nx\n")


def _campaign(tmp_path: Path, known: list[Known] | None = None) -> tuple[Campaign, Area, Edit]:
    """A tree of one file, whose test is that the file has an `a < b`."""
    folder = tmp_path / "scratch/tree/lib"
    folder.mkdir(parents=True)
    (folder / "x.py").write_text("if a < b:\n    pass\n")
    (folder / "x_test.py").write_text("a == b\n")
    area = Area("lib", (Step(("grep", "-q", "a < b", "lib/x.py")),))
    campaign = Campaign(tmp_path, tmp_path / "scratch", "python3", 1, known=known or [])
    edit = Edit("lib/x.py", 1, "border", "if a < b:", "if a <= b:")
    return campaign, area, edit


def test_what_the_tests_notice_is_caught_and_undone(tmp_path: Path) -> None:
    campaign, area, edit = _campaign(tmp_path)
    assert campaign.run(area, edit).outcome == "caught"
    assert campaign.fits(edit)
    assert (
        campaign.run(area, Edit("lib/x.py", 2, "statement", "    pass", "")).outcome == "survived"
    )


def test_what_is_known_to_change_nothing_is_not_run(tmp_path: Path) -> None:
    campaign, area, edit = _campaign(
        tmp_path, [Known("lib/x.py", "if a < b:", "if a <= b:", "a is never b")]
    )
    assert campaign.run(area, edit).outcome == "equivalent"


def test_tests_are_not_edited(tmp_path: Path) -> None:
    campaign, area, _ = _campaign(tmp_path)
    picked = list(campaign.pick(area, random.Random(1)))
    assert {edit.path for edit in picked} == {"lib/x.py"}
    assert len(picked) == len(set(picked))


def test_only_the_files_that_are_asked_for_are_edited(tmp_path: Path) -> None:
    campaign, area, _ = _campaign(tmp_path)
    (tmp_path / "scratch/tree/lib/y.py").write_text("if a < b:\n    pass\n")
    picked = list(campaign.pick(area, random.Random(1), ["lib/y"]))
    assert {edit.path for edit in picked} == {"lib/y.py"}


def test_every_area_is_a_folder_of_this_tree() -> None:
    root = Path(__file__).resolve().parents[2]
    assert [area.folder for area in AREAS if not (root / area.folder).is_dir()] == []
    for area in AREAS:
        for pattern in area.pytest:
            assert list((root / "tests/python").glob(pattern)), pattern
