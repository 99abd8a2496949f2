"""Mutants: each operator changes what it names, and no annotation, decorator or message is changed."""

import pytest

from benchmarks.mutations.operators import mutants
from benchmarks.mutations.worker import failed_test

SOURCE = b'''@dataclass(frozen=True)
class A:
    size: Literal[3]

    def f(self, \xc3\xa4: int) -> int:
        """Return 7."""
        if not 0 < \xc3\xa4:
            raise ValueError(f"{\xc3\xa4 + 1} is < 0")
        log.info("seen", \xc3\xa4 + 2)
        return g(\xc3\xa4 * 2, key=\xc3\xa4)
'''


def test_mutants_are_named_by_function_line_and_operator():
    found = {
        each.name.removeprefix("a.b:A.f:"): (each.before, each.after) for each in mutants("a/b.py", SOURCE)
    }
    assert found == {
        "7:unary": ("not 0 < ä", "(0 < ä)"),
        "7:comparison": ("0 < ä", "(0 >= ä)"),
        "7:boundary": ("0 < ä", "(0 <= ä)"),
        "7:constant": ("0", "(1)"),
        "9:statement": ("log.info('seen', ä + 2)", "pass"),
        "10:return": ("return g(ä * 2, key=ä)", "return None"),
        "10:keyword": ("g(ä * 2, key=ä)", "(g(ä * 2))"),
        "10:arithmetic": ("ä * 2", "(ä / 2)"),
        "10:constant": ("2", "(3)"),
    }


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("x = a and b", ["x = (a or b)", "x = (a)"]),
        ("x = a if b else c", ["x = (c if b else a)"]),
        ("x = f(a, b)", ["x = (f(b, a))"]),
        ("x = max(a, b)", []),
        ("x = a[1:n]", ["x = (a[:n])", "x = a[(2):n]"]),
        ("x += 'a'", ["x -= 'a'", "pass"]),
        ("x = 'a' + b", []),
        ("x = True", ["x = (False)"]),
        ("f()", ["pass"]),
    ],
)
def test_a_mutant_changes_one_place(text, changed):
    found = [text[: each.start] + each.after + text[each.stop :] for each in mutants("a.py", text.encode())]
    assert found == changed


def test_the_test_that_failed_is_read_from_the_summary_and_not_from_a_log():
    log = "ERROR    uvicorn.error:service.py:179 step failed\nTraceback\n"
    summary = "==== short test summary info ====\nFAILED tests/test_a.py::test_b[1 - 2] - Error: 3 - 4\n"
    assert failed_test(log + summary) == "tests/test_a.py::test_b[1"
    assert failed_test(log + summary.replace("[1 - 2]", "")) == "tests/test_a.py::test_b"
    assert failed_test(log) == ""
