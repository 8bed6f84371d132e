"""The compose file describes a whole job, of images that there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from byteps.cli import bpslaunch

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed; ./dev setup installs it")

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def services() -> dict[str, dict]:
    return yaml.safe_load((ROOT / "docker/compose.yaml").read_text())["services"]


def test_every_process_has_the_variables_of_its_role(services) -> None:
    for name, service in services.items():
        environment = service["environment"]
        assert bpslaunch.missing_variables(environment["DMLC_ROLE"], environment) == [], name
        assert "BYTEPS_JOB_SECRET" in environment, name


def test_the_job_is_complete(services) -> None:
    roles: dict[str, int] = {}
    for service in services.values():
        count = service.get("deploy", {}).get("replicas", 1)
        role = service["environment"]["DMLC_ROLE"]
        roles[role] = roles.get(role, 0) + count
    job = services["scheduler"]["environment"]
    wanted = {"worker": int(job["DMLC_NUM_WORKER"]), "server": int(job["DMLC_NUM_SERVER"])}
    assert roles == {**wanted, "scheduler": 1}
    assert job["DMLC_PS_ROOT_URI"] in services
    numbers = [s["environment"].get("DMLC_WORKER_ID") for s in services.values()]
    assert sorted(n for n in numbers if n) == ["0", "1"]


def test_every_image_is_built_from_a_file_that_is_there(services) -> None:
    built = {service["image"] for service in services.values() if "build" in service}
    for name, service in services.items():
        assert service["image"] in built, name
        if "build" in service:
            assert (ROOT / service["build"]["dockerfile"]).is_file(), name
        for volume in service.get("volumes", ()):
            assert (ROOT / "docker" / volume.partition(":")[0]).is_dir(), name
