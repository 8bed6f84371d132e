"""The manifests fit the schemas of JobSet and Kubeflow's Trainer, and describe whole jobs."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import job_runs
import pytest
from job_runs import what_is_missing
from processes import finish, free_ports, start_role, wait_for_line
from rank_programs import rank_program

from byteps.cli import bpslaunch
from byteps.common.job.cluster import described_job

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed; ./dev setup installs it")

environment = job_runs.environment
FOLDER = Path(__file__).resolve().parents[3] / "kubernetes"
# Models of Kubeflow's package, which come from the schemas of the two interfaces.
MODELS = {
    "ClusterTrainingRuntime": "TrainerV1alpha1ClusterTrainingRuntime",
    "JobSet": "JobsetV1alpha2JobSet",
    "TrainJob": "TrainerV1alpha1TrainJob",
}
# What JobSet 0.8 gives each pod.
INDEX = "metadata.annotations['jobset.sigs.k8s.io/job-index']"
GIVEN = {"status.podIP", INDEX}
MANIFESTS = sorted(path.name for path in FOLDER.glob("*.yaml"))


def manifest(name: str) -> dict[str, Any]:
    return yaml.safe_load((FOLDER / name).read_text())


def environment_of(container: dict[str, Any]) -> dict[str, str]:
    """Return what the container's processes see; what the cluster fills in stands as a path."""
    found = {}
    for one in container["env"]:
        source = one.get("valueFrom", {})
        path = source.get("fieldRef", {}).get("fieldPath")
        found[one["name"]] = one.get("value") or path or "of a secret"
        assert path is None or path in GIVEN, path
    return found


@pytest.mark.parametrize("name", MANIFESTS)
def test_it_fits_the_schema(name) -> None:
    models = pytest.importorskip(
        "kubeflow_trainer_api.models",
        reason="kubeflow_trainer_api is not installed; ./dev setup installs it",
    )
    given = manifest(name)
    known = getattr(models, MODELS[given["kind"]]).from_dict(given)
    # The models drop fields that they do not know, such as misspelt ones.
    assert known.to_dict() == given


def pod_specs(name: str) -> list[dict[str, Any]]:
    """Return what a manifest says of pods."""
    spec = manifest(name)["spec"]
    jobs = spec.get("template", {}).get("spec", spec).get("replicatedJobs", [])
    return [job["template"]["spec"]["template"]["spec"] for job in jobs]


@pytest.mark.parametrize("name", ["jobset.yaml", "runtime.yaml"])
def test_the_restricted_level_admits_the_pods(name) -> None:
    """What the level "restricted" of the Pod Security Standards asks of a pod without volumes."""
    pods = pod_specs(name)
    assert pods
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC", "volumes"} & pod.keys()
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert all("hostPort" not in port for port in container.get("ports", []))


def test_every_container_says_what_it_needs(pods) -> None:
    needs = [pod["containers"][0]["resources"] for pod in pods.values()]
    needs.append(manifest("trainjob.yaml")["spec"]["trainer"]["resourcesPerNode"])
    for one in needs:
        assert one["requests"].keys() == {"cpu", "memory"}
        assert "memory" in one["limits"]


@pytest.fixture
def pods() -> dict[str, dict[str, Any]]:
    """The replicated jobs of the JobSet by name, each with `replicas` and its pods' `spec`."""
    jobs = manifest("jobset.yaml")["spec"]["replicatedJobs"]
    found = {}
    for job in jobs:
        spec = job["template"]["spec"]
        # A job of more pods would have them under other names.
        assert (spec.get("completions", 1), spec.get("parallelism", 1)) == (1, 1)
        found[job["name"]] = {"replicas": job["replicas"], **spec["template"]["spec"]}
    return found


def test_the_jobset_has_every_process_of_its_job(pods) -> None:
    for role, pod in pods.items():
        environment = environment_of(pod["containers"][0])
        assert bpslaunch.missing_variables(role, environment) == [], role
        assert environment["BYTEPS_JOB_SECRET"] == "of a secret"
        assert environment["DMLC_NUM_WORKER"] == str(pods["worker"]["replicas"])
        assert environment["DMLC_NUM_SERVER"] == str(pods["server"]["replicas"])
    assert pods["scheduler"]["replicas"] == 1


def test_the_others_find_the_scheduler(pods) -> None:
    whole = manifest("jobset.yaml")
    name = whole["metadata"]["name"]
    assert whole["spec"]["network"]["enableDNSHostnames"]
    for role in ("server", "worker"):
        told = environment_of(pods[role]["containers"][0])
        assert told["DMLC_PS_ROOT_URI"] == f"{name}-scheduler-0-0.{name}"


def test_prometheus_finds_the_metrics() -> None:
    job = manifest("jobset.yaml")["spec"]["replicatedJobs"][0]
    template = job["template"]["spec"]["template"]
    container = template["spec"]["containers"][0]
    told = environment_of(container)
    port = template["metadata"]["annotations"]["prometheus.io/port"]
    assert told["BYTEPS_STATUS_PORT"] == port
    assert told["BYTEPS_STATUS_HOST"] == "0.0.0.0"
    assert int(port) in [one["containerPort"] for one in container["ports"]]


