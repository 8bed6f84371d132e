"""check_wheel finds what makes a wheel unfit; the wheel itself is the business of `./dev wheel`."""

import check_wheel

METADATA = (
    "Metadata-Version: 2.2\nName: byteps-cpp\nVersion: 1.2.3\n"
    "Requires-Dist: cloudpickle>=2.2\nRequires-Dist: {}\n"
)
LIBRARIES = ["byteps/libbyteps.so", "byteps_cpp.libs/libhwy-0123.so.1"]
NEEDS = {
    **{user: ["libbyteps.so", "libc.so.6"] for user in check_wheel.USERS_OF_LIBRARY},
    "byteps/libbyteps.so": ["libhwy-0123.so.1", "libstdc++.so.6", "ld-linux-x86-64.so.2"],
}


def test_names_that_say_how_a_wheel_was_built(tmp_path) -> None:
    verdicts = {}
    good = ("cp310-abi3-manylinux_2_28_x86_64", "cp310-abi3-manylinux_2_17_aarch64")
    for tag in (*good, "cp311-cp311-linux_x86_64", "cp310-abi3-manylinux_2_29_x86_64"):
        wheel = tmp_path / f"byteps_cpp-1.2.3-{tag}.whl"
        wheel.write_bytes(b"")
        verdicts[tag] = list(check_wheel.check_file(wheel))
    assert [len(found) for found in verdicts.values()] == [0, 0, 1, 1]


def test_a_large_wheel_is_found(tmp_path) -> None:
    wheel = tmp_path / "byteps_cpp-1.2.3-cp310-abi3-manylinux_2_28_x86_64.whl"
    with wheel.open("wb") as file:
        file.truncate(check_wheel.SIZE_MAX + 1)
    (problem,) = check_wheel.check_file(wheel)
    assert "was it stripped" in problem


def test_a_framework_may_only_be_an_extra() -> None:
    extra = METADATA.format('torch>=2.1; extra == "torch"')
    assert list(check_wheel.check_metadata(extra, "1.2.3")) == []
    (problem,) = check_wheel.check_metadata(METADATA.format("torch>=2.1"), "1.2.3")
    assert "requires torch>=2.1" in problem


def test_another_version_is_found() -> None:
    (problem,) = check_wheel.check_metadata(METADATA.format("cloudpickle"), "1.2.4")
    assert "its version is 1.2.3, and that of CMakeLists.txt is 1.2.4" in problem


def test_one_library_for_all_and_nothing_from_elsewhere() -> None:
    assert list(check_wheel.check_libraries(LIBRARIES, NEEDS)) == []
    second = [*LIBRARIES, "byteps_cpp.libs/libbyteps-4567.so"]
    assert any("once" in p for p in check_wheel.check_libraries(second, NEEDS))
    alone = {**NEEDS, "byteps/bin/bps-server": ["libc.so.6"]}
    (problem,) = check_wheel.check_libraries(LIBRARIES, alone)
    assert problem == "byteps/bin/bps-server does not use byteps/libbyteps.so"
    foreign = {**NEEDS, "byteps/libbyteps.so": ["libspdlog.so.1.10"]}
    (problem,) = check_wheel.check_libraries(LIBRARIES, foreign)
    assert "needs libspdlog.so.1.10" in problem


def test_what_programs_are_built_with_must_be_there() -> None:
    assert list(check_wheel.check_names(list(check_wheel.MUST_HAVE))) == []
    (problem,) = check_wheel.check_names(list(check_wheel.MUST_HAVE[1:]))
    assert problem == f"it lacks {check_wheel.MUST_HAVE[0]}"


def test_needed_libraries_are_read_from_readelf() -> None:
    text = " 0x0000000000000001 (NEEDED)             Shared library: [libhwy.so.1]\n"
    assert check_wheel.needed(text) == ["libhwy.so.1"]


def test_symbols_of_others_must_stay_inside() -> None:
    ours = "byteps_open T 10 2\nBYTEPS_2 A 0\n"
    assert list(check_wheel.check_exports(ours)) == []
    (problem,) = check_wheel.check_exports(ours + "SSL_new@@BYTEPS_2 T 20 2\n")
    assert "exports SSL_new" in problem


def test_only_extensions_with_abi3_in_their_name_use_python() -> None:
    free = "memcpy@GLIBC_2.14 U         \n_ITM_x w\n"
    assert list(check_wheel.check_python_free("byteps/_tensorflow.so", free)) == []
    for name in ("PyObject_Call", "_PyArg_Parse", "Py_BuildValue"):
        (problem,) = check_wheel.check_python_free("byteps/_tensorflow.so", free + f"{name} U\n")
        assert f"_tensorflow.so uses {name}" in problem


def test_what_the_judges_say_is_passed_on(tmp_path) -> None:
    wheel = tmp_path / "byteps_cpp-1.2.3-cp310-abi3-manylinux_2_28_x86_64.whl"
    tag = 'x.whl is consistent\nwith the following platform tag: "manylinux_2_{}_x86_64".'
    verdicts = {"auditwheel": (0, tag.format(27)), "abi3audit": (1, "uses _PyX")}

    def execute(command: list[str]) -> tuple[int, str]:
        return verdicts[command[0].rpartition("/")[2]]

    (problem,) = check_wheel.check_tools(wheel, execute)
    assert "abi3audit" in problem
    assert "uses _PyX" in problem
    verdicts = {"auditwheel": (0, tag.format(29)), "abi3audit": (0, "")}
    (problem,) = check_wheel.check_tools(wheel, execute)
    assert "consistent with its tag" in problem


def test_a_cxx_library_that_is_linked_in_stays_inside() -> None:
    listing = "byteps_open T 10 2\n_ZNSt6vectorE W 1 2\n"
    assert list(check_wheel.check_own_memory("a.so", listing)) == []
    (problem,) = check_wheel.check_own_memory("a.so", listing + "_ZdlPv W 1 2\n")
    assert problem.startswith("a.so shows _ZdlPv ")
