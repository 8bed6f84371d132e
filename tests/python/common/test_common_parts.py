"""Parts of byteps.common by themselves: their borders, and what they say."""

from __future__ import annotations

import math
import socket
import sys
import threading
from pathlib import Path

import pytest

from byteps.common import environment, errors
from byteps.common.errors import (
    GIVES_UP,
    BytepsError,
    DeadlineError,
    InvalidArgumentError,
    MismatchError,
    OutOfStepError,
    PeerLostError,
    RefusedError,
    error_from_code,
)
from byteps.common.gradients import usage
from byteps.common.gradients.compression import NoneCompressor
from byteps.common.gradients.exchange_options import ExchangeOptions, check_passes, is_whole
from byteps.common.job import exit_reason, own_services
from byteps.common.job.cluster import (
    Job,
    described_job,
    port_of,
    servers_needed,
)
from byteps.common.job.exit_reason import ExitReason
from byteps.common.job.launchers import number_of
from byteps.common.operations import calls, reduction, replicas, splits
from byteps.common.operations.call import (
    Call,
    checked_root,
    detail_of,
    divisor,
    is_cut,
    sum_of,
)
from byteps.common.operations.reduction import Average, Max, Min, Sum
from byteps.common.session import default, names, process_sets
from byteps.common.session.submissions import SubmissionGroup
from byteps.common.types import DataType, Operation

# The environment.


def test_where_the_programs_are(monkeypatch) -> None:
    monkeypatch.setenv("BYTEPS_PROGRAM_DIR", "/elsewhere")
    assert environment.program_dir() == Path("/elsewhere")
    monkeypatch.delenv("BYTEPS_PROGRAM_DIR")
    assert environment.program_dir() == Path(errors.__file__).parents[1] / "bin"


def test_the_steps_of_a_trace(monkeypatch) -> None:
    names_of_trace = ["ON", "START_STEP", "END_STEP", "DIR"]
    for name in names_of_trace:
        monkeypatch.delenv(f"BYTEPS_TRACE_{name}", raising=False)
    assert environment.trace() is None
    monkeypatch.setenv("BYTEPS_TRACE_ON", "1")
    assert environment.trace() == (Path("./trace"), 10, 20)
    monkeypatch.setenv("BYTEPS_TRACE_START_STEP", "1")
    monkeypatch.setenv("BYTEPS_TRACE_END_STEP", "2")
    assert environment.trace() == (Path("./trace"), 1, 2)


def test_our_timeline_comes_before_horovods(monkeypatch) -> None:
    monkeypatch.setenv("HOROVOD_TIMELINE", "theirs")
    assert environment.timeline() == Path("theirs")
    monkeypatch.setenv("BYTEPS_TIMELINE", "ours")
    assert environment.timeline() == Path("ours")
    for name in ("HOROVOD_TIMELINE", "BYTEPS_TIMELINE"):
        monkeypatch.setenv(name, "")
    assert environment.timeline() is None


def test_variables_of_horovod_that_are_understood_are_not_named(monkeypatch) -> None:
    for name in list(environment.os.environ):
        if name.startswith("HOROVOD_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOROVOD_TIMELINE_MARK_CYCLES", "1")
    monkeypatch.setenv("HOROVOD_LOG_LEVEL", "debug")
    assert environment.of_horovod() == []


# Names.


def test_names_of_questions_are_known_by_their_end() -> None:
    assert names.is_usage_name(names.usage_name("optimizer"))
    assert not names.is_usage_name("optimizer")
    assert names.unnamed_number(names.unnamed("set3.", 17)) == 17


def test_a_name_that_is_no_text_is_refused() -> None:
    names.check_name("ü")
    with pytest.raises(InvalidArgumentError, match="it must be a text"):
        names.check_name(3)
    with pytest.raises(InvalidArgumentError, match="lone surrogates"):
        names.check_name("a\udcff")


