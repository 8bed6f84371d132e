"""Whether the files of the package are those that pip has installed.

pip lets a second distribution write over the files of a first, and removes them with either one.
"""

from __future__ import annotations

import base64
import hashlib
import re
from importlib import metadata

DISTRIBUTION = "byteps-cpp"
_PACKAGE = "byteps/"
_NAMED_MAX = 3
_REMEDY = (
    "pip uninstall {}, and then pip install --force-reinstall --no-deps of the wheel or the "
    "checkout that you installed"
)


def problems() -> list[str]:
    """Return a sentence for each way in which the installation is broken."""
    try:
        ours = metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return []  # The package runs from a folder, which pip knows nothing of.
    texts = [
        f"the distribution {name!r} in this environment owns files of the package byteps, too: "
        + _REMEDY.format(name)
        for name in others()
    ]
    missing, changed = compare(ours)
    remedy = _REMEDY.format(DISTRIBUTION)
    if missing:
        texts.append(f"files of {DISTRIBUTION} are gone: {_some(missing)}: {remedy}")
    if changed:
        texts.append(
            f"files of {DISTRIBUTION} are not those that pip has installed: {_some(changed)}: "
            + remedy
        )
    return texts


def others() -> list[str]:
    """Return the names of the other distributions that have files in our package."""
    found = set()
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"] or ""
        # The lists that pip and setup.py leave. The original has one of either kind.
        listed = (distribution.read_text(file) for file in ("RECORD", "installed-files.txt"))
        if _normal(name) != DISTRIBUTION and any(
            re.search(rf"^(\.\./)?{_PACKAGE}", text or "", re.MULTILINE) for text in listed
        ):
            found.add(name)
    return sorted(found)


def compare(ours: metadata.Distribution) -> tuple[list[str], list[str]]:
    """Return the files of the package that are gone, and those with other bytes than installed."""
    missing, changed = [], []
    for file in ours.files or ():
        if file.hash is None or not str(file).startswith(_PACKAGE):
            continue
        try:
            data = file.read_binary()
        except OSError:
            missing.append(str(file))
            continue
        digest = base64.urlsafe_b64encode(hashlib.new(file.hash.mode, data).digest())
        if digest.decode().rstrip("=") != file.hash.value:
            changed.append(str(file))
    return missing, changed


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _some(files: list[str]) -> str:
    """Return the first names, and how many more there are."""
    rest = len(files) - _NAMED_MAX
    return ", ".join(files[:_NAMED_MAX]) + (f" and {rest} more" if rest > 0 else "")
