"""The numbers of the C interface, the errors, the default session."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from byteps.common import default, errors, programs
from byteps.common.names import CALLS_WITH_OWN_NAME, NAMES_OF_ONE_SIGNATURE, UnnamedCalls
from byteps.common.types import DataType, Operation

ROOT = Path(__file__).resolve().parents[2]
HEADER = (ROOT / "include/byteps/byteps.h").read_text()


def enumerators(enumeration: str) -> dict[str, int]:
    body = re.search(rf"typedef enum {enumeration} {{(.*?)}}", HEADER, re.S)
    assert body is not None
    pairs = re.findall(r"BYTEPS_(\w+) = (\d+)", body.group(1))
    return {name: int(value) for name, value in pairs}


def test_data_types_are_those_of_the_header() -> None:
    assert enumerators("byteps_dtype") == {item.name: item.value for item in DataType}


def test_operations_are_those_of_the_header() -> None:
    assert enumerators("byteps_op") == {item.name: item.value for item in Operation}


def test_every_code_of_the_header_has_its_own_exception() -> None:
    codes = {name: code for name, code in enumerators("byteps_code").items() if name != "OK"}
    kinds = {code: type(errors.error_from_code(code, "text")) for code in codes.values()}
    assert len(set(kinds.values())) == len(codes)
    for code, kind in kinds.items():
        assert kind.code == code
        assert issubclass(kind, RuntimeError)


def test_an_unknown_code_is_an_internal_error() -> None:
    assert isinstance(errors.error_from_code(99, "text"), errors.InternalError)


def test_getters_before_init_raise_the_documented_error() -> None:
    for getter in (default.rank, default.size, default.local_rank, default.local_size):
        with pytest.raises(ValueError, match=r"^BytePS has not been initialized; use bps\.init"):
            getter()


def test_init_twice_opens_once_and_init_after_shutdown_opens_again(core) -> None:
    default.init()
    default.init(lazy=False)
    assert core.opened == 1
    assert (default.rank(), default.size()) == (0, 2)
    default.shutdown()
    default.shutdown()
    with pytest.raises(ValueError, match="not been initialized"):
        default.rank()
    default.init()
    assert core.opened == 2


def test_automatic_names_count_by_kind_and_start_again_with_the_session(core) -> None:
    default.init()
    unnamed = default.current().unnamed
    assert [unnamed.name(kind, str) for kind in ("a", "b", "a")] == [
        "a.noname.1",
        "b.noname.1",
        "a.noname.2",
    ]
    default.shutdown()
    default.init()
    assert default.current().unnamed.name("a", str) == "a.noname.1"


def test_names_of_unnamed_calls_are_used_again_after_many_or_after_a_join() -> None:
    unnamed = UnnamedCalls()
    own = {unnamed.name("a", lambda: "sum") for _ in range(CALLS_WITH_OWN_NAME)}
    assert len(own) == CALLS_WITH_OWN_NAME
    later = [unnamed.name("a", lambda: "sum") for _ in range(NAMES_OF_ONE_SIGNATURE)]
    assert len(set(later)) == NAMES_OF_ONE_SIGNATURE
    assert not own & set(later)
    assert unnamed.name("a", lambda: "sum") == later[0]
    assert unnamed.name("a", lambda: "minimum") not in {*own, *later}
    assert unnamed.name("b", lambda: "sum") == "b.noname.1"
    others = UnnamedCalls()
    unnamed.begin_again()
    others.begin_again()
    assert unnamed.name("a", lambda: "sum") == others.name("a", lambda: "sum") == later[0]


def test_a_missing_program_says_where_it_was_expected(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("BYTEPS_PROGRAM_DIR", str(tmp_path))
    with pytest.raises(errors.UnavailableError, match=str(tmp_path)):
        programs.find_program("server")


def test_no_error_opening_reaches_the_caller_as_it_is(core, monkeypatch) -> None:
    def refuse(settings):
        raise errors.RefusedError("wrong secret")

    monkeypatch.setattr(core, "Session", refuse)
    with pytest.raises(errors.RefusedError, match="wrong secret"):
        default.init()
    assert not default.is_initialized()
