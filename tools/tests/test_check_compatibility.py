from check_compatibility import check, public_names

PAGE = """\
| name | | test, or reason |
|---|---|---|
| `allreduce` | works | `test_ops.test_sum` |
| `other` | not yet | later |
"""


def texts(page: str, public: set[str], tests: set[str]) -> list[str]:
    return [finding.text for finding in check(page, public, tests)]


def test_a_true_page() -> None:
    assert texts(PAGE, {"allreduce"}, {"test_ops.test_sum"}) == []


def test_what_is_missing_is_named() -> None:
    assert texts(PAGE, {"allreduce"}, set()) == ["`allreduce`: there is no test test_ops.test_sum"]
    tests = {"test_ops.test_sum"}
    assert texts(PAGE, {"allreduce", "join"}, tests) == [
        "'join' has no row in docs/compatibility.md"
    ]
    assert texts(PAGE, {"allreduce", "other"}, tests) == [
        "`other` is there: it is no longer 'not yet'"
    ]
    assert texts(PAGE.replace("works", "maybe"), {"allreduce"}, tests) == [
        "`allreduce`: 'maybe' is none of works, differs, not yet"
    ]
    assert texts(PAGE.replace("`test_ops.test_sum`", ""), {"allreduce"}, tests) == [
        "`allreduce` works, but no test is named that shows it"
    ]
    assert texts(PAGE.replace("other", "allreduce"), {"allreduce"}, tests)[0].endswith("two rows")


def test_public_names_follow_other_modules(tmp_path) -> None:
    package = tmp_path / "python" / "some"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        'from some import parts\n__all__ = ["one"]\n__all__ += parts.__all__\n'
    )
    (package / "parts.py").write_text('__all__: list[str] = ["two"]\n')
    assert public_names("python/some/__init__.py", tmp_path) == {"one", "two"}
