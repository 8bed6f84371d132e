"""Each rule of tidy catches a planted violation and lets the right way pass."""

import pytest

import tidy
from cxx_scopes import functions
from tidy_rules import COLUMNS_MAX, FILE_LINES_MAX, FOLDER_FILES_MAX, FUNCTION_LINES_MAX


def found(path: str, text: str) -> list[str]:
    return [finding.text for finding in tidy.check_file(path, text, [])]


@pytest.mark.parametrize(
    ("path", "line", "rule"),
    [
        ("src/runtime/a.cc", 'const char* v = std::getenv("X");', "environment"),
        ("src/runtime/a.cc", "volatile int x = 0;", "volatile"),
        ("sim/a.cc", "void F() { std::this_thread::sleep_for(t); }", "sleep"),
        ("src/session/a.cc", "void F() { auto* p = new Piece(1); }", "new"),
        ("src/session/a.cc", "void F() { new (place) Piece(1); }", "new"),
        ("src/session/a.cc", "void F() { delete p; }", "delete"),
        ("src/session/a.cc", "void F() { Post([=] { G(x); }); }", "capture"),
        ("tests/a.cc", "using namespace std;", "using-namespace"),
        ("src/wire/a.cc", "void F() { assert(false); }", "assert-false"),
        ("src/session/a.h", "static Session& GetInstance();", "singleton"),
        ("src/runtime/a.cc", "void F() { RunScheduler(); }", "coordinator"),
        ("src/plan/a.cc", "void F() { int chunk_bytes = 1; }", "piece"),
        ("src/runtime/a.cc", "#ifdef BYTEPS_CUDA", "ifdef"),
        ("src/protocol/a.h", "std::mutex mutex_;", "pure"),
        ("src/plan/a.cc", "void F() { auto t = std::chrono::steady_clock::now(); }", "pure"),
        ("src/wire/a.cc", "void F() { std::abort(); }", "exit"),
        ("src/base/a.cc", 'void F() { std::cout << "x"; }', "output"),
        ("src/base/a.cc", "// TODO: later", "todo"),
        ("python/byteps/torch/ops.py", 'x = os.environ["A"]', "environment"),
        ("python/byteps/torch/ops.py", "print(1)", "print"),
        ("python/byteps/torch/ops.py", "time.sleep(1)", "sleep"),
        ("src/base/a.cc", "int counter = 0;", "global"),
        ("src/base/a.cc", "namespace byteps {\nstd::vector<int> all;\n}", "global"),
        ("src/base/a.cc", "void F() {\n  static int calls = 0;\n}", "global"),
        ("src/base/a.h", "class A {\n  static int count_;\n};", "global"),
        ("src/base/a.cc", "thread_local Piece* current = nullptr;", "global"),
    ],
)
def test_violation_is_found(path: str, line: str, rule: str) -> None:
    assert [text for text in found(path, line + "\n") if f"[{rule}]" in text]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/config/environment.cc", 'const char* v = std::getenv("X");'),
        ("src/base/a.h", "Status(const Status&) = delete;"),
        ("src/base/a.cc", "// a new idea; delete nothing, volatile prose"),
        ("src/base/a.cc", 'void F() { Log("new Piece; delete it; getenv"); }'),
        ("tests/a.cc", "void* operator new(size_t n) { return Take(n); }"),
        ("src/base/a.cc", "namespace {\nconstexpr int kLimit = 4;\nconst std::string kName;\n}"),
        ("src/base/a.cc", "void F() {\n  static const auto kTable = Make();\n}"),
        ("src/base/a.h", "class A {\n  static A Make(int n);\n  int count_ = 0;\n};"),
        ("src/base/a.h", "struct P {\n  int rounds = 0;\n  std::byte header[4];\n};"),
        ("src/base/a.h", "inline constexpr int kDtypes = 10;\nusing Slot = uint32_t;"),
        ("src/base/a.cc", "Result<int> Parse(std::string_view text);\nStatus S() { return {}; }"),
        ("src/base/a.cc", "A& A::operator=(const A& other) = default;"),
        ("src/base/a_test.cc", "TEST(A, B) {\n  int seen = 0;\n}"),
        ("src/runtime/a.cc", "void F() { Connect(settings, Role::kCoordinator); }"),
        ("src/plan/a.cc", "bool F(Time now, Time then) { return now < then; }"),
        ("src/base/a.cc", "void F() { bytes.reset(new (std::nothrow) std::byte[size]); }"),
        ("src/base/a.h", "__extension__ typedef unsigned __int128 Uint128;"),
        ("src/base/a.cc", "// TODO(perf): one pass"),
        (
            "src/base/a.cc",
            "// tidy-allow(volatile): a register of the device\nvoid F(volatile int* r);",
        ),
        ("python/byteps/cli/run.py", 'print(os.environ["A"])'),
    ],
)
def test_right_way_passes(path: str, text: str) -> None:
    assert found(path, text + "\n") == []


def test_exception_needs_its_rule_and_a_reason() -> None:
    assert found("src/base/a.cc", "volatile int* r = F();  // tidy-allow(volatile):\n")
    assert found("src/base/a.cc", "volatile int* r = F();  // tidy-allow(new): reason\n")


