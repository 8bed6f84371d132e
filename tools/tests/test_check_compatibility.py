from check_compatibility import FRAMEWORKS, check, names_of_frameworks, public_names
from compatibility_tests import page_of

PAGE = """\
## Operations

| name | | note |
|---|---|---|
| `allreduce` | works | of any size |
| `other` | not yet | |
"""
LIST = """\
# A comment.
`allreduce`
    test_ops.test_sum
    test_ops.test_large: of any size
"""
TESTS = {"test_ops.test_sum", "test_ops.test_large"}


def texts(page: str, listed: str, public: set[str], tests: set[str]) -> list[str]:
    return [finding.text for finding in check(page, listed, public, tests)]


def test_a_true_page() -> None:
    assert texts(PAGE, LIST, {"allreduce"}, TESTS) == []


def test_what_is_missing_is_named() -> None:
    assert texts(PAGE, LIST, {"allreduce"}, {"test_ops.test_large"}) == [
        "`allreduce`: there is no test test_ops.test_sum"
    ]
    assert texts(PAGE, LIST, {"allreduce", "join"}, TESTS) == [
        "'join' has no row in docs/compatibility.md"
    ]
    assert texts(PAGE, LIST, {"allreduce", "other"}, TESTS) == [
        "`other` is there: it is no longer 'not yet'"
    ]
    assert texts(PAGE.replace("works", "maybe"), LIST, {"allreduce"}, TESTS) == [
        "`allreduce`: 'maybe' is none of works, differs, not yet"
    ]
    assert texts(PAGE, "", {"allreduce"}, TESTS) == [
        "`allreduce` works, but tools/compatibility_tests.txt names no test of it"
    ]
    more = f"{LIST}`broadcast`\n    test_ops.test_sum\n"
    assert texts(PAGE, more, {"allreduce"}, TESTS) == [
        "docs/compatibility.md has no row `broadcast`"
    ]
    twice = PAGE.replace("other", "allreduce")
    assert texts(twice, LIST, {"allreduce"}, TESTS)[0].endswith("two rows")


def test_the_page_of_tests_has_a_line_for_each_test() -> None:
    page = page_of(PAGE, LIST, dict.fromkeys(TESTS, "tests/python/test_ops.py"))
    assert page.endswith(
        "## Operations\n\n| promise | part | test |\n|---|---|---|\n"
        "| `allreduce` |  | [`test_ops.test_sum`](../tests/python/test_ops.py) |\n"
        "| `allreduce` | of any size | [`test_ops.test_large`](../tests/python/test_ops.py) |\n"
    )


def test_public_names_follow_other_modules(tmp_path) -> None:
    package = tmp_path / "python" / "some"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        'from some import parts\n__all__ = ["one"]\n__all__ += parts.__all__\n'
    )
    (package / "parts.py").write_text('__all__: list[str] = ["two"]\n')
    assert public_names("python/some/__init__.py", tmp_path) == {"one", "two"}


def test_names_of_frameworks_are_those_beside_the_common_ones(tmp_path) -> None:
    package = tmp_path / "python" / "byteps"
    (package / "common").mkdir(parents=True)
    (package / "common" / "basics.py").write_text('__all__ = ["init"]\n')
    for framework in FRAMEWORKS:
        (package / framework).mkdir()
        (package / framework / "__init__.py").write_text('__all__ = ["init", "own"]\n')
    assert names_of_frameworks(tmp_path) == {f"byteps.{one}.own" for one in FRAMEWORKS}
