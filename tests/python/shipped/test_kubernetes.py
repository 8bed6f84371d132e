"""The manifests fit the schemas of JobSet and Kubeflow's Trainer, and describe whole jobs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from byteps.cli import bpslaunch
from byteps.common.job.cluster import described_job

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed; ./dev setup installs it")

FOLDER = Path(__file__).resolve().parents[3] / "kubernetes"
# Models of Kubeflow's package, which come from the schemas of the two interfaces.
MODELS = {"JobSet": "JobsetV1alpha2JobSet", "TrainJob": "TrainerV1alpha1TrainJob"}
# What JobSet 0.8 gives each pod.
GIVEN = {"status.podIP", "metadata.annotations['jobset.sigs.k8s.io/job-index']"}
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


def test_the_jobset_ends_with_its_workers(pods) -> None:
    assert manifest("jobset.yaml")["spec"]["successPolicy"]["targetReplicatedJobs"] == ["worker"]
    assert pods["worker"]["restartPolicy"] == "Never"


def test_pods_of_the_trainjob_make_a_job() -> None:
    trainer = manifest("trainjob.yaml")["spec"]["trainer"]
    # What the runtime torch-distributed adds.
    added = {
        "PET_NNODES": str(trainer["numNodes"]),
        "PET_NPROC_PER_NODE": str(trainer["numProcPerNode"]),
        "PET_NODE_RANK": "1",
        "PET_MASTER_ADDR": "train-node-0-0.train",
        "PET_MASTER_PORT": "29500",
    }
    job = described_job({**environment_of(trainer), **added})
    assert job is not None
    assert job.variables["DMLC_NUM_WORKER"] == str(trainer["numNodes"])
    assert trainer["command"][0] == "python"


def test_the_images_are_those_of_the_docker_files() -> None:
    built = set()
    for path in (FOLDER.parent / "docker").glob("Dockerfile*"):
        built |= set(re.findall(r"docker build .* -t ([\w-]+)", path.read_text()))
    for name in MANIFESTS:
        assert set(re.findall(r"image: ([\w-]+)", (FOLDER / name).read_text())) <= built, name
