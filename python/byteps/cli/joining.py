"""Whether the programs that a launcher has started have joined a job, or ran each by itself."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Sequence
from pathlib import Path

from byteps.cli.children import ProcessSpec
from byteps.common.job.launch_notes import (
    GROUP,
    IMPORTED,
    JOINED,
    WORD_BYTES_MAX,
    address_of,
)

_PYTHON = re.compile(r"python[\d.]*|.+\.py")
_WORDS_MAX = 1000  # for each look; the rest comes with the next


class Joining:
    """Hears what the processes of one launcher tell of themselves."""

    def __init__(self, marker: str) -> None:
        self._said: set[str] = set()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._can_hear = True
        try:
            self._socket.bind(address_of(marker))
        except OSError:
            self._can_hear = False

    @property
    def descriptor(self) -> int:
        """Return what is readable when there is something to hear."""
        return self._socket.fileno()

    def listen(self) -> None:
        """Hear what was told. Never blocks."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(_WORDS_MAX):
                word = self._socket.recv(WORD_BYTES_MAX).decode(errors="replace")
                if word in (JOINED, IMPORTED) or word.startswith(GROUP):
                    self._said.add(word)

    def close(self) -> None:
        """Hear no more."""
        self._socket.close()

    def why_alone(self, specs: Sequence[ProcessSpec]) -> str:
        """Return what to tell the user if several programs of Python ran and none joined the job.

        `specs`: the processes of this launcher. Where the job has more on other hosts, the host of
        rank 0 speaks for all. Of a program that is none of Python nothing is known: it may join
        through the C interface, or be `true`. A script of the shell counts if torch is in it.
        """
        self.listen()
        workers = (spec for spec in specs if spec.is_worker and spec.task is None)
        first = next((spec for spec in workers if spec.rank == 0), None)
        size = int(first.environment.get("WORLD_SIZE") or 0) if first is not None else 0
        if first is None or size < 2 or not self._can_hear or JOINED in self._said:
            return ""
        backends = sorted(word.removeprefix(GROUP) for word in self._said - {JOINED, IMPORTED})
        if backends:
            stand_in = ", or start the job with --as gloo" if backends == ["gloo"] else ""
            return (
                f"{size} programs ran with the backend {' and '.join(map(repr, backends))} of "
                "torch.distributed and none called init, so byteps has exchanged nothing. To use "
                f"it, name 'byteps' in init_process_group{stand_in}"
            )
        if IMPORTED in self._said or any(map(_is_python, first.arguments)):
            return (
                f"{size} programs ran and none called init: unless they met in another way, they "
                "trained independently. Call bps.init() in the program, or "
                "init_process_group('byteps')"
            )
        return ""


def _is_python(word: str) -> bool:
    return _PYTHON.fullmatch(Path(word).name) is not None
