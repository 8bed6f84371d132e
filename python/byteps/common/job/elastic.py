"""What adapters say in place of elastic training, which does not exist here."""

from __future__ import annotations

_NAMES = ("elastic", "HostsUpdatedInterrupt")


def missing(module: str, name: str) -> AttributeError:
    """Return the error of a name that a module does not have."""
    if name not in _NAMES:
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    return AttributeError(
        f"{module} has no {name}: no worker can join a running job. If the job shall go on after "
        "it has lost workers, start it with `bps run --min-np` and save checkpoints; "
        "`bps docs migrating` says more."
    )