def test_the_job_waits_until_a_scheduler_of_a_lost_node_is_back(pods) -> None:
    """The cluster takes 50 s to notice the loss, and then waits for the tolerated time."""
    for role in ("scheduler", "server"):
        seconds = {one["tolerationSeconds"] for one in pods[role]["tolerations"]}
        assert seconds == {10}
    for role in ("server", "worker"):
        told = environment_of(pods[role]["containers"][0])
        assert int(told["BYTEPS_COORDINATOR_PATIENCE"]) > 50 + 10 + 60  # to pull the image
    assert environment_of(pods["scheduler"]["containers"][0])["BYTEPS_STRICT"] == "1"


@pytest.fixture
def host_names(tmp_path) -> tuple[Path, list[str]]:
    """A hosts file, and the words that start a process which sees it."""
    hosts = tmp_path / "hosts"
    shutil.copy("/etc/hosts", hosts)
    script = f'mount --bind {hosts} /etc/hosts && exec "$@"'
    words = ["unshare", "--mount", "sh", "-c", script, "sh"]
    tried = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no hosts file of its own can be had here: {tried.stderr.strip()}")
    return hosts, words


@pytest.mark.skipif(bool(what_is_missing("numpy")), reason=what_is_missing("numpy"))
def test_a_scheduler_may_come_back_with_another_address(
    environment, pods, host_names, tmp_path
) -> None:
    """As after the loss of its node: the pod is made anew elsewhere, and its name moves with it."""
    hosts, words = host_names
    before = hosts.read_text()
    port, status_port = map(str, free_ports(2))
    ports = {"DMLC_PS_ROOT_PORT": port, "BYTEPS_STATUS_PORT": status_port}
    told = tmp_path / "told"

    def start(role: str, address: str = "", index: int = 0) -> subprocess.Popen[str]:
        if address:
            hosts.write_text(f"{before}{address} train-scheduler-0-0.train\n")
        fields = {"status.podIP": address, INDEX: str(index)}
        variables = environment_of(pods[role]["containers"][0]) | ports
        variables["BYTEPS_JOB_SECRET"] = "0123456789abcdef0123456789abcdef"
        variables |= {name: fields.get(value, value) for name, value in variables.items()}
        program = [sys.executable, rank_program("until_told"), str(told)]
        command = program if role == "worker" else []
        return start_role(environment, role, *command, before=words, **variables)

    first = start("scheduler", "127.0.0.1")
    servers = [start("server", index=index) for index in range(2)]
    workers = [start("worker", index=index) for index in range(2)]
    for worker in workers:
        wait_for_line(worker, "stepping")
    os.kill(first.pid, signal.SIGKILL)
    finish(first)
    second = start("scheduler", "127.0.0.2")
    # Without a scheduler nobody could take over what this server had.
    os.kill(servers[0].pid, signal.SIGKILL)
    finish(servers[0])
    told.touch()
    for rank, worker in enumerate(workers):
        code, out, _ = finish(worker)
        assert code == 0, out
        assert f"all right {rank}/2" in out
    for process in (servers[1], second):
        code, out, _ = finish(process)
        assert code == 0, out


def test_the_jobset_ends_with_its_workers(pods) -> None:
    assert manifest("jobset.yaml")["spec"]["successPolicy"]["targetReplicatedJobs"] == ["worker"]
    assert pods["worker"]["restartPolicy"] == "Never"


def test_pods_of_the_trainjob_make_a_job() -> None:
    whole = manifest("trainjob.yaml")["spec"]
    assert whole["runtimeRef"]["name"] == manifest("runtime.yaml")["metadata"]["name"]
    trainer = whole["trainer"]
    nodes, workers = trainer["numNodes"], trainer["numProcPerNode"]
    # What torchrun makes of the runtime's variables, for the last worker of the second pod.
    added = {
        "WORLD_SIZE": str(nodes * workers),
        "RANK": str(2 * workers - 1),
        "LOCAL_RANK": str(workers - 1),
        "LOCAL_WORLD_SIZE": str(workers),
        "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": str(nodes),
        "MASTER_ADDR": "train-node-0-0.train",
        "MASTER_PORT": "29500",
    }
    job = described_job({**environment_of(trainer), **added})
    assert job is not None
    assert job.variables["DMLC_NUM_WORKER"] == str(nodes)
    assert job.variables["BYTEPS_LOCAL_SIZE"] == str(workers)
    assert trainer["command"][0] == "torchrun"


def test_the_images_are_those_of_the_docker_files_and_of_this_version() -> None:
    version = re.search(r"VERSION (\d+\.\d+\.\d+)", (FOLDER.parent / "CMakeLists.txt").read_text())
    assert version is not None
    built = set()
    for path in (FOLDER.parent / "docker").glob("Dockerfile*"):
        built |= set(re.findall(r"docker build .* -t (\S+)", path.read_text()))
    assert built == {f"byteps-{role}:{version[1]}" for role in ("server", "worker")}
    for path in (*(FOLDER / name for name in MANIFESTS), FOLDER.parent / "docker/compose.yaml"):
        used = set(re.findall(r"image: (\S+)", path.read_text()))
        assert used, path
        assert used <= built, path
