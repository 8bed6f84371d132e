"""The version of the package."""

import re
from pathlib import Path

try:
    # A file of the wheel. The package's metadata say the same, but to read them takes as long as
    # everything else that `import byteps` does.
    from byteps._build_version import TEXT
except ImportError:  # imported from the source folder
    try:
        _BUILD = (Path(__file__).resolve().parents[2] / "CMakeLists.txt").read_text()
        TEXT = re.findall(r"project\(byteps VERSION ([0-9.]+)", _BUILD)[0]
    except (OSError, IndexError):
        TEXT = "0+source"

__version__: str = TEXT

VERSION: tuple[int, ...] = tuple(
    int(part) for part in __version__.split("+")[0].split(".") if part.isdigit()
)
