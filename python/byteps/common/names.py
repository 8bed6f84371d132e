"""Names for operations that the user has not named: the same on all ranks, by order of calls."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable

# All kinds of calls are counted together, so that ranks that make different calls meet under one
# name and are told so. A job keeps what it knows of a name until its end, and a name stands for one
# shape. So the first calls get names of their own, under which every difference between ranks is an
# error that names both sides; later ones use names again, which say what the operation is.
CALLS_WITH_OWN_NAME = 4096
CALLS_WITH_OWN_NAME_AFTER_JOIN = 256
NAMES_OF_ONE_SIGNATURE = 256


class UnnamedCalls:
    """Counts unnamed calls. Ranks agree if they make the same calls. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._joins = 0

    def name(self, scope: str, describe: Callable[[], str]) -> str:
        """Return a name for the next unnamed call among the ranks that `scope` stands for.

        `describe` returns all that must be equal on all of them.
        """
        with self._lock:
            own_names = CALLS_WITH_OWN_NAME_AFTER_JOIN if self._joins else CALLS_WITH_OWN_NAME
            self._counts[scope] += 1
            if self._counts[scope] <= own_names:
                # Names of before a join may stand for other shapes.
                since = f"join{self._joins}." if self._joins else ""
                return f"{scope}noname.{since}{self._counts[scope]}"
            digest = hashlib.blake2b(describe().encode(), digest_size=8).hexdigest()
            signature = f"{scope}noname.{digest}"
            self._counts[signature] += 1
            return f"{signature}.{(self._counts[signature] - 1) % NAMES_OF_ONE_SIGNATURE + 1}"

    def begin_again(self) -> None:
        """Count from one again: ranks that made different numbers of calls agree from here on."""
        with self._lock:
            self._counts.clear()
            self._joins += 1


class GivenNames:
    """Keeps names apart that several users have chosen, in the same order on all ranks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def give(self, name: str) -> str:
        """Return the name itself for the first who asks, and one with a number for later ones."""
        with self._lock:
            self._counts[name] += 1
            count = self._counts[name]
        return name if count == 1 else f"{name}#{count}"