def test_objects_get_the_lowest_number_that_is_free() -> None:
    given = names.GivenNames()
    assert [given.give("a"), given.give("a"), given.give("b")] == [1, 2, 1]
    assert given.keep("a", 3, 1) == "a#3"
    assert given.give("a") == 4, "somebody has the third"
    assert given.keep("a", 1, 2) == "a~2", "another has it already"
    assert given.keep("a", 1, 2) == "a~2~2"


def test_objects_that_come_and_go_cost_nothing_that_stays() -> None:
    given = names.GivenNames()
    for number in range(1, 1001):
        assert given.give("a") == number
    assert not given._given.value().kept
    given.keep("a", 1002, 1)
    assert [given.give("a"), given.give("a")] == [1001, 1003]
    assert not given._given.value().kept, "the order has come to it"


def test_a_process_set_that_is_gone_has_no_calls() -> None:
    calls = names.UnnamedCalls()
    assert calls.name("set3.") == "set3.noname.1"
    assert calls.name("") == "noname.1"
    calls.name("set3.")
    calls.take_back("set3.noname.1")
    calls.forget("set3.")
    assert calls.name("set3.") == "set3.noname.1"
    assert calls.name("") == "noname.2"


# Calls.


def test_an_urgency_has_32_bits() -> None:
    for number in (-(1 << 31), (1 << 31) - 1):
        assert Call(Operation.SUM, priority=number).priority == number
    for number in (-(1 << 31) - 1, 1 << 31):
        with pytest.raises(InvalidArgumentError, match="priority is"):
            Call(Operation.SUM, priority=number)


def test_what_must_be_equal_on_all_ranks_in_words() -> None:
    plain = Call(Operation.SUM)
    assert detail_of(plain, "cpu") == "device cpu"
    assert detail_of(plain, "") == ""
    both = Call(Operation.SUM, prescale=0.5, postscale=2.0, detail="three")
    words = "; prescale_factor 0.5; postscale_factor 2.0; three"
    assert detail_of(both, "cpu") == f"device cpu{words}"
    assert detail_of(both, "") == words
    assert detail_of(Call(Operation.SUM, detail="three"), "") == "three"


def test_unnamed_calls_of_a_process_set_count_by_themselves() -> None:
    assert (names.scope_of(0), names.scope_of(3)) == ("", "set3.")


def test_which_averages_are_cut() -> None:
    average = Call(Operation.AVERAGE, toward_zero=True)
    assert is_cut(average, DataType.INT8)
    assert not is_cut(average, DataType.UINT8)
    assert not is_cut(average, DataType.FLOAT32)
    assert not is_cut(Call(Operation.AVERAGE), DataType.INT8)
    assert not is_cut(Call(Operation.SUM, toward_zero=True), DataType.INT8)
    assert sum_of(average, DataType.INT8).detail == "average of int8"
    more = Call(Operation.AVERAGE, detail="a")
    assert sum_of(more, DataType.INT8).detail == "a; average of int8"
    assert sum_of(more, DataType.INT8).operation is Operation.SUM


def test_the_root_is_a_rank_of_the_set(core) -> None:
    default.init()
    everybody = process_sets.global_process_set
    assert [checked_root(rank, everybody) for rank in (0, 1)] == [0, 1]
    for wrong in (-1, 2):
        with pytest.raises(InvalidArgumentError, match="the ranks are 0 to 1"):
            checked_root(wrong, everybody)
    with pytest.raises(InvalidArgumentError, match="whole number"):
        checked_root("a", everybody)  # type: ignore[arg-type]
    only = default.add_process_set([1])
    assert checked_root(1, only) == 1
    with pytest.raises(InvalidArgumentError, match="it is not in the process set 1"):
        checked_root(0, only)


def test_an_average_is_divided_by_those_who_count(core, monkeypatch) -> None:
    default.init()
    everybody = process_sets.global_process_set
    assert divisor(everybody, [0, 1]) == 2
    assert divisor(everybody, [0]) == 2, "the other has joined"
    monkeypatch.setattr(default, "members", lambda: [0])
    assert divisor(everybody, [0]) == 1, "the other was lost"
    assert divisor(everybody, []) == 1


