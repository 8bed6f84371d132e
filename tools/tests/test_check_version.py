"""check_version finds places that say another version than CMakeLists.txt."""

import check_version

CMAKE = "project(byteps VERSION 1.2.3 LANGUAGES CXX)\n"
MACROS = "#define BYTEPS_VERSION_MAJOR 1\n#define BYTEPS_VERSION_MINOR 2\n"


def texts(make_repo, patch: str, entry: str) -> list[str]:
    root = make_repo(
        {
            "CMakeLists.txt": CMAKE,
            "include/byteps/byteps.h": f"{MACROS}#define BYTEPS_VERSION_PATCH {patch}\n",
            "CHANGELOG.md": f"# Changes\n\n## {entry}\n\n## 0.1.0\n",
        }
    )
    return [str(finding) for finding in check_version.check(root)]


def test_equal_versions_are_fine(make_repo) -> None:
    assert texts(make_repo, "3", "1.2.3 (2026-11-23)") == []


def test_another_version_is_found_in_the_header_and_in_the_changes(make_repo) -> None:
    header, changes = sorted(texts(make_repo, "4", "1.2.2"), reverse=True)
    assert "the version is 1.2.4, and CMakeLists.txt says 1.2.3" in header
    assert "CHANGELOG.md:3" in changes
