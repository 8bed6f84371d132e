"""The task file fits SkyPilot's schema, and its command trains."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import job_runs
import pytest
import torch_jobs
from processes import LIMIT_S

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

environment = job_runs.environment
TASK = yaml.safe_load((Path(__file__).resolve().parents[3] / "skypilot" / "train.yaml").read_text())
TRAIN = """
import torch
import byteps.torch as bps

bps.init()
total = bps.allreduce(torch.ones(3), op=bps.Sum)
print(f"sum {total[0]:.0f} of {bps.size()}", flush=True)
"""


def schema_of_tasks(monkeypatch) -> dict[str, Any]:
    """Return the schema in SkyPilot's package.

    SkyPilot is installed without the sixty packages that it needs to start machines. So what stands
    here in place of the modules that need them has the names that the schema asks for.
    """
    found = importlib.util.find_spec("sky")
    assert found is not None
    root = {"__version__": "0", "__commit__": "", "__root_dir__": ""}
    modules: dict[str, dict[str, Any]] = {
        "sky": {"__path__": list(found.submodule_search_locations or ()), **root},
        "sky.server": {},
        "sky.server.daemons": {"INTERNAL_REQUEST_DAEMONS": ()},
        "sky.skylet.autostop_lib": {"AutostopWaitFor": types.SimpleNamespace(supported_modes=list)},
    }
    for name, content in modules.items():
        module = types.ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    for parent, name in (("sky.server", "daemons"), ("sky.skylet", "autostop_lib")):
        part = sys.modules[f"{parent}.{name}"]
        monkeypatch.setattr(importlib.import_module(parent), name, part, raising=False)
    return importlib.import_module("sky.utils.schemas").get_task_schema()


def test_it_fits_the_schema(monkeypatch) -> None:
    schema = schema_of_tasks(monkeypatch)
    jsonschema.validate(TASK, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**TASK, "node_count": 2}, schema)


@torch_jobs.needs_torch
def test_its_command_trains(environment, tmp_path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    machine = {
        "SKYPILOT_NUM_NODES": "1",
        "SKYPILOT_NODE_RANK": "0",
        "SKYPILOT_NODE_IPS": "127.0.0.1\n127.0.0.2",
        "WORKERS": "2",
    }
    path = f"{Path(sys.executable).parent}:{environment.get('PATH', '')}"
    done = subprocess.run(
        ["bash", "-ec", TASK["run"]],
        env={**environment, **machine, "PATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("sum 2 of 2") == 2