def test_what_each_family_of_calls_says() -> None:
    average, total = (calls.push_pull_call(one, "a", 3) for one in (True, False))
    assert (average.operation, total.operation) == (Operation.AVERAGE, Operation.SUM)
    assert (average.name, average.priority, average.toward_zero) == ("a", 3, False)
    reduce = calls.reduce_call(Sum, "a", 2, 3)
    assert (reduce.prescale, reduce.postscale, reduce.toward_zero) == (2.0, 3.0, True)
    scatter = calls.scatter_call(Max, "a", process_sets.global_process_set, 2, 3)
    assert scatter.operation is Operation.REDUCESCATTER
    assert scatter.combine is Operation.MAX
    assert (scatter.prescale, scatter.postscale) == (2.0, 3.0)
    assert calls.gather_call("a").operation is Operation.ALLGATHER
    part = reduce.part("x", Operation.MIN)
    assert (part.name, part.operation) == ("a.x", Operation.MIN)
    assert (part.prescale, part.postscale) == (1.0, 1.0)


# Rows.


def test_splits_have_a_number_for_each_rank() -> None:
    assert splits.checked_splits([0, 4], 2, 4) == [0, 4]
    for wrong in ([1, 1, 2], [-1, 5], [4, 1]):
        with pytest.raises(InvalidArgumentError, match="splits is"):
            splits.checked_splits(wrong, 2, 4)
    with pytest.raises(InvalidArgumentError, match="a list of 2 whole numbers"):
        splits.checked_splits([1.5, 2.5], 2, 4)  # type: ignore[list-item]
    splits.check_has_rows((0,))
    with pytest.raises(InvalidArgumentError, match="use allreduce"):
        splits.check_has_rows(())


# What users of optimizers choose.


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"op": Min}, "op=Average or op=Sum"),
        ({"op": Sum, "predivide_factor": 2.0}, "not supported with op != Average"),
        ({"predivide_factor": 0}, "a number above 0"),
        ({"predivide_factor": math.inf}, "a number above 0"),
        ({"predivide_factor": True}, "a number above 0"),
        ({"process_set": [0]}, "process_set is"),
        ({"passes_per_step": 0}, "at least 1"),
    ],
)
def test_choices_that_make_no_sense(options, words) -> None:
    if options.get("predivide_factor") is True:
        options = {"predivide_factor": "2"}
    with pytest.raises(ValueError, match=words):
        ExchangeOptions(NoneCompressor, **options).check()


def test_choices_at_their_borders() -> None:
    ExchangeOptions(NoneCompressor, predivide_factor=0.001, passes_per_step=1).check()
    ExchangeOptions(NoneCompressor, op=Sum).check()
    check_passes(2.0)
    for passes, words in ((1.5, "whole number"), (True, "whole number"), (0.0, "at least 1")):
        with pytest.raises(ValueError, match=words):
            check_passes(passes)
    assert is_whole(3)
    assert not is_whole(True)
    with pytest.raises(ValueError, match="no function decompress"):
        ExchangeOptions(type("Half", (), {"compress": len})).check()  # type: ignore[arg-type]


def test_the_old_argument_average_still_says_the_op() -> None:
    assert reduction.choose_op(None, None) is Average
    assert reduction.choose_op(None, Min) is Min
    for average, op in ((True, Average), (False, Sum)):
        with pytest.warns(DeprecationWarning, match="replaced with `op`"):
            assert reduction.choose_op(average, None) is op
    with pytest.raises(ValueError, match="supersedes average"):
        reduction.choose_op(False, Sum)
    with pytest.raises(NotImplementedError, match="Adasum"):
        reduction.operation_of(reduction.Adasum)


def test_who_has_changed_a_gradient() -> None:
    own = str(usage.changed_error(["a", "b", "c"], ["b"]))
    assert own.startswith("this rank changed the gradient of 'b' (and 2 others) between")
    other = str(usage.changed_error(["a"], []))
    assert other.startswith("another rank changed the gradient of 'a' between")


