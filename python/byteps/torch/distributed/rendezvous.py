"""How the ranks of a job find torch's store: nobody has to set MASTER_ADDR.

`byteps://` is a rendezvous of torch.distributed: rank 0 opens a TCPStore on a free port, and its
address travels through byteps itself. `init_process_group("byteps")` without an `init_method` comes
here too, unless the environment says where torch meets (byteps/torch_registry.py).
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlparse

import torch.distributed as dist

from byteps.common.errors import InvalidArgumentError, PeerLostError
from byteps.common.job.launch_environment import own_address, tell_libraries
from byteps.common.operations.byte_rows import bytes_of_root
from byteps.common.operations.call import Call
from byteps.common.session import default
from byteps.common.session.session import Session
from byteps.common.types import Operation
from byteps.torch.distributed import told_job
from byteps.torch.distributed.channel import NO_FEWER_RANKS
from byteps.torch_registry import LIMIT, SCHEME

_Meeting = tuple[Any, int, int]


def meet(url: str, timeout: timedelta = LIMIT, **more: Any) -> Iterator[_Meeting]:
    """Join the job if that was not done; yield (store, rank, number of ranks).

    Afterwards RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE are set, from which libraries such
    as Accelerate learn that there is a world.
    """
    wanted = dict(parse_qsl(urlparse(url).query))
    told_job.check_meeting(int(wanted.get("world_size", 1)))
    default.init()
    session = default.current()
    for word, value in (("rank", session.rank), ("world_size", session.size)):
        if int(wanted.get(word, value)) != value:
            raise InvalidArgumentError(
                f"init_process_group was called with {word}={wanted[word]}, in the job it is "
                f"{value}. Leave {word} out: it is known."
            )
    tell_libraries(session.rank, session.size, session.local_rank, session.local_size)
    yield open_store(session, timeout), session.rank, session.size
    raise RuntimeError(f"{SCHEME}:// can be used once for each init_process_group.")


def open_store(session: Session, timeout: timedelta) -> Any:
    """Return a store that the ranks of the job share; rank 0 serves it. Collective."""
    if session.size == 1:
        return dist.HashStore()
    listener = None
    told = None
    if session.rank == 0:
        host = own_address(on_one_machine=session.local_size == session.size)
        listener = _listen(host)
        told = f"{listener.getsockname()[1]} {host}".encode()
    call = Call(Operation.ALLGATHER, "c10d.store")
    try:
        port, _, host = bytes_of_root(call, told, 0).decode().partition(" ")
    except PeerLostError as error:
        raise PeerLostError(f"{error}. {NO_FEWER_RANKS}") from None
    options: dict[str, Any] = {"timeout": timeout, "wait_for_workers": False}
    if listener is None:
        return dist.TCPStore(host, int(port), session.size, is_master=False, **options)
    options.update(is_master=True, master_listen_fd=listener.detach())
    try:
        return dist.TCPStore(host, int(port), session.size, **options)
    except NotImplementedError:  # some versions' default server cannot take a socket
        return dist.TCPStore(host, int(port), session.size, use_libuv=False, **options)


def _listen(host: str) -> socket.socket:
    """Return a socket that listens on a free port of this address alone."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    listener.bind(address)
    listener.listen(socket.SOMAXCONN)
    return listener
