"""check_docs finds dead links, missing sections and stale pages."""

import check_docs
from check_docs import Generator

ARCHITECTURE = "### `src/base/`: values\n\n**Invariant:** never.\n\n### `src/plan/`: placement\n"
HEADER = "enum class StatusCode : int {\n  kOk = 0,\n  kMismatch = 2,\n  kShutdown = 7,\n};\n"


def test_dead_link_is_found(make_repo) -> None:
    text = "[a](b.md) [c\nd](missing.md#x) [web](https://example.org)\n```\n[no](link)\n```\n"
    root = make_repo({"docs/a.md": text, "docs/b.md": "\n"})
    findings = list(check_docs.check_links("docs/a.md", text, root))
    assert ["missing.md" in f.text for f in findings] == [True]


def test_named_file_must_exist(make_repo) -> None:
    root = make_repo({"src/base/status.h": "\n"})
    text = "see `src/base/status.h`, `src/other/`, `src/base/gone.cc` and `build/x`\n"
    findings = list(check_docs.check_named_files("ARCHITECTURE.md", text, root))
    assert ["src/base/gone.cc" in f.text for f in findings] == [True]


def test_short_name_must_be_the_end_of_a_path() -> None:
    ends = check_docs.ends_of(["src/base/status.h", "src/plan/cut.cc"])
    text = "`base/status.h` `gone.h` `*_test.cc`\n```\n src/plan/  cut.cc, old.cc\n```\n"
    tour = [f.text for f in check_docs.check_short_names("ARCHITECTURE.md", text, ends)]
    page = [f.text for f in check_docs.check_short_names("docs/a.md", text, ends)]
    assert tour == ["no such file: gone.h", "no such file: old.cc"]
    assert page == ["no such file: gone.h"]


def test_folder_without_section_or_invariant_is_found() -> None:
    paths = [
        "src/base/status.h",
        "src/plan/queue.cc",
        "src/wire/data.h",
        "src/empty/CMakeLists.txt",
    ]
    texts = [f.text for f in check_docs.check_architecture(paths, ARCHITECTURE)]
    assert len(texts) == 2
    assert "src/plan" in texts[0]
    assert "src/wire" in texts[1]


def test_decision_without_status_is_found(make_repo) -> None:
    good = "# 1. One\n\n**Status.** Holds, except for the end: [decision 2](0002-two.md).\n"
    bad = "# 2. Two\n\n**Context.** Some.\n\n**Status.** Holds.\n"
    root = make_repo({"docs/decisions/0001-one.md": good, "docs/decisions/0002-two.md": bad})
    paths = ["docs/decisions/0001-one.md", "docs/decisions/0002-two.md", "docs/decisions/README.md"]
    findings = [f.path for f in check_docs.check_statuses(paths, root)]
    assert findings == ["docs/decisions/0002-two.md"]


def test_page_that_no_index_links_is_found() -> None:
    paths = ["docs/README.md", "docs/a.md", "docs/b.md", "docs/decisions/c.md", "src/d.md"]
    texts = [f.text for f in check_docs.check_index(paths, "docs/", "see [a](a.md)")]
    assert texts == ["does not link b.md"]


def test_page_or_adapter_without_a_place_on_the_site_is_found() -> None:
    paths = ["docs/a.md", "docs/b.md", "python/byteps/torch/__init__.py"]
    paths += ["python/byteps/common/__init__.py", "docs/decisions/0001-x.md"]
    texts = [f.text for f in check_docs.check_site(paths, "nav:\n  - A: docs/a.md\n")]
    assert texts == ["nav does not have docs/b.md", "nav does not have api/torch.md"]


def test_undocumented_error_is_found() -> None:
    texts = [f.text for f in check_docs.check_errors(HEADER, "## `kMismatch` (2): MismatchError\n")]
    assert texts == ["no section '## `kShutdown` (7)'"]


def test_stale_page_is_found_with_what_writes_it(make_repo, monkeypatch) -> None:
    root = make_repo({"docs/options.md": "old\n", "print.sh": "#!/bin/sh\necho new\n"})
    (root / "print.sh").chmod(0o755)
    generator = Generator("docs/options.md", ("print.sh",), "make options")
    monkeypatch.setattr(check_docs, "GENERATORS", (generator,))
    (finding,) = check_docs.check_generated(root)
    assert finding.path == "docs/options.md"
    assert "`make options`" in finding.text
    (root / "docs/options.md").write_text("new\n")
    assert list(check_docs.check_generated(root)) == []


def test_a_text_that_names_a_file_a_user_does_not_have_is_found() -> None:
    python = '"""docs/running.md"""\nsay(f"{x}: docs/running.md")  # docs/tuning.md\n'
    (finding,) = check_docs.check_texts("python/byteps/a.py", python, {"running"})
    assert (finding.line, "say 'bps docs running'" in finding.text) == (2, True)
    cpp = '// docs/running.md "docs/tuning.md"\nSay("a \\"b\\" (docs/running.md)");\n'
    (finding,) = check_docs.check_texts("src/a.cc", cpp, {"running"})
    assert (finding.line, "say 'bps docs running'" in finding.text) == (2, True)
    named = "say(\"'bps docs running', bps docs walking\")\n"
    (finding,) = check_docs.check_texts("python/byteps/a.py", named, {"running"})
    assert "there is no docs/walking.md" in finding.text
