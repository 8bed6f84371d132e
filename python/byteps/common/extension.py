"""Whether a plugin of the package can be used."""

from __future__ import annotations

from pathlib import Path


def check_extension(ext_name: str, ext_env_var: str, pkg_path: str, *args: str) -> None:
    """Raise ImportError unless the file `args` of the package at `pkg_path` is there.

    Example::

        check_extension("byteps.torch", "BYTEPS_WITH_PYTORCH", __file__, "ops.py")
    """
    place = Path(pkg_path).parent.joinpath(*args)
    if not place.exists():
        raise ImportError(
            f"Extension {ext_name} has not been built. If this is not expected, reinstall BytePS "
            f"with {ext_env_var}=1 to debug the build error."
        )
