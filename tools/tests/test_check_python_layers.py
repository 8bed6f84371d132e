"""check_python_layers finds imports against the direction, and modules in a circle."""

import pytest

import check_python_layers

TABLE = """
<!-- python layers -->
| room | may import |
|---|---|
| `_core` | |
| `common` | |
| `common.session` | `_core`, `common` |
| `common.basics` | `common`, `common.session` |
| `torch` | `common`, `common.basics` |
| `__init__` | `common` |
<!-- /python layers -->
"""

MODULES = {
    "python/byteps/__init__.py": "",
    "python/byteps/_core.pyi": "",
    "python/byteps/common/__init__.py": "",
    "python/byteps/common/errors.py": "",
    "python/byteps/common/basics.py": "",
    "python/byteps/common/session/__init__.py": "",
    "python/byteps/common/session/flight.py": "",
    "python/byteps/torch/__init__.py": "",
    "tools/x.py": "import byteps.torch\n",
}


def check(make_repo, contents: dict[str, str], table: str = TABLE) -> list[str]:
    root = make_repo({"ARCHITECTURE.md": table, **MODULES, **contents})
    return [str(f) for f in check_python_layers.check(root)]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("common/errors.py", "from byteps.common.session.flight import Flight"),
        ("common/errors.py", "from byteps.common.session import flight"),
        ("common/errors.py", "import byteps.common.session.flight"),
        ("common/errors.py", "from byteps.common import basics"),
        ("common/errors.py", "from byteps import _core"),
        ("common/errors.py", "def f():\n    import byteps.torch"),
        ("common/errors.py", "if TYPE_CHECKING:\n    from byteps.torch import ops"),
        ("common/errors.py", "importlib.import_module('byteps.torch')"),
        ("common/errors.py", "from . import session"),
        ("common/session/flight.py", "import byteps"),
        ("torch/ops.py", "from byteps.common.session import flight"),
        ("jax/ops.py", "import numpy"),  # has no row
    ],
)
def test_an_import_against_the_direction_is_found(make_repo, path: str, text: str) -> None:
    found = check(make_repo, {f"python/byteps/{path}": f"{text}\n"})
    assert len(found) == 1
    assert found[0].startswith(f"python/byteps/{path}:")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("common/basics.py", "from byteps.common.session import flight"),
        ("common/session/flight.py", "from byteps.common import errors"),
        ("common/session/flight.py", "from byteps import _core"),
        ("common/session/names.py", "from byteps.common.session import flight"),
        ("torch/ops.py", "from byteps.common.basics import *"),
        ("torch/ops.py", "importlib.import_module('torch')"),
        ("__init__.py", "import byteps.common"),
    ],
)
def test_what_the_rows_name_may_be_imported(make_repo, path: str, text: str) -> None:
    assert check(make_repo, {f"python/byteps/{path}": f"{text}\n"}) == []


def test_modules_that_import_each_other_are_found_once(make_repo) -> None:
    folder = "python/byteps/common/session"
    found = check(
        make_repo,
        {
            f"{folder}/a.py": "import os\nfrom byteps.common.session import b\n",
            f"{folder}/b.py": "def f():\n    from byteps.common.session.c import x\n",
            f"{folder}/c.py": "from byteps.common.session.a import y\n",
            f"{folder}/d.py": "from byteps.common.session import a, b, c\n",
        },
    )
    names = [f"byteps.common.session.{one}" for one in "abca"]
    assert found == [f"{folder}/a.py:2: modules import each other: {' -> '.join(names)}"]


def test_a_row_without_files_is_found(make_repo) -> None:
    table = TABLE.replace("| `torch`", "| `jax` | |\n| `torch`")
    assert len(check(make_repo, {}, table)) == 1


@pytest.mark.parametrize(
    "table", ["no table", TABLE.replace("| `_core` | |", "| `_core` | `torch` |")]
)
def test_a_table_that_cannot_be_right_is_refused(make_repo, table: str) -> None:
    with pytest.raises(ValueError, match=r"ARCHITECTURE.md has no table|must stand above it"):
        check(make_repo, {}, table)
