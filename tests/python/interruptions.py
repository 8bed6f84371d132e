"""Interrupts Python code where Python does it for the handler of a signal."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from types import FrameType

# Python looks for signals behind these instructions only.
LOOKS_FOR_SIGNALS = ("RESUME", "CALL", "JUMP_BACKWARD", "JUMP_ABSOLUTE")


def at_place(
    number: int, call: Callable[[], object], handler: Callable[[], object], *files: str
) -> bool:
    """Make a call, and run the handler at place `number`, from 1, in the code of these files.

    What the handler raises ends the call. Return whether there was such a place.
    """
    places = 0
    last: dict[FrameType, str] = {}

    def trace(frame: FrameType, event: str, _: object) -> object:
        nonlocal places
        if not frame.f_code.co_filename.endswith(files):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        if event == "opcode":
            before = last.get(frame, "RESUME")
            last[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            if before.startswith(LOOKS_FOR_SIGNALS):
                places += 1
                if places == number:
                    handler()  # which Python does not trace
        elif event == "return":
            last.pop(frame, None)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
        last.clear()  # a frame that a handler's exception has ended would keep itself alive
    return places >= number
