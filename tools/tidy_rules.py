"""The table behind tools/tidy.py: limits, and words that are banned with what to write instead."""

import re
from dataclasses import dataclass

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500
FOLDER_FILES_MAX = 40
REFERENCES_MAX = 6
COLUMNS_MAX = 100

ENGINE = ("src/", "apps/", "include/")
CXX = (*ENGINE, "sim/", "tests/", "bench/", "examples/", "python/bindings/")
TESTS = ("_test.cc", "_fuzz.cc", "conformance")
# Files of a folder that do not count, because the product is built without them.
NOT_PRODUCTION = (*TESTS, "_for_test.", "_benchmark.cc")
PRODUCTION = (*ENGINE, "python/bindings/")
PURE = ("src/protocol/", "src/plan/")


@dataclass(frozen=True)
class Rule:
    """`pattern` is searched in code without comments and strings, or with them if `in_text`."""

    name: str
    pattern: re.Pattern[str]
    advice: str
    folders: tuple[str, ...]
    suffixes: tuple[str, ...] = (".h", ".cc", ".c")
    without: tuple[str, ...] = ()
    in_text: bool = False

    def applies(self, path: str) -> bool:
        if not path.endswith(self.suffixes) or not path.startswith(self.folders):
            return False
        return not any(part in path for part in self.without)


def cxx(
    name: str,
    pattern: str,
    advice: str,
    folders: tuple[str, ...] = CXX,
    without: tuple[str, ...] = (),
) -> Rule:
    compiled = re.compile(pattern, re.MULTILINE)
    return Rule(name, compiled, advice, folders, without=without)


def python(
    name: str,
    pattern: str,
    advice: str,
    folders: tuple[str, ...],
    without: tuple[str, ...] = (),
) -> Rule:
    compiled = re.compile(pattern, re.MULTILINE)
    return Rule(name, compiled, advice, folders, (".py",), without)


RULES = (
    cxx(
        "environment",
        r"\b(secure_)?getenv\b|\b(un)?setenv\b|\bputenv\b|\benviron\b",
        "only src/config/ reads the environment; take an options struct",
        without=("src/config/", "tests/"),
    ),
    cxx("volatile", r"\bvolatile\b", "use std::atomic, or an owner thread"),
    cxx(
        "sleep",
        r"\bsleep_(for|until)\b|\bu?sleep\s*\(|\bnanosleep\b",
        "wait for an event with a deadline (MutexLock::WaitUntil, Loop::After)",
    ),
    cxx(
        "yield",
        r"\bthis_thread::yield\b|\bsched_yield\b",
        "wait for an event with a deadline",
        without=TESTS,
    ),
    cxx(
        "new",
        r"(?<!operator )\bnew\s*(?!\(std::nothrow\))[A-Za-z_:(]",
        "use a value, std::make_unique, a container; new (std::nothrow) into a unique_ptr where "
        "lack of memory is a Status",
    ),
    cxx(
        "delete",
        r"(?<!operator )\bdelete\b(?!\s*;)(?!\s*\[\s*\]\s*\()",
        "ownership is in the type: a value or std::unique_ptr",
    ),
    cxx("capture", r"\[\s*=\s*[\],]", "name what the lambda captures"),
    cxx("using-namespace", r"\busing\s+namespace\b", "name what you use"),
    cxx("assert-false", r"\bassert\s*\(\s*(false|0)\b", "return a Status, or state the invariant"),
    cxx(
        "singleton",
        r"\bstatic\b[^;{}()=]*\b[Ii]nstance\b|\b(Get|get)_?[Ii]nstance\s*\(",
        "pass the object to the constructor of who needs it",
    ),
    cxx(
        "coordinator",
        r"(?i)\w*scheduler\w*",
        "in code the process is the Coordinator; 'scheduler' is its name in the environment only",
        folders=("src/", "apps/", "sim/", "include/"),
        without=("src/config/",),
    ),
    cxx("piece", r"(?i)\b\w*chunks?(_\w*)?\b", "the word is 'piece'", ENGINE, ("src/kernels/",)),
    cxx("aggregator", r"(?i)\w*aggregator\w*", "the word is 'server' or 'shard'", folders=ENGINE),
    cxx(
        "ifdef",
        r"^\s*#\s*(ifdef|if\s+defined|ifndef)\b"
        r"(?!.*(__clang__|__GNUC__|__cplusplus|__SANITIZE|__has_feature|HWY_|NDEBUG|_INL_H))",
        "optional parts are a file and a stub file chosen by CMake",
        folders=("src/", "apps/"),
    ),
    cxx(
        "pure",
        r"\bstd::(jthread|thread|mutex|condition_variable|atomic|future|promise|async)\b"
        r"|_clock::now\b|\bMutex(Lock)?\b|\bsocket\s*\(|\basio::|\brandom_device\b|\bgettimeofday\b"
        r"|\btime\s*\(\s*(NULL|nullptr|0)\b",
        "a state machine has no thread, lock, clock or I/O: take it as an event or a value",
        folders=PURE,
    ),
    cxx(
        "exit",
        r"\b(std::)?(exit|_exit|quick_exit|abort|terminate)\s*\(",
        "return a Status; nothing outside may end the process",
        folders=("src/", "include/"),
        without=TESTS,
    ),
    cxx(
        "output",
        r"\bstd::c(out|err|log)\b|\b(f|v|vf)?printf\s*\(|\bputs\s*\(",
        "use the Log that was passed in, or return a Status",
        folders=("src/", "include/"),
        without=(*TESTS, "_benchmark.cc", "src/config/"),
    ),
    Rule(
        "todo",
        re.compile(r"\b(TODO(?!\([a-z]+\))|TODO\(now\)|FIXME|XXX|HACK)\b"),
        "write TODO(kind): reason, with kind perf, cleanup or feature",
        ("",),
        (".h", ".cc", ".py", ".sh", ".md", ".txt", ".cmake"),
        ("tools/tidy_rules.py", "tools/tests/", "STYLE.md"),
        in_text=True,
    ),
    python(
        "environment",
        r"\bos\.(environ|getenv|putenv)\b|\bfrom os import .*\benviron\b",
        "only byteps.common and byteps.cli read the environment",
        ("python/byteps/",),
        without=("python/byteps/common/", "python/byteps/cli/"),
    ),
    python(
        "print",
        r"^\s*print\(",
        "a library does not print: log, or return",
        ("python/byteps/",),
        without=("python/byteps/cli/",),
    ),
    python(
        "sleep",
        r"\btime\.sleep\(",
        "wait for an event with a deadline",
        ("python/byteps/",),
    ),
    python("except", r"^\s*except\s*:", "name what you can handle", ("python/", "tools/")),
)
