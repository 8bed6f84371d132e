"""Which files are edited, what is built and run for each, and what came out."""

import contextlib
import json
import os
import random
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mutants.edits import Edit, edits_of

LIMIT_CLEAN_S = 600.0
LIMIT_LEAST_S = 30.0
LIMIT_TIMES = 6
_EDITED = (".cc", ".h", ".py")
_TESTS = re.compile(r"_test\.|_for_test|_fuzz\.|conformance")


@dataclass(frozen=True)
class Step:
    """A command that passes, and the target that has to be built for it."""

    command: tuple[str, ...]
    target: str = ""


@dataclass(frozen=True)
class Area:
    """A folder and what concerns it; the cheapest step stands first."""

    folder: str
    steps: tuple[Step, ...] = ()
    pytest: tuple[str, ...] = ()


def _test(folder: str, target: str) -> Step:
    return Step((f"build/{folder}/{target}",), target)


_CONTROL = _test("src/protocol/control", "test_control")
_SHARD = _test("src/protocol/shard", "test_shard")
_WORKER = _test("src/protocol/worker", "test_worker")
_PROTOCOL = _test("tests/protocol", "test_protocol")
_CLUSTER = _test("tests/cluster", "test_cluster")
_MACHINE = _test("src/machine", "test_machine")
_SIMULATOR = (
    Step(("build/sim/byteps_sim", "--seeds", "200"), "byteps_sim_main"),
    Step(("build/sim/byteps_sim", "--faults", "--seeds", "400"), "byteps_sim_main"),
    _test("sim", "test_sim"),
)


AREAS = (
    Area("src/plan", (_test("src/plan", "test_plan"), _CONTROL)),
    Area("src/wire", (_test("src/wire", "test_wire"), _SHARD, _WORKER, _CONTROL)),
    Area("src/operations", (_test("src/operations", "test_operations"), _WORKER, _PROTOCOL)),
    Area("src/protocol/worker", (_WORKER, _PROTOCOL, *_SIMULATOR)),
    Area("src/protocol/shard", (_SHARD, _PROTOCOL, *_SIMULATOR)),
    Area("src/protocol/control", (_CONTROL, _PROTOCOL, *_SIMULATOR)),
    Area("src/local", (_test("src/local", "test_local"), _MACHINE)),
    Area("src/machine", (_MACHINE, _CLUSTER)),
    Area("src/transport", (_test("src/transport", "test_transport"), _CLUSTER)),
    Area("src/runtime", (_test("src/runtime", "test_runtime"), _CLUSTER)),
    Area(
        "src/session",
        (
            _test("src/session", "test_session"),
            _test("tests", "test_capi"),
            _test("tests", "test_cpp_api"),
            _CLUSTER,
        ),
    ),
    Area(
        "python/byteps/common",
        pytest=(
            "common/test_common*.py",
            "common/test_cluster.py",
            "common/test_layout.py",
            "common/test_timeline.py",
            "adapters/test_torch_o*.py",
            "adapters/test_torch_sessions.py",
            "whole_jobs/test_many_jobs.py",
            "common/test_process_sets.py",
            "adapters/test_torch_dist.py",
            "whole_jobs/test_jobs.py",
        ),
    ),
    Area(
        "python/byteps/cli",
        pytest=(
            "launcher/test_hosts.py",
            "launcher/test_horovod_flags.py",
            "launcher/test_job_config.py",
            "launcher/test_lost_processes.py",
            "launcher/test_output.py",
            "launcher/test_first_cause.py",
            "launcher/test_causes.py",
            "launcher/test_local_job.py",
            "launcher/test_waiting.py",
            "launcher/test_descendants.py",
            "launcher/test_input.py",
            "launcher/test_bpslaunch.py",
            "launcher/test_launcher.py",
            "launcher/test_cores.py",
            "launcher/test_launcher_parts.py",
            "doctor/test_doctor*.py",
            "launcher/test_ends.py",
            "launcher/test_restarts.py",
            "whole_jobs/test_seeing.py",
            "launcher/test_start_mistakes.py",
            "launcher/test_host_jobs.py",
            "launcher/test_run_function.py",
        ),
    ),
)


@dataclass
class Trial:
    edit: Edit
    area: str
    outcome: str  # caught, survived, refused (does not compile), equivalent
    by: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Known:
    """An edit that changes nothing that anybody could see, and why."""

    path: str
    old: str
    new: str
    why: str


def read_known(path: Path) -> list[Known]:
    if not path.is_file():
        return []
    return [Known(**row) for row in json.loads(path.read_text(encoding="utf-8"))]


def may_be_edited(path: str, only: Sequence[str] = ()) -> bool:
    """Source that is no test, and one of `only`, if there is one."""
    chosen = not only or path.startswith(tuple(only))
    return chosen and path.endswith(_EDITED) and not _TESTS.search(path)


