"""Which frames the user sees of an error of the job."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any

import pytest

from byteps.common import errors
from byteps.common.job import error_text
from byteps.common.operations import call
from byteps.common.session import flight

PROGRAM = "/opt/my/train.py"
TORCH = "/opt/env/lib/python3.11/site-packages/torch/autograd/function.py"


def raised(kind: type[BaseException], files: Sequence[str]) -> BaseException:
    """Return an error that a function of the last file has raised, and those before have called."""
    function = _function("raise kind('why')", files[-1], kind=kind)
    for file in reversed(files[:-1]):
        function = _function("inner()", file, inner=function)
    with pytest.raises(kind) as caught:
        function()
    trace = caught.value.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != files[0]:
        trace = trace.tb_next
    return caught.value.with_traceback(trace)


def _function(body: str, file: str, **names: Any) -> Any:
    exec(compile(f"def function(): {body}", file, "exec"), names)
    return names["function"]


def test_ctrl_c_shows_where_the_program_was() -> None:
    error = raised(KeyboardInterrupt, [PROGRAM, flight.__file__, call.__file__])
    assert files_of(error_text.interrupted(error, is_one_of_many=False)) == [PROGRAM]
    line = error_text.interrupted(error, is_one_of_many=True)
    assert traceback.format_exception(line) == [f"KeyboardInterrupt: in {PROGRAM}, line 1\n"]
    assert str(error_text.interrupted(KeyboardInterrupt(), is_one_of_many=True)) == ""


def files_of(error: BaseException) -> list[str]:
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize(
    ("files", "seen"),
    [
        ([PROGRAM, PROGRAM, call.__file__, TORCH, flight.__file__], 2),
        # A closure that the program has given to this package.
        ([PROGRAM, call.__file__, PROGRAM, call.__file__, flight.__file__], 3),
        ([PROGRAM, TORCH, call.__file__, flight.__file__], 2),
    ],
)
def test_what_this_package_does_is_not_shown(files, seen) -> None:
    for kind in (errors.MismatchError, errors.PeerLostError):
        assert files_of(error_text.shown(raised(kind, files))) == files[:seen]


def test_a_defect_of_this_package_keeps_its_frames() -> None:
    error = raised(errors.InternalError, [PROGRAM, call.__file__])
    assert files_of(error_text.shown(error)) == [PROGRAM, call.__file__]


def test_what_no_program_has_called_keeps_its_frames() -> None:
    error = raised(errors.MismatchError, [call.__file__, flight.__file__])
    assert files_of(error_text.shown(error)) == [call.__file__, flight.__file__]


@pytest.mark.parametrize(
    ("error", "is_of_the_job"),
    [
        (errors.PeerLostError("worker 1"), True),
        (RuntimeError("in a callback: PeerLostError: worker 1"), True),
        (RuntimeError("MismatchError: shapes"), True),
        (RuntimeError("no PeerLostError came"), False),
        (ValueError("PeerLostError: worker 1"), False),
    ],
)
def test_who_has_raised_it(error, is_of_the_job) -> None:
    assert error_text.is_of_the_job(error) is is_of_the_job
