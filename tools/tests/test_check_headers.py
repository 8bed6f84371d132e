"""check_headers finds a header that leans on its includer, and compiles nothing twice."""

import check_headers


def test_header_that_needs_another_is_found(make_repo) -> None:
    root = make_repo(
        {
            "src/base/good.h": "#pragma once\n#include <string>\nstd::string Name();\n",
            "src/base/bad.h": "#pragma once\nstd::string Name();\n",
        }
    )
    findings = check_headers.check(root)
    assert [f.path for f in findings] == ["src/base/bad.h"]


def test_record_is_renewed_when_an_included_header_changes(make_repo) -> None:
    root = make_repo(
        {
            "src/base/a.h": '#pragma once\n#include "src/base/b.h"\ninline B b() { return {}; }\n',
            "src/base/b.h": "#pragma once\nstruct B {};\n",
        }
    )
    records = root / "build" / "headers"
    assert check_headers.check(root) == []
    record = records / "src__base__a.h.d"
    assert check_headers.is_current(record, root)
    (root / "src/base/b.h").write_text("#pragma once\nstruct C {};\n")
    assert not check_headers.is_current(record, root)
    assert [f.path for f in check_headers.check(root)] == ["src/base/a.h"]
