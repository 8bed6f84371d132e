"""How `./dev spec` judges what spin's verifier prints."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "spec"))

from run import property_of, verdict_of
from runs import MUTANTS, SMALL

COMPLETE = "State-vector 92 byte, depth reached 36, errors: 0\n   84998 states, stored\n"
DEAD_END = "pan:1: assertion violated (rounds_done[i_w]==2) (at depth 10)\nerrors: 1\n"
FULL = "pan:1: assertion violated (up_length[((w*2)+1)]<6) (at depth 19)\nerrors: 1\n"
TWO_VERDICTS = (
    "pan:1: assertion violated (accepted[((m_piece*(((2*1)+1)+1))+m_key)]==m_verdict) "
    "(at depth 23)\nerrors: 1\n"
)
FORGOTTEN = "pan:1: assertion violated (0||(n_forgotten==0)) (at depth 17)\nerrors: 1\n"
TOUCHED = "pan:1: assertion violated ((receiving[0]==0)&&(receiving[1]==0)) (at depth 31)\n"
MAILBOX_FULL = "pan:1: block in d_step seq (at depth 12)\nerrors: 1\n"


def judge(text: str) -> str:
    return verdict_of(text, property_of(text))


def test_complete_search_without_error_passes() -> None:
    assert judge(COMPLETE) == "pass"


def test_failed_assertion_is_a_violation_with_its_property() -> None:
    assert judge(DEAD_END) == "violation"
    assert property_of(DEAD_END) == "(c) dead end"
    assert property_of(TWO_VERDICTS) == "(a) two verdicts"
    assert property_of(FORGOTTEN) == "a view in force is forgotten"
    assert property_of(TOUCHED) == "memory touched after the end"


def test_a_full_channel_is_no_catch() -> None:
    assert judge(FULL) == "broken"
    assert judge(MAILBOX_FULL) == "broken"


def test_a_search_that_was_cut_short_did_not_pass() -> None:
    assert judge(COMPLETE + "pan: reached -DMEMLIM bound\n") == "unfinished"
    assert judge(COMPLETE + "spec: interrupted at the time limit\n") == "unfinished"
    assert judge("error: max search depth too small\n" + COMPLETE) == "broken"
    assert judge("spin: syntax error\n") == "broken"


def test_every_mutant_is_in_the_table_once() -> None:
    numbers = [run.defines.split()[0] for run in MUTANTS]
    assert numbers == [f"MUTANT={number}" for number in range(1, len(MUTANTS) + 1)]
    assert all(run.expected == "violation" for run in MUTANTS)
    assert all(run.expected == "pass" for run in SMALL)
