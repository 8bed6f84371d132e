"""Signals as events of a selector."""

from __future__ import annotations

import contextlib
import selectors
import signal
import socket
from collections.abc import Callable, Iterator

from byteps.cli import guard

_NUMBERS_MAX = 64


@contextlib.contextmanager
def signals_as_events(
    selector: selectors.BaseSelector, on_signals: Callable[[bytes], None]
) -> Iterator[None]:
    """Make events of the signals that concern a job; `on_signals` gets their numbers, a byte each.

    The main thread has to call this. A signal that is ignored stays ignored, except SIGCHLD.
    """
    receiver, sender = socket.socketpair()
    receiver.setblocking(False)
    sender.setblocking(False)

    def on_readable() -> None:
        on_signals(receiver.recv(_NUMBERS_MAX))

    selector.register(receiver, selectors.EVENT_READ, on_readable)
    before = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    handlers = {}
    for number in (*guard.ENDING_SIGNALS, *guard.PASSED_SIGNALS):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup stays in force
            handlers[number] = signal.signal(number, lambda *_: None)
    # Where it is ignored, the kernel forgets how children have ended.
    handlers[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        selector.unregister(receiver)
        receiver.close()
        sender.close()