def test_a_count_of_submissions_starts_again() -> None:
    group = SubmissionGroup()
    assert [group.count() for _ in range(3)] == [1, 2, 3]
    group.set_size(2)
    assert [group.count() for _ in range(5)] == [1, 2, 1, 2, 1]


# Replicas.


def test_most_ranks_are_taken_to_be_right() -> None:
    def said(*digests: bytes) -> str:
        return replicas._difference("w", list(range(len(digests))), digests)

    assert "rank 0 and ranks 1, 2 have different values of 'w'" in said(b"x", b"y", b"y")
    assert "rank 1 and rank 0 have" in said(b"x", b"y"), "of two the first"
    assert "ranks 1, 2 and ranks 0, 3 have" in said(b"x", b"y", b"y", b"x")
    many = said(*[b"x"] * 9, b"y")
    assert "rank 9 and ranks 0, 1, 2, 3, 4, 5, 6, 7 and 1 more have" in many
    assert "ranks 0, 1, 2, 3, 4, 5, 6, 7 have" in said(*[b"x"] * 8, b"y")


# The reason of an exit.


def test_the_reason_of_an_exit_is_one_line_of_bounded_length(monkeypatch) -> None:
    monkeypatch.setattr(sys, "excepthook", lambda *_: None)
    told: list[str] = []
    reason = ExitReason(told.append)
    reason.begin()
    reason.begin()
    assert not reason.was_said
    sys.excepthook(ValueError, ValueError("a\n b  c"), None)
    sys.excepthook(ValueError, ValueError(), None)
    sys.excepthook(ValueError, ValueError("x" * 2000), None)
    assert told[:2] == [f"{GIVES_UP}ValueError: a b c", f"{GIVES_UP}ValueError"]
    assert len(told[2]) == len(GIVES_UP) + exit_reason.LENGTH_MAX
    graph = "Graph execution error:\n\nDetected at node x\n{{f}} byteps error 2: disagree\n\t [[x]]"
    sys.excepthook(ValueError, ValueError(graph), None)
    assert told.pop() == f"{GIVES_UP}ValueError: byteps error 2: disagree"
    sys.excepthook(MismatchError, MismatchError("other shapes"), None)
    assert told.pop() == f"{GIVES_UP}MismatchError: other shapes"
    sys.excepthook(PeerLostError, PeerLostError("worker 1 was lost"), None)
    wrapped = RuntimeError("PeerLostError: worker 1 was lost")
    sys.excepthook(RuntimeError, wrapped, None)
    assert reason.was_said
    reason.end()
    reason.end()
    sys.excepthook(ValueError, ValueError("later"), None)
    assert len(told) == 3


def _exit_quietly() -> None:
    with pytest.raises(SystemExit):
        sys.exit(4)


def test_an_exit_with_a_code_is_told_unless_somebody_catches_it() -> None:
    told: list[str] = []
    before = sys.exit
    reason = ExitReason(told.append)
    reason.begin()
    try:
        with pytest.raises(SystemExit) as caught:
            sys.exit(0)
        reason.tell_of_exit()
        with pytest.raises(SystemExit) as caught:
            sys.exit(3)
        reason.tell_of_exit()
        assert told == ["it ended with sys.exit(3)"]
        assert caught.value.code == 3
        del caught
        reason.tell_of_exit()
        assert len(told) == 1
        thread = threading.Thread(target=_exit_quietly)
        thread.start()
        thread.join()
        reason.tell_of_exit()
        assert len(told) == 1
    finally:
        reason.end()
    assert sys.exit is before