def test_long_function_is_found() -> None:
    body = "  Call();\n" * FUNCTION_LINES_MAX
    text = f"namespace a {{\nStatus Foo::Bar(int x) const {{\n{body}}}\n}}\n"
    assert any("Foo::Bar" in line for line in found("src/base/a.cc", text))
    python = "def long() -> None:\n" + "    call()\n" * FUNCTION_LINES_MAX
    assert any("long" in line for line in found("tools/a.py", python))


def test_function_at_the_limit_passes() -> None:
    body = "  Call();\n" * (FUNCTION_LINES_MAX - 2)
    assert found("src/base/a.cc", f"void F() {{\n{body}}}\n") == []


def test_long_file_and_long_line_are_found() -> None:
    assert found("src/base/a.cc", "\n" * (FILE_LINES_MAX + 1))
    assert found("src/base/a.cc", "//" + "x" * COLUMNS_MAX + "\n")
    assert found("docs/a.md", "x" * 2 * COLUMNS_MAX + "\n") == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("namespace a::b {\nclass C {};\n}", "namespace a {\nnamespace b {\nstruct C {};\n}\n}"),
        ("namespace a {\nclass C final : public D<a::E> {};\n}", "namespace a {\nclass C {};\n}"),
        ("class [[nodiscard]] C {};", "class alignas(64) C {};"),
        ("template <typename T>\nclass C {};", "template <class T>\nclass C {};"),
        ("template <>\nstruct C<a::B> {};", "template <>\nstruct C< a::B > {};"),
        ("struct A {\n  int x;\n  struct B {};\n};", "struct A::B {};"),
        ('extern "C" {\nstruct C {};\n}', "struct C {};"),
        (
            "class A {\n public:\n  template <class T>\n  class C {};\n};",
            "template <>\nclass A::C {};",
        ),
        ("enum class C : uint8_t { kA };", "enum C { kB };"),
    ],
)
def test_two_files_with_a_class_of_the_same_name(one: str, other: str) -> None:
    findings = list(tidy.check_class_names({"src/a.h": one, "src/a_test.cc": other}))
    assert findings
    assert all(finding.path == "src/a_test.cc" for finding in findings)
    assert "is also defined in src/a.h:" in findings[0].text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("namespace a {\nclass C {};\n}", "namespace b {\nclass C {};\n}"),
        ("namespace a {\nclass C {};\n}", "namespace a {\nnamespace {\nclass C {};\n}\n}"),
        ("namespace {\nclass C {};\n}", "namespace {\nclass C {};\n}"),
        ("class C {};", "class C;\nvoid F(class C& c) {}\nstruct A {\n  friend class C;\n};"),
        ("void F() {\n  struct C {};\n}", "void G() {\n  struct C {};\n}"),
        ("class A {\n  struct C {};\n};", "class B {\n  struct C {};\n};"),
        ("class A {\n  struct {\n  } c;\n};", "class B {\n  struct {\n  } c;\n};"),
        ("template <>\nstruct C<int> {};", "template <>\nstruct C<long> {};"),
        ("class C {};", "// tidy-allow(class): stands in for the other one\nclass C {};"),
        ("#if A\nclass C {};\n#else\nclass C {};\n#endif", ""),
    ],
)
def test_classes_that_are_not_the_same(one: str, other: str) -> None:
    assert list(tidy.check_class_names({"src/a.h": one, "src/b.h": other})) == []


def test_folder_with_too_many_production_files_is_found() -> None:
    full = [f"src/session/a{i}.cc" for i in range(FOLDER_FILES_MAX)]
    beside = [
        "src/session/b_test.cc",
        "src/session/b_for_test.h",
        "src/session/b_for_test.cc",
        "src/session/b_fuzz.cc",
        "src/session/b_benchmark.cc",
        "src/session/conformance_b.h",
        "src/session/CMakeLists.txt",
        "src/session/room/b.cc",
        "src/base/b.cc",
    ]
    elsewhere = [f"sim/a{i}.cc" for i in range(FOLDER_FILES_MAX + 1)]
    assert list(tidy.check_folders([*full, *beside, *elsewhere])) == []
    (finding,) = tidy.check_folders([*full, "src/session/b.h"])
    assert finding.path == "src/session"
    assert f"{FOLDER_FILES_MAX + 1} production files" in finding.text


def test_white_space_is_found() -> None:
    assert found("docs/a.md", "text \n")
    assert found("docs/a.md", "no line end")


def test_functions_are_measured_alone() -> None:
    text = """
namespace a {
class B {
 public:
  int Small() const { return 1; }
  template <typename T>
  void Big(T&& t) noexcept {
    auto work = [&] {
      t();
    };
    if (t) { work(); }
  }
  int array_[2] = {1, 2};
};
enum class E { kA, kB };
B Make(const std::vector<int>& v = {}) {
  return {};
}
}  // namespace a
"""
    assert [(f.name, f.lines) for f in functions(text)] == [("Small", 1), ("Big", 7), ("Make", 3)]


def test_forbidden_text_and_blobs_are_found(make_repo) -> None:
    root = make_repo(
        {
            "tools/forbidden.txt": "# comment\nsecret-\\w+\n",
            "docs/a.md": "see secret-plan\n",
            "docs/big.txt": "x" * (tidy.BLOB_BYTES_MAX + 1) + "\n",
        }
    )
    texts = [str(f) for f in tidy.check(root)]
    assert any(t.startswith("docs/a.md:1") and "secret-plan" in t for t in texts)
    assert any(t.startswith("docs/big.txt") for t in texts)
    assert len(texts) == 2
