"""What a job's variables become under launchers of other systems."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from launcher_variables import kubeflow, mpi, slurm, torch

from byteps.common.errors import InvalidArgumentError, RefusedError
from byteps.common.job.cluster import described_job


def variables(environment: dict[str, str]) -> dict[str, str]:
    job = described_job(environment)
    assert job is not None
    return job.variables


def of_all(environments: list[dict[str, str]], name: str) -> list[str]:
    return [variables(one)[name] for one in environments]


def test_on_one_machine_the_ranks_share_memory_and_nothing_is_started() -> None:
    ranks = [torch(rank, 2, 2) for rank in range(2)]
    jobs = [described_job(one) for one in ranks]
    assert [(job.has_scheduler, job.servers) for job in jobs if job] == [(False, [])] * 2
    assert of_all(ranks, "DMLC_NUM_SERVER") == ["0", "0"]
    assert of_all(ranks, "BYTEPS_LOCAL_RANK") == ["0", "1"]
    assert len(set(of_all(ranks, "BYTEPS_JOB_ID"))) == 1
    assert "BYTEPS_JOB_SECRET" not in variables(ranks[0])


def test_every_process_computes_the_same_job_and_another_job_is_another() -> None:
    ranks = [torch(rank, 4, 2) for rank in range(4)]
    for name in ("BYTEPS_JOB_ID", "DMLC_PS_ROOT_PORT", "DMLC_PS_ROOT_URI", "DMLC_NUM_WORKER"):
        assert len(set(of_all(ranks, name))) == 1, name
    again = variables(torch(0, 4, 2, TORCHELASTIC_RESTART_COUNT="1"))
    assert again["BYTEPS_JOB_ID"] != variables(ranks[0])["BYTEPS_JOB_ID"]
    assert again["DMLC_PS_ROOT_PORT"] != variables(ranks[0])["DMLC_PS_ROOT_PORT"]
    assert 20000 <= int(again["DMLC_PS_ROOT_PORT"]) < 30000


def test_each_machine_has_a_server_and_the_first_one_the_scheduler() -> None:
    jobs = [described_job(torch(rank, 4, 2)) for rank in range(4)]
    started = [(job.has_scheduler, job.servers) for job in jobs if job]
    assert started == [(True, [0]), (False, []), (False, [1]), (False, [])]


def test_the_user_says_how_many_servers() -> None:
    ranks = [torch(rank, 4, 2, BYTEPS_SERVERS="5") for rank in range(4)]
    jobs = [described_job(one) for one in ranks]
    assert [job.servers for job in jobs if job] == [[0, 2, 4], [], [1, 3], []]
    assert of_all(ranks, "DMLC_NUM_SERVER") == ["5"] * 4
    with pytest.raises(RefusedError, match="2 machines need servers"):
        described_job(torch(0, 4, 2, BYTEPS_SERVERS="0"))
    with pytest.raises(InvalidArgumentError, match="BYTEPS_SERVERS is 'two'"):
        described_job(torch(0, 4, 2, BYTEPS_SERVERS="two"))


def test_servers_on_one_machine_meet_on_loopback() -> None:
    job = described_job(mpi(0, 2, 0, 2, BYTEPS_SERVERS="1"))
    assert job is not None
    assert (job.has_scheduler, job.servers, job.guessed_host) == (True, [0], False)
    assert job.variables["DMLC_PS_ROOT_URI"] == "127.0.0.1"
    assert job.variables["BYTEPS_FORCE_DISTRIBUTED"] == "1"


def test_what_the_user_has_set_stays() -> None:
    given = {"DMLC_PS_ROOT_URI": "10.0.0.9", "DMLC_PS_ROOT_PORT": "9000", "BYTEPS_JOB_ID": "mine"}
    assert variables(torch(0, 4, 2, **given)).items() >= given.items()
    assert "BYTEPS_JOB_SECRET" not in variables(mpi(0, 2, 0, 2, BYTEPS_JOB_SECRET="own"))
    assert described_job(torch(0, 4, 2, DMLC_NUM_WORKER="4")) is None
    assert described_job(torch(0, 4, 2, DMLC_ROLE="server")) is None


def test_open_mpi_has_a_secret_of_its_own_and_ranks_in_blocks_or_in_turn() -> None:
    blocks = [mpi(rank, 4, rank % 2, 2) for rank in range(4)]
    assert of_all(blocks, "DMLC_WORKER_ID") == ["0", "0", "1", "1"]
    assert len(set(of_all(blocks, "BYTEPS_JOB_SECRET"))) == 1
    job = described_job(blocks[0])
    assert job is not None
    assert (job.guessed_host, job.variables["DMLC_PS_ROOT_URI"]) == (True, "10.0.0.1")
    policy = {"OMPI_MCA_rmaps_base_mapping_policy": "node"}
    turns = [mpi(rank, 6, rank // 3, 2, **policy) for rank in range(6)]
    assert of_all(turns, "DMLC_WORKER_ID") == ["0", "1", "2", "0", "1", "2"]
    assert global_ranks(turns) == list("012345")
    with pytest.raises(RefusedError, match="the ranks of a machine do not follow each other"):
        described_job(mpi(1, 4, 0, 2))


def test_slurm_says_nodes_and_tasks() -> None:
    tasks = [slurm(rank, rank // 2, rank % 2, "2(x3)", 6) for rank in range(6)]
    assert of_all(tasks, "DMLC_WORKER_ID") == list("001122")
    assert of_all(tasks, "DMLC_PS_ROOT_URI") == ["login"] * 6
    one = {**tasks[0], "SLURM_STEP_NODELIST": "gpu-a[07-09,12],login"}
    assert variables(one)["DMLC_PS_ROOT_URI"] == "gpu-a07"


def global_ranks(ranks: list[dict[str, str]]) -> list[str]:
    """Return the rank of each process, as the library finds it."""
    found = []
    for one in map(variables, ranks):
        sizes = one.get("BYTEPS_LOCAL_SIZES")
        machine, local = int(one["DMLC_WORKER_ID"]), int(one["BYTEPS_LOCAL_RANK"])
        if sizes:
            first = sum(map(int, sizes.split(",")[:machine]))
        else:
            first = machine * int(one["BYTEPS_LOCAL_SIZE"])
        found.append(one.get("BYTEPS_GLOBAL_RANK", str(first + local)))
    return found


UNEQUAL = ("2,1,3", ((0, 0), (0, 1), (1, 0), (2, 0), (2, 1), (2, 2)))


def expect_unequal(ranks: list[dict[str, str]], machines: str) -> None:
    assert of_all(ranks, "DMLC_NUM_WORKER") == ["3"] * 6
    assert of_all(ranks, "DMLC_NUM_SERVER") == ["3"] * 6
    assert of_all(ranks, "BYTEPS_LOCAL_SIZES") == ["2,1,3"] * 6
    assert of_all(ranks, "DMLC_WORKER_ID") == list(machines)
    sizes = ["213"[int(machine)] for machine in machines]
    assert of_all(ranks, "BYTEPS_LOCAL_SIZE") == sizes
    assert global_ranks(ranks) == list("012345")
    assert not any("BYTEPS_GLOBAL_RANK" in variables(one) for one in ranks)
    jobs = [described_job(one) for one in ranks]
    starters = [(job.has_scheduler, job.servers) for job in jobs if job and job.servers]
    assert starters == [(True, [0]), (False, [1]), (False, [2])]


def test_slurm_says_how_many_tasks_each_node_has() -> None:
    _, places = UNEQUAL
    ranks = [slurm(rank, node, local, "2,1,3", 6) for rank, (node, local) in enumerate(places)]
    expect_unequal(ranks, "001222")
    assert variables(slurm(8, 3, 0, "3(x2),1(x4)", 10))["BYTEPS_LOCAL_SIZES"] == "3,3,1,1,1,1"
    with pytest.raises(RefusedError, match="SLURM_STEP_TASKS_PER_NODE=2,1 has 3"):
        described_job(slurm(0, 0, 0, "2,1", 4))
    with pytest.raises(RefusedError, match="cannot be"):
        described_job(slurm(0, 2, 0, "2,1", 3))


def test_torchrun_says_enough_of_two_machines() -> None:
    def ranks(first: int, second: int) -> list[dict[str, str]]:
        sizes, size = (first, second), first + second
        places = [(node, local) for node in (0, 1) for local in range(sizes[node])]
        own = [
            {"LOCAL_RANK": str(local), "GROUP_RANK": str(node), "GROUP_WORLD_SIZE": "2"}
            for node, local in places
        ]
        return [{**torch(r, size, sizes[places[r][0]]), **one} for r, one in enumerate(own)]

    for first, second in ((2, 1), (1, 2), (3, 1), (1, 3)):  # 1 of 4 may look like 4 machines
        job = ranks(first, second)
        size = first + second
        assert of_all(job, "BYTEPS_LOCAL_SIZES") == [f"{first},{second}"] * size
        assert of_all(job, "DMLC_WORKER_ID") == ["0"] * first + ["1"] * second
        assert not any("BYTEPS_GLOBAL_RANK" in variables(one) for one in job)
    assert "BYTEPS_LOCAL_SIZES" not in variables(ranks(2, 2)[0])


def test_of_machines_that_no_launcher_describes_the_user_says_the_numbers() -> None:
    told, places = UNEQUAL
    sizes = (2, 1, 3)
    own = [mpi(r, 6, local, sizes[node]) for r, (node, local) in enumerate(places)]
    expect_unequal([{**one, "BYTEPS_LOCAL_SIZES": told} for one in own], "001222")
    policy = {"OMPI_MCA_rmaps_base_mapping_policy": "node", "BYTEPS_LOCAL_SIZES": told}
    turns = [(0, 0), (1, 0), (2, 0), (0, 1), (2, 1), (2, 2)]
    dealt = [mpi(r, 6, local, sizes[node], **policy) for r, (node, local) in enumerate(turns)]
    assert of_all(dealt, "DMLC_WORKER_ID") == list("012022")
    assert global_ranks(dealt) == list("012345")
    for launcher in (mpi(0, 5, 0, 3), torch(0, 5, 3), torch(0, 6, 3, GROUP_WORLD_SIZE="3")):
        with pytest.raises(RefusedError, match=r"different numbers.*Set BYTEPS_LOCAL_SIZES.*2,1"):
            described_job(launcher)


def test_the_example_for_ray_says_how_many_workers_each_node_has(monkeypatch) -> None:
    ray = SimpleNamespace(remote=lambda **options: lambda cls: cls)
    monkeypatch.setitem(sys.modules, "ray", ray)
    example = runpy.run_path(str(Path(__file__).parents[3] / "examples" / "ray_workers.py"))
    places = [("a", "10.0.0.1", 1), ("a", "10.0.0.1", 2), ("b", "10.0.0.2", 1)]
    ranks = example["variables_of"](places)
    assert of_all(ranks, "BYTEPS_LOCAL_SIZES") == ["2,1"] * 3
    assert of_all(ranks, "DMLC_WORKER_ID") == ["0", "0", "1"]
    assert of_all(ranks, "BYTEPS_LOCAL_RANK") == ["0", "1", "0"]


def test_numbers_of_the_user_that_cannot_be_are_refused() -> None:
    def refusal(sizes: str, error: type[Exception] = RefusedError) -> str:
        with pytest.raises(error) as caught:
            described_job(mpi(0, 3, 0, 2, BYTEPS_LOCAL_SIZES=sizes))
        return str(caught.value)

    assert "BYTEPS_LOCAL_SIZES=2,2 has 4" in refusal("2,2")
    assert "machine 0 has 2 of them, and BYTEPS_LOCAL_SIZES would be 1,2" in refusal("1,2")
    assert "this machine has 2 of them, and BYTEPS_LOCAL_SIZES=3" in refusal("3")
    for bad in ("2,x", "2,0", "2;1", "2,1025"):
        assert f"BYTEPS_LOCAL_SIZES is '{bad}'" in refusal(bad, InvalidArgumentError)


def test_srun_may_deal_the_ranks_in_turn() -> None:
    turns = [slurm(rank, rank % 2, rank // 2, "2(x2)", 4) for rank in range(4)]
    assert of_all(turns, "DMLC_WORKER_ID") == list("0101")
    assert of_all(turns, "BYTEPS_LOCAL_RANK") == list("0011")
    assert global_ranks(turns) == list("0123")


def test_a_pod_of_kubeflow_is_a_machine_with_one_process() -> None:
    pods = [kubeflow(node, 3) for node in range(3)]
    assert of_all(pods, "DMLC_WORKER_ID") == list("012")
    assert of_all(pods, "BYTEPS_LOCAL_SIZE") == ["1"] * 3
    assert of_all(pods, "DMLC_PS_ROOT_URI") == ["train-node-0-0.train"] * 3
    jobs = [described_job(pod) for pod in pods]
    started = [(job.has_scheduler, job.servers, job.names_come_late) for job in jobs if job]
    assert started == [(True, [0], True), (False, [1], True), (False, [2], True)]
    assert described_job(kubeflow(0, 1)) is None
    with pytest.raises(RefusedError, match=r"PET_NPROC_PER_NODE is 4.*'torchrun PROGRAM'"):
        described_job(kubeflow(0, 2, PET_NPROC_PER_NODE="4"))
    # torchrun in a pod: what it says of its processes counts.
    job = described_job({**kubeflow(0, 2, PET_NPROC_PER_NODE="4"), **torch(5, 8, 4)})
    assert job is not None
    assert job.variables["BYTEPS_LOCAL_RANK"] == "1"


def test_what_is_missing_is_named() -> None:
    with pytest.raises(RefusedError, match="LOCAL_RANK is not set"):
        described_job({"RANK": "0", "WORLD_SIZE": "2"})
    with pytest.raises(RefusedError, match="LOCAL_WORLD_SIZE is 'x', which is no number"):
        described_job(torch(0, 2, 2, LOCAL_WORLD_SIZE="x"))
    with pytest.raises(RefusedError, match="Set MASTER_ADDR"):
        described_job(mpi(0, 4, 0, 2, OMPI_MCA_orte_hnp_uri=""))
    with pytest.raises(RefusedError, match=r"rank 7 of 4.* cannot be.*DMLC_NUM_WORKER=1"):
        described_job({**torch(0, 4, 2), "RANK": "7"})


def test_who_has_started_one_process_alone_has_started_no_job() -> None:
    assert described_job(torch(0, 1, 1)) is None
    assert described_job({}) is None
    assert described_job({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}) is None  # a batch script


def test_torchrun_below_srun_and_mpirun_below_srun_come_first() -> None:
    step = slurm(0, 0, 0, "1(x2)", 2)
    assert variables({**step, **torch(1, 4, 2)})["BYTEPS_LOCAL_SIZE"] == "2"
    assert variables({**step, **mpi(1, 4, 1, 2)})["BYTEPS_LOCAL_SIZE"] == "2"
    half = {"RANK": "0", "WORLD_SIZE": "2"}  # as many scripts set them under srun
    assert variables({**step, **half})["DMLC_NUM_WORKER"] == "2"
