"""What was built, and what may be imported where."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from processes import LIMIT_S, SOURCE

import byteps
from byteps import common
from byteps.common import build, devices


def test_build_queries() -> None:
    others = [name for name in build.__all__ if name not in ("cuda_built", "nccl_built")]
    assert not any(getattr(build, name)() for name in others)


def test_there_is_cuda_where_the_library_reaches_a_gpu(core) -> None:
    devices.find_devices.cache_clear()
    assert not build.cuda_built()
    assert devices.find_devices().why_none == "there is no driver"
    core.devices = ["A", "B"]
    assert not build.cuda_built()  # asked once
    devices.find_devices.cache_clear()
    assert build.cuda_built()
    assert devices.find_devices() == devices.Devices(2, ("A", "B"), "13.0")
    devices.find_devices.cache_clear()


def test_which_nccl_there_is(core, tmp_path, monkeypatch) -> None:
    """The one that the loader finds, else the one of NVIDIA's package; and the user's alone."""
    (tmp_path / "nvidia/nccl/lib").mkdir(parents=True)
    file = tmp_path / "nvidia/nccl/lib/libnccl.so.2"
    file.write_bytes(b"")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [n for n in sys.modules if n.split(".")[0] == "nvidia"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delenv("BYTEPS_NCCL_LIBRARY", raising=False)

    def found() -> devices.Nccl:
        devices.find_nccl.cache_clear()
        return devices.find_nccl()

    assert found() == devices.Nccl(0, "", "", "there is no NCCL")
    core.nccl = {str(file): 22809}
    assert found() == devices.Nccl(22809, "2.28.9", str(file))
    core.nccl[""] = 23001
    assert found() == devices.Nccl(23001, "2.28.9", "/lib/libnccl.so.2")
    assert build.nccl_built() == 23001
    del core.nccl[""]
    monkeypatch.setenv("BYTEPS_NCCL_LIBRARY", "/other/libnccl.so.2")
    assert found().why_none == "there is no NCCL"
    assert build.nccl_built() == 0
    devices.find_nccl.cache_clear()


def test_an_extension_that_was_not_built() -> None:
    common.check_extension("byteps.common", "NOTHING", common.__file__, "errors.py")
    with pytest.raises(ImportError, match=r"Extension byteps\.none has not been built\. .*WITH=1 "):
        common.check_extension("byteps.none", "WITH", common.__file__, "nothing.so")


def test_the_version() -> None:
    assert byteps.__version__.startswith(".".join(map(str, byteps.VERSION[:2])))


def test_nothing_in_common_needs_a_framework() -> None:
    """Adapters of other frameworks stand on it, where torch and numpy are not installed."""
    script = (
        "import sys, pkgutil, importlib\n"
        "for name in ('torch', 'numpy', 'tensorflow', 'jax'):\n"
        "    sys.modules[name] = None\n"
        "import byteps.common\n"
        "for module in pkgutil.walk_packages(byteps.common.__path__, 'byteps.common.'):\n"
        "    importlib.import_module(module.name)\n"
        "assert 'byteps.common.operations.call' in sys.modules\n"
        "assert not any(name.startswith('byteps.torch') for name in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True, timeout=LIMIT_S)


def test_adapters_export_every_error_and_every_question_about_the_build() -> None:
    from byteps.common import basics, build, errors

    assert {*errors.__all__, *build.__all__} < {*basics.__all__}
