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
    others = [name for name in build.__all__ if name != "cuda_built"]
    assert not any(getattr(build, name)() for name in others)
    assert build.nccl_built() == 0


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
