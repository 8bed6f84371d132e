"""The version of the installed package."""

try:
    # A file of the wheel. The package's metadata say the same, but to read them takes as long as
    # everything else that `import byteps` does.
    from byteps._build_version import TEXT
except ImportError:  # imported from the source folder
    from importlib import metadata

    try:
        TEXT = metadata.version("byteps-cpp")
    except metadata.PackageNotFoundError:
        TEXT = "0+source"

__version__: str = TEXT

VERSION: tuple[int, ...] = tuple(
    int(part) for part in __version__.split("+")[0].split(".") if part.isdigit()
)