@dataclass
class Campaign:
    """Edits a copy of the tree, one edit at a time."""

    root: Path
    scratch: Path
    python: str
    jobs: int
    known: Sequence[Known] = ()
    # What each command took without an edit, in seconds.
    _clean_s: dict[tuple[str, ...], float] = field(default_factory=dict)

    @property
    def tree(self) -> Path:
        return self.scratch / "tree"

    def prepare(self, areas: Sequence[Area]) -> None:
        """Copies what is committed or would be, builds it, and sees that all tests pass."""
        self.tree.mkdir(parents=True, exist_ok=True)
        self._copy_tree()
        if any(area.steps for area in areas):
            self._must(
                "cmake",
                "-S",
                ".",
                "-B",
                "build",
                "-G",
                "Ninja",
                "-DCMAKE_CXX_COMPILER=g++",
                "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
                "-DBYTEPS_TESTS_IN_BATCHES=ON",
            )
        for area in areas:
            print(f"{area.folder}: building and running what must pass without an edit", flush=True)
            outcome, by = self._try(area)
            if outcome != "survived":
                raise SystemExit(f"mutants: without an edit, {by} fails; see {self.scratch}/log")

    def pick(self, area: Area, dice: random.Random, only: Sequence[str] = ()) -> Iterator[Edit]:
        """All edits of the folder's files, in an order of chance that is spread over the files."""
        edits: dict[str, list[Edit]] = {}
        for path in sorted((self.tree / area.folder).rglob("*")):
            name = str(path.relative_to(self.tree))
            if may_be_edited(name, only):
                found = list(edits_of(name, path.read_text(encoding="utf-8")))
                dice.shuffle(found)
                if found:
                    edits[name] = found
        while edits:
            names = list(edits)
            # A file with more to edit is chosen more often.
            name = dice.choices(names, [len(edits[n]) for n in names])[0]
            yield edits[name].pop()
            if not edits[name]:
                del edits[name]

    def fits(self, edit: Edit) -> bool:
        """Whether the line is still what the edit was made for."""
        place = self.tree / edit.path
        lines = place.read_text(encoding="utf-8").split("\n") if place.is_file() else []
        return len(lines) >= edit.line and lines[edit.line - 1] == edit.old

    def run(self, area: Area, edit: Edit) -> Trial:
        started = time.monotonic()
        place = self.tree / edit.path
        text = place.read_text(encoding="utf-8")
        place.write_text(edit.applied(text), encoding="utf-8")
        try:
            outcome, by = self._judge(area, edit)
        finally:
            place.write_text(text, encoding="utf-8")
        return Trial(edit, area.folder, outcome, by, round(time.monotonic() - started, 1))

    def _judge(self, area: Area, edit: Edit) -> tuple[str, str]:
        for known in self.known:
            if (known.path, known.old, known.new) == (
                edit.path,
                edit.old.strip(),
                edit.new.strip(),
            ):
                return "equivalent", known.why
        return self._try(area)

    def _copy_tree(self) -> None:
        names = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "-z"],
            cwd=self.root,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split("\0")
        for name in filter(None, names):
            source, goal = self.root / name, self.tree / name
            if not source.is_file():
                continue
            goal.parent.mkdir(parents=True, exist_ok=True)
            # What is the same keeps its time: nothing is built again for it.
            if not goal.is_file() or goal.read_bytes() != source.read_bytes():
                shutil.copy(source, goal)

    def _try(self, area: Area) -> tuple[str, str]:
        """What came of the tree as it is, and which step said so."""
        for step in area.steps:
            # Most edits are noticed by the first test: what comes later is not built for them.
            build = ("ninja", "-C", "build", "-j", str(self.jobs), step.target)
            if step.target and not self._passes(build, 1800):
                return "refused", step.target
            if not self._passes_in_time(step.command):
                return "caught", " ".join(step.command)
        folder = self.tree / "tests/python"
        for path in (p for pattern in area.pytest for p in sorted(folder.glob(pattern))):
            # One process a file: a file that hangs is ended by its limit.
            command = (self.python, "-m", "pytest", "-q", "-x", "--timeout=60", str(path))
            if not self._passes_in_time(command):
                return "caught", path.name
        return "survived", ""

    def _passes_in_time(self, command: tuple[str, ...]) -> bool:
        """A test that takes many times as long as without an edit hangs, or as good as hangs."""
        clean = self._clean_s.get(command)
        if clean is not None:
            return self._passes(command, max(LIMIT_LEAST_S, LIMIT_TIMES * clean))
        begin = time.monotonic()
        passes = self._passes(command, LIMIT_CLEAN_S)
        self._clean_s[command] = time.monotonic() - begin
        return passes

    def _passes(self, command: Sequence[str], limit_s: float) -> bool:
        with (self.scratch / "log").open("ab") as log:
            log.write(f"\n$ {' '.join(command)}\n".encode())
            log.flush()
            process = subprocess.Popen(
                command,
                cwd=self.tree,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env=self._environment(),
            )
            try:
                return process.wait(limit_s) == 0
            except subprocess.TimeoutExpired:
                return False  # it hangs: that is a failure as well
            finally:
                self._end_group(process)

    @staticmethod
    def _end_group(process: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()

    def _environment(self) -> dict[str, str]:
        changed = {"CCACHE_BASEDIR": str(self.tree), "CCACHE_NOHASHDIR": "1"}
        changed["GTEST_FAIL_FAST"] = "1"
        site = self.scratch / "site"
        if site.is_dir():
            changed["PYTHONPATH"] = str(site)
        return os.environ | changed

    def _must(self, *command: str) -> None:
        if not self._passes(command, 1800):
            raise SystemExit(f"mutants: {' '.join(command)} failed; see {self.scratch}/log")
