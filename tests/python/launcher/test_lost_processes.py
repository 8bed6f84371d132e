"""What the launcher does about a process that was lost: the policy alone."""

from __future__ import annotations

import pytest

from byteps.cli.children import ProcessSpec
from byteps.cli.lost_processes import Action, Loss, LossJudge, LossPolicy, describe_status
from byteps.cli.outcome import Outcome


def loss(label: str, status: int = -9, others: int = 1, lived_s: float = 1.0, done: bool = False):
    return Loss(label, label.split()[0], status, lived_s, others, done)


def test_how_a_process_ended_in_words() -> None:
    assert describe_status("server 1", -9) == "server 1 was killed by signal 9 (SIGKILL)"
    assert describe_status("server 1", -63).startswith("server 1 was killed by signal 63")
    assert describe_status("worker 0", 3) == "worker 0 ended with exit code 3"
    assert describe_status("scheduler", 0) == "scheduler ended with exit code 0"


def test_without_a_policy_every_loss_ends_the_job_but_a_server_among_others() -> None:
    judge = LossJudge(LossPolicy())
    for lost in (loss("worker 0", others=3), loss("scheduler"), loss("server 0", others=0)):
        assert judge.judge(lost).action == Action.END
        assert judge.judge(lost).text == "ending the job"
    assert judge.judge(loss("server 0")).action == Action.GO_ON


def test_restarts_are_counted_over_all_services() -> None:
    judge = LossJudge(LossPolicy(restarts=2))
    for number, label in enumerate(("server 1", "scheduler"), start=1):
        reaction = judge.judge(loss(label))
        assert judge.judge(loss(label)) == reaction  # asking changes nothing
        assert (reaction.action, reaction.text) == (
            Action.RESTART,
            f"restarting it ({number} of 2)",
        )
        judge.grant_restart(loss(label))
    spent = judge.judge(loss("server 1", others=1))
    assert spent.action == Action.GO_ON
    assert spent.text == "2 restarts used up; going on with 1 server"
    assert judge.judge(loss("server 1", others=0)).action == Action.END
    assert judge.judge(loss("scheduler")).action == Action.END


def test_a_server_that_no_worker_reaches_is_not_started_again() -> None:
    judge = LossJudge(LossPolicy(restarts=3))
    unreached = judge.judge(loss("server 1", status=3, others=1))
    assert (unreached.action, unreached.text) == (Action.GO_ON, "going on with 1 server")
    assert judge.judge(loss("server 1", status=3, others=0)).action == Action.END
    # The agent of a host knows of the servers of other hosts.
    judge = LossJudge(LossPolicy(restarts=3, servers_elsewhere=2))
    assert judge.judge(loss("server 1", status=3, others=0)).text == "going on with 2 servers"
    assert judge.judge(loss("server 1", others=0)).action == Action.RESTART


def test_the_last_line_counts_what_the_job_went_on_without() -> None:
    def specs(*roles: str) -> list[ProcessSpec]:
        return [ProcessSpec(f"{role} {n}", ["x"], {}, role) for n, role in enumerate(roles)]

    here = specs("worker", "worker", "server", "server", "scheduler")
    assert Outcome().losses(here) == ""
    assert Outcome(failed=["server 3"]).losses(here) == "ended with 1 of 2 servers; lost: server 3"
    both = Outcome(failed=["server 3", "worker 0"]).losses(here)
    assert both == (
        "ended with 1 of 2 workers; lost: worker 0; ended with 1 of 2 servers; lost: server 3"
    )
    assert Outcome(exit_code=1, failed=["server 3"]).losses(here) == ""
    parts = [
        ProcessSpec("the servers of host a", ["x"], {}, "scheduler", task="{}", part_servers=1),
        ProcessSpec("the servers of host b", ["x"], {}, "server", task="{}", part_servers=2),
    ]
    assert Outcome(failed=["the servers of host b"]).losses(parts) == (
        "ended with 1 of 3 servers; lost: the servers of host b"
    )


def test_the_same_process_waits_longer_each_time_but_not_for_ever() -> None:
    judge = LossJudge(LossPolicy(restarts=100))
    delays = []
    for _ in range(8):
        delays.append(judge.judge(loss("server 0")).delay_s)
        judge.grant_restart(loss("server 0"))
    assert delays == [0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 4.0, 4.0]
    assert judge.judge(loss("server 1")).delay_s == 0.0
    assert judge.judge(loss("server 0", lived_s=60.0)).delay_s == 0.0
    judge.grant_restart(loss("server 0", lived_s=60.0))
    assert judge.judge(loss("server 0")).delay_s == 0.25


@pytest.mark.parametrize(("others", "action"), [(3, "go on"), (2, "go on"), (1, "end"), (0, "end")])
def test_workers_may_die_down_to_a_number(others, action) -> None:
    reaction = LossJudge(LossPolicy(min_workers=2)).judge(loss("worker 3", others=others))
    assert reaction.action.value == action
    words = {
        3: "going on with 3 workers",
        2: "going on with 2 workers",
        1: "1 worker left, --min-np is 2; ending the job",
        0: "none left; ending the job",
    }
    assert reaction.text == words[others]
    part = LossJudge(LossPolicy(min_workers=1, is_part=True)).judge(loss("worker 3", others=others))
    assert part.action.value == ("go on" if others else "end")
    assert part.text.endswith(("workers", "worker") if others else "none left on this host")


def test_who_ended_on_purpose_is_not_started_again() -> None:
    judge = LossJudge(LossPolicy(restarts=3))
    assert judge.judge(loss("scheduler", status=1)).action == Action.END
    assert judge.judge(loss("server 0", status=2)).action == Action.END  # wrong usage
    assert judge.judge(loss("server 0", status=1)).action == Action.RESTART


def test_services_do_not_matter_when_the_workers_are_done() -> None:
    judge = LossJudge(LossPolicy(restarts=3))
    for label in ("scheduler", "server 0"):
        assert judge.judge(loss(label, others=0, done=True)).action == Action.GO_ON