def test_ranks_that_disagree_hear_the_same_kind_of_error() -> None:
    def heard(why: str, process: str = " (process 7 on vm)") -> BytepsError:
        return error_from_code(PeerLostError.code, f"worker 12{process} was lost: {why}")

    assert type(heard(f"{GIVES_UP}MismatchError: x")) is MismatchError
    assert type(heard(f"{GIVES_UP}OutOfStepError: x", "")) is OutOfStepError
    assert type(heard(f"{GIVES_UP}DeadlineError: x")) is DeadlineError
    assert type(heard(f"{GIVES_UP}ValueError: x")) is PeerLostError
    assert type(heard("its process has ended")) is PeerLostError
    other = error_from_code(DeadlineError.code, f"worker 1 was lost: {GIVES_UP}MismatchError: x")
    assert type(other) is DeadlineError


def test_a_hook_that_was_set_later_stays(monkeypatch) -> None:
    monkeypatch.setattr(sys, "excepthook", lambda *_: None)
    reason = ExitReason(lambda _: None)
    reason.begin()
    later = lambda *_: None  # noqa: E731
    monkeypatch.setattr(sys, "excepthook", later)
    reason.end()
    assert sys.excepthook is later


# Jobs of other launchers.


def test_numbers_are_of_decimal_digits() -> None:
    assert (number_of(" 7 "), number_of("007"), number_of("9" * 9)) == (7, 7, 999_999_999)
    for text in ("", "-1", "1.0", "²", "9" * 10):
        assert number_of(text) is None
    assert (port_of(0), port_of(9_999), port_of(10_000)) == (20_000, 29_999, 20_000)


@pytest.mark.parametrize(
    ("workers", "minimum", "shares", "servers"),
    [(1, 0, "", 1), (2, 0, "", 0), (64, 0, "", 0), (65, 0, "", 1), (2, 1, "", 1), (2, 0, "0", 1)],
)
def test_when_a_machine_needs_a_server(workers, minimum, shares, servers) -> None:
    assert servers_needed(workers, {"BYTEPS_LOCAL_REDUCE": shares}, minimum) == servers


def test_the_borders_of_a_place() -> None:
    two = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    assert described_job({**two, "MASTER_ADDR": "a"}) is not None
    for wrong in ({"RANK": "2"}, {"LOCAL_RANK": "1"}, {"LOCAL_WORLD_SIZE": "0"},
                  {"LOCAL_WORLD_SIZE": "3"}):  # fmt: skip
        with pytest.raises(RefusedError, match="cannot be"):
            described_job({**two, "MASTER_ADDR": "a", **wrong})


def job(**more: object) -> Job:
    variables = {"DMLC_PS_ROOT_URI": "127.0.0.1"}
    given = {"variables": variables, "has_scheduler": True, **more}
    return Job("mpirun", **given)  # type: ignore[arg-type]


def test_where_the_first_machine_cannot_be_found_that_is_said() -> None:
    own_services._check_address(job())
    own_services._check_address(job(variables={}))
    nowhere = {"DMLC_PS_ROOT_URI": "no.such.host.invalid"}
    with pytest.raises(RefusedError, match=r"no\.such\.host\.invalid, cannot be found"):
        own_services._check_address(job(variables=nowhere))
    own_services._check_address(job(variables=nowhere, names_come_late=True))
    elsewhere = {"DMLC_PS_ROOT_URI": "192.0.2.1"}
    own_services._check_address(job(variables=elsewhere))
    own_services._check_address(job(variables=elsewhere, guessed_host=True, has_scheduler=False))
    with pytest.raises(RefusedError, match=r"mpirun runs on 192\.0\.2\.1, and rank 0 runs on"):
        own_services._check_address(job(variables=elsewhere, guessed_host=True))
    own_services._check_address(job(guessed_host=True))


def test_a_scheduler_whose_name_is_not_known_yet_listens_on_its_own() -> None:
    nowhere = {"DMLC_PS_ROOT_URI": "no.such.host.invalid"}
    assert own_services._own_name(job(variables=nowhere)) == "no.such.host.invalid"
    late = job(variables=nowhere, names_come_late=True)
    assert own_services._own_name(late) == socket.gethostname()
    assert own_services._own_name(job(names_come_late=True)) == "127.0.0.1"
