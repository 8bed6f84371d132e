"""A constructor that takes too many references is found, also if a struct bundles them."""

import pytest

import tidy
from tidy_constructors import constructors
from tidy_rules import REFERENCES_MAX

PATH = "src/protocol/a.h"
MANY = REFERENCES_MAX + 1


def parameters(count: int) -> str:
    return ", ".join(f"Part{i}& part{i}" for i in range(count))


def counts(text: str, **others: str) -> dict[str, int]:
    texts = {PATH: text} | {f"src/protocol/{name}.h": other for name, other in others.items()}
    return {found.name: found.references for found in constructors(texts)}


@pytest.mark.parametrize(
    ("given", "references"),
    [
        ("", 0),
        ("const Part& part", 1),
        ("Part &part, Other& other", 2),
        ("std::map<int, Part>& map, const std::string& text, std::function<void(Part&)> act", 0),
        ("Part* part, Part&& moved, std::unique_ptr<Part> owned, int number", 0),
        ("const AOptions& options, ADriver& driver, const plan::Clock& clock, Part& part", 1),
        ("Part& part = Other(1, 2), const Third& third = {}", 2),
        ("Table<int, Part>& table, Part& part", 2),
    ],
)
def test_references_of_other_objects_count(given: str, references: int) -> None:
    for end in (";", " : a_(1) {}", " {}", " = delete;", " noexcept;"):
        assert counts(f"class A {{\n public:\n  explicit A({given}){end}\n}};\n") == {
            "A": references
        }


BUNDLE = """
struct Parts {
    A& a;
    const B& b;
    const AOptions& options;
    int number = F(1);
  };
"""


def test_struct_of_references_counts_each() -> None:
    text = f"class C {{\n  {BUNDLE}  explicit C(const Parts& parts, D& d);\n}};\n"
    assert counts(text) == {"C": 3}
    assert counts(text.replace("const Parts& parts", "Parts parts")) == {"C": 3}
    assert counts(text.replace("const Parts& parts", "Parts&& parts")) == {"C": 1}


def test_struct_of_values_counts_once() -> None:
    state = "struct State {\n  A& a;\n  B b;\n  C c{a};\n  void F(D& d);\n  using E = F&;\n};\n"
    assert counts(state + "class G {\n  explicit G(State& state);\n};\n") == {"G": 1}


def test_struct_is_the_one_that_its_scope_means() -> None:
    inner = "namespace n {\nclass C {\n  struct Parts;\n  explicit C(const Parts& parts);\n};\n}\n"
    assert counts(inner, other=f"namespace n {{\n{BUNDLE}\n}}\n") == {"n::C": 2}
    other = f"namespace m {{\n{BUNDLE}\n}}\n"
    assert counts(inner, other=other) == {"n::C": 1}
    assert counts(inner.replace("Parts&", "m::Parts&"), other=other) == {"n::C": 2}


def test_calls_and_other_functions_are_no_constructors() -> None:
    text = "struct A {\n  ~A();\n  void Take(B& b);\n  A F(B& b) { return A(b); }\n};\n"
    assert counts(text) == {"A": 0}


def found(path: str, text: str) -> list[tuple[int, str]]:
    return [(finding.line, finding.text) for finding in tidy.check_constructors({path: text})]


def test_too_many_references_are_found_with_their_line() -> None:
    text = f"namespace n {{\nclass A {{\n  explicit A({parameters(MANY)});\n}};\n}}\n"
    assert found(PATH, text) == [
        (3, f"'n::A' takes {MANY} references; at most {REFERENCES_MAX} [constructor]")
    ]
    assert found("src/protocol/a_for_test.h", text) == []


def test_limit_and_exception_pass() -> None:
    text = "class A {{\n  {}explicit A({});\n}};\n"
    assert found(PATH, text.format("", parameters(REFERENCES_MAX))) == []
    reason = "// tidy-allow(constructor): the door puts all parts together\n  "
    assert found(PATH, text.format(reason, parameters(MANY))) == []
