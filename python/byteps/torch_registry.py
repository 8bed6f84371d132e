"""Makes the backend `byteps` known to torch.distributed. It imports nothing that the backend needs.

`init_process_group` asks torch's `env://` for a store before it asks for the backend. torch's own
needs four variables there, which only some launchers set. Where one is missing, or where only
`bps run` has chosen the place, the ranks of this backend meet through byteps itself.

With BYTEPS_TORCH_AS=gloo a program that names gloo gets this backend.
"""

from __future__ import annotations

import importlib
import logging
import sys
import types
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, cast
from urllib.parse import parse_qsl, urlparse

from byteps.common import environment as settings
from byteps.common.job.cluster import torch_is_told_where
from byteps.common.job.launch_notes import GROUP, tell_launcher

BACKEND = "byteps"
SCHEME = "byteps"
LIMIT = timedelta(minutes=30)

_LOG = logging.getLogger("byteps")
Create = Callable[..., Any]
Meet = Callable[..., Iterator[Any]]


def register(create: Create, meet: Meet) -> None:
    """Register the backend and `byteps://`, once. REQUIRES: this torch has torch.distributed.

    `create` makes a process group from torch's options, and `meet` is a rendezvous of torch.
    """
    import torch.distributed as dist

    if BACKEND not in dist.Backend.backend_list:
        stand_in = _StandIn(settings.torch_as(), create)
        dist.Backend.register_backend(
            BACKEND, stand_in.create, extended_api=True, devices=["cpu", "cuda"]
        )
        if stand_in.name:
            stand_in.take_the_name()
    handlers = _handlers()
    if SCHEME in handlers:
        return
    dist.register_rendezvous_handler(SCHEME, meet)
    environment = handlers.get("env")
    if environment is None:
        return

    def meet_by_environment(url: str, timeout: timedelta = LIMIT, **more: Any) -> Iterator[Any]:
        # Here so that a variable that is set later counts.
        backend = _backend_of_caller()
        if BACKEND in backend and not torch_is_told_where(known=_said_in(url)):
            yield from meet(url, timeout)
            return
        if BACKEND not in backend:
            tell_launcher(f"{GROUP}{backend.replace('undefined', 'default')}")
        yield from environment(url, timeout=timeout, **more)

    handlers["env"] = meet_by_environment


class _StandIn:
    """Gives this backend to a program that names another one, and says so once in a job."""

    def __init__(self, name: str, create: Create) -> None:
        """`name`: of the other backend; empty: there is none."""
        self.name = name
        self._create = create
        self._has_news = self._has_told = False

    def take_the_name(self) -> None:
        """Let torch, which makes a Backend of each name that it is given, take ours for it."""
        import torch.distributed as dist

        original = dist.Backend.__new__

        def named(cls: type, name: str) -> str:
            if isinstance(name, str) and name.lower() == self.name:
                self._has_news = not self._has_told
                name = BACKEND
            return str(original(cls, name))

        dist.Backend.__new__ = staticmethod(named)  # type: ignore[method-assign,assignment]

    def create(self, options: Any, backend_options: object = None) -> Any:
        """Make the process group that torch describes."""
        group = self._create(options, backend_options)
        if self._has_news and options.group_rank == 0 and not options.global_ranks_in_group:
            self._has_news, self._has_told = False, True
            _LOG.warning(
                "this program names %r in torch.distributed and gets byteps, because %s is set.",
                self.name,
                settings.TORCH_AS_VARIABLE,
            )
        return group


def _said_in(url: str) -> list[str]:
    """Return the variables for which `init_process_group` has an argument that was given."""
    return [name.upper() for name, _ in parse_qsl(urlparse(url).query)]


def _backend_of_caller() -> str:
    """Return the backend that init_process_group was called with, which torch tells no rendezvous;
    empty where torch has another shape."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "init_process_group" and "backend" in frame.f_locals:
            return str(frame.f_locals["backend"] or "")
        frame = cast("types.FrameType", frame.f_back)
    return ""


def _handlers() -> dict[str, Any]:
    """Return torch's table of rendezvous; an empty one where it has another shape."""
    module = importlib.import_module("torch.distributed.rendezvous")
    handlers = getattr(module, "_rendezvous_handlers", None)
    return handlers if isinstance(handlers, dict) else {}
