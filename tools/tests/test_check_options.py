import check_options

HEADER = """
struct Options {
  std::string host;
  int64_t workers = 1;
  std::optional<int64_t> rank;
  bool unused = false;
  int64_t later_ms = 0;  // tidy-allow(unread-option): comes with the next transport
};
"""
ACCESSORS = """
int64_t WorkerCount(const Options& options) {
  return options.workers;
}

int64_t Rank(const Options& options) { return 0;
}

bool Unused(const Options& options) {
  return options.unused;
}
"""
CODE = "Connect(options_.host, config::WorkerCount(options)); given.rank = -1; int unused;"
OTHERS = """
    {"BYTEPS_GDB", kLauncher, "", "starts the debugger"},
    {"BYTEPS_CORES", kLauncher, "", "binds to cores"},
    {"BYTEPS_ZMQ", kNone, "", "nothing"},
"""
MAKE = {
    check_options.HEADER: HEADER,
    check_options.ACCESSORS: ACCESSORS,
    check_options.OTHERS: OTHERS,
    check_options.ROWS: "",
    "python/byteps/cli/bpslaunch.py": 'NAMES = ("BYTEPS_GDB", "BYTEPS_CORES_MAX")\n',
    "src/session/wiring.cc": CODE,
    "src/session/wiring_test.cc": "options.unused = true;",
}


def test_field_that_nothing_reads_is_found() -> None:
    (finding,) = check_options.check_fields(HEADER, ACCESSORS, CODE)
    assert finding.line == HEADER.splitlines().index("  bool unused = false;") + 1
    assert "'unused'" in finding.text


def test_field_that_the_python_package_reads_is_read() -> None:
    rows = '{.name = "unused",\n     .variable = "BYTEPS_UNUSED",'
    python = check_options.read_in_python(rows, 'os.environ.get("BYTEPS_UNUSED")')
    assert python == {"unused"}
    assert list(check_options.check_fields(HEADER, ACCESSORS, CODE, python)) == []
    assert check_options.read_in_python(rows, '"BYTEPS_UNUSED_MAX"') == set()


def test_accessor_counts_only_when_it_is_called() -> None:
    code = CODE.replace("config::WorkerCount(options)", "1")
    texts = [f.text for f in check_options.check_fields(HEADER, ACCESSORS, code)]
    assert len(texts) == 2
    assert "'workers'" in texts[0]


def test_renamed_struct_is_found() -> None:
    (finding,) = check_options.check_fields("struct Settings {\n};\n", "", "")
    assert "no struct Options" in finding.text


def test_variable_that_the_launcher_does_not_read_is_found() -> None:
    (finding,) = check_options.check_launcher(OTHERS, MAKE["python/byteps/cli/bpslaunch.py"])
    assert (finding.line, finding.text.split()[0]) == (3, "BYTEPS_CORES")


def test_tests_do_not_count_as_readers(make_repo) -> None:
    found = [f.path for f in check_options.check(make_repo(MAKE))]
    assert found == [check_options.HEADER, check_options.OTHERS]
