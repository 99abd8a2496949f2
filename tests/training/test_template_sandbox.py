"""What a stranger's template tries: to reach out of the sandbox, and to be heard where another one is asked."""
# ruff: noqa: E501 (templates)

import os
import signal
import struct
import threading
from multiprocessing.connection import Pipe
from pathlib import Path

import jinja2
import pytest

from agentgym.prompts import template_sandbox
from agentgym.prompts.template_sandbox import (
    TemplateLimitError,
    compile_template,
    read_variables,
    render_template,
    trusted,
)

VALUES = {"listed": [1], "table": {"a": 1}}

NOTHING = (
    "{{ ''.__class__ }}", "{{ ''['__class__'] }}", "{{ '' | attr('__class__') }}", "{{ '{0.__class__}'.format(1) }}",
    "{{ ('{0.__class__}' | safe).format(1) }}", "{{ '{a.__class__}'.format_map({'a': 1}) }}",
    "{{ (['{0.__class__}'.format] | first)(1) }}", "{{ [''] | map(attribute='__class__') | join }}",
    "{{ raise_exception.__globals__ }}", "{{ strftime_now['__globals__'] }}", "{{ range.__globals__ }}",
    "{{ dict.__globals__ }}", "{{ dict.fromkeys }}", "{{ namespace.mro }}", "{{ namespace['__init__'] }}",
    "{{ cycler.current.fget.__globals__ }}", "{{ joiner.__init__ }}", "{{ namespace().__class__ }}",
    "{{ self.__init__ }}", "{{ self._TemplateReference__context }}", "{{ environment }}", "{{ lipsum }}", "{{ caller }}",
    "{% generation %}{{ caller }}{{ _generated }}{{ environment }}{{ ''.__class__ }}{% endgeneration %}",
    "{% for x in [1] %}{{ loop._iterable }}{% endfor %}", "{% macro m() %}{% endmacro %}{{ m._environment }}{{ m._func }}",
    "{% block b %}{% endblock %}{{ self.b._context }}", "{{ ''.join.__self__ }}",
)  # fmt: skip
"""Ways to what a template is not given, each of which shows nothing."""

REFUSED = (
    "{{ ''.__class__.__mro__ }}", "{% for x in [1] %}{{ loop.__init__.__globals__ }}{% endfor %}",
    "{{ listed.append(1) }}", "{{ listed.clear() }}", "{{ listed.sort() }}", "{{ table.update(a=2) }}",
    "{{ table.setdefault('b', 2) }}", "{{ table.pop('a') }}", "{% set table.a = 2 %}", "{% set range.a = 2 %}",
    "{% set ns = namespace(_a=1) %}", "{% set ns = namespace({'_a': 1}) %}", "{% set ns = namespace([['__html__', 1]]) %}",
    "{% set ns = namespace([['__html__', cycler('p').next]] | map('list')) %}{{ ns|e }}",
    "{% set ns = namespace() %}{% set ns._a = 1 %}", "{% set ns = namespace(a=1) %}{% set ns.__html__ = dict %}",
    "{% import 'os' as o %}", "{% from 'os' import path %}", "{% include '/etc/passwd' %}", "{% extends 'x' %}",
    "{% do 1 %}", "{% debug %}", "{% endgeneration %}", "{% generation %}", "{% break %}", "{{ [1] | random }}",
    "{% for x in [1] %}{% generation %}{% break %}{% endgeneration %}{% endfor %}",
    "{{ table | tojson(default=raise_exception) }}", "{{ table | tojson(cls=namespace) }}", "{{ namespace() | tojson }}",
    "{{ table | tojson(separators=1) }}", "{{ strftime_now(1) }}", "{{ strftime_now('\\ud800') }}", "{{ raise_exception() }}",
    "{{ raise_exception(namespace()) }}", "{{ 'a'.encode('zlib') }}", "{{ 'a'.encode('os') }}", "{{ absent() }}",
)  # fmt: skip


@pytest.mark.parametrize("source", NOTHING, ids=range(len(NOTHING)))
def test_what_a_template_is_not_given_is_not_there(source):
    assert render_template(source, VALUES).replace("Undefined", "") == ""


@pytest.mark.parametrize("source", REFUSED, ids=range(len(REFUSED)))
def test_what_a_template_may_not_do_is_refused(source):
    with pytest.raises(jinja2.TemplateError) as raised:
        render_template(source, VALUES)
    assert str(raised.value)
    assert render_template("{{ listed }}{{ table }}", VALUES) == "[1]{'a': 1}"  # by the same process


@pytest.mark.parametrize("source", [each for each in REFUSED if "listed" in each or "table." in each])
def test_a_template_in_process_leaves_what_it_is_handed(source):
    values = {"listed": [1], "table": {"a": 1}}
    with pytest.raises(jinja2.TemplateError):
        compile_template(source).render(values)
    assert values == VALUES


def test_what_one_template_sets_the_next_one_does_not_see():
    render_template(
        "{% set range = 'x' %}{% set dict = 'x' %}{% macro tojson(a) %}x{% endmacro %}{% set a = namespace(b=1) %}"
        "{% set namespace = 'x' %}{% set raise_exception = 'x' %}{% set loop = 'x' %}{% set left = 'x' %}",
        {},
    )
    source = "{{ range(2) | list }}{{ dict(a=1) | tojson }}{{ namespace(a=1).a }}{{ left }}{{ a }}"
    assert render_template(source, {}) == '[0, 1]{"a": 1}1'
    with pytest.raises(jinja2.TemplateError, match=r"^still there$"):
        render_template("{{ raise_exception('still there') }}", {})


@pytest.mark.parametrize(
    "said", ["limit it takes too long", "made x", "refused x", "\x1b]0;x\x07\nmade x", " ", "\ud800"]
)
def test_no_text_of_a_template_is_taken_for_another_answer(said):
    assert render_template("{{ said }}", {"said": said}) == said
    with pytest.raises(jinja2.TemplateError) as raised:
        render_template("{{ raise_exception(said) }}", {"said": said})
    assert str(raised.value) == said


def test_a_template_is_trusted_by_every_letter_of_it(monkeypatch):
    source = trusted("{{ own }}{# 3c1f #}")
    monkeypatch.setattr(template_sandbox, "_CHILD", None)
    assert render_template(source, {"own": 1}) == "1"
    for other in (source + " ", source[:-1], source.upper(), source + "\x00"):
        for ask in (lambda text: render_template(text, {}), read_variables):
            with pytest.raises(AttributeError):  # it would be asked of the child
                ask(other)


# ---- the pipe -------------------------------------------------------------------------------------------


@pytest.fixture
def child():
    made = template_sandbox._Child()
    yield made
    made.stop()


def test_a_large_question_and_a_large_answer_pass_each_other(child):
    values = {"text": "x" * (1 << 22)}
    assert child.ask("render", "{{ text }}{{ text }}", values) == values["text"] * 2
    assert child.ask("render", "{{ text | length }}", values) == str(1 << 22)


def test_a_question_too_large_for_the_process_ends_it_alone(child):
    with pytest.raises(TemplateLimitError, match=r"^the process that renders it ended with code 1$"):
        child.ask("render", "{{ text | length }}", {"text": "x" * (1 << 28)})
    assert child.ask("render", "{{ a }}", {"a": 1}) == "1"


def test_what_cannot_be_sent_leaves_the_process_as_it_is(child):
    assert child.ask("render", "{{ a }}", {"a": 1}) == "1"
    process = child._started[0]
    with pytest.raises(Exception, match="pickle"):
        child.ask("render", "{{ a }}", {"a": lambda: 1})
    assert child.ask("render", "{{ a }}", {"a": 2}) == "2"
    assert child._started[0] is process


def test_an_interrupted_question_takes_its_answer_along(child):
    assert child.ask("render", "{{ a }}", {"a": 1}) == "1"
    process, pipe = child._started

    class Interrupting:
        send_bytes, close = pipe.send_bytes, pipe.close

        def poll(self, seconds):
            raise KeyboardInterrupt

    child._started = (process, Interrupting())
    with pytest.raises(KeyboardInterrupt):
        child.ask("render", "first", {})
    assert process.returncode == -signal.SIGKILL
    assert child.ask("render", "second", {}) == "second"


def test_a_process_that_answers_nothing_is_late(child, monkeypatch):
    monkeypatch.setattr(template_sandbox, "WALL_SECONDS", 0)
    with pytest.raises(TemplateLimitError, match=r"^it takes more than 0 s$"):
        child.ask("render", "{{ a }}", {"a": 1})
    assert child._started is None


class _Ended:
    """Stands in for a process that ends as soon as it is waited for."""

    def poll(self):
        return None

    def wait(self, seconds=None):
        return -signal.SIGSEGV

    def kill(self):
        pass


@pytest.mark.parametrize(
    "sent", [b"", b"\0\0", struct.pack("!i", 99) + b"made a", struct.pack("!iQ", -1, 1 << 20) + b"made a"]
)
def test_an_answer_that_breaks_off_is_none(child, sent):
    pipe, far_end = Pipe()
    os.write(far_end.fileno(), sent)
    far_end.close()
    child._started = (_Ended(), pipe)
    with pytest.raises(TemplateLimitError, match=r"^the process that renders it ended with code -11$"):
        child.ask("render", "x", {})
    assert child._started is None


def test_threads_get_their_own_answers(child):
    wrong = []

    def ask(number):
        for turn in range(20):
            text = f"{number} {turn}"
            if child.ask("render", "{{ a }}", {"a": text}) != text:
                wrong.append(text)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_process_has_nothing_open_but_its_pipe(child, tmp_path):
    with (tmp_path / "secret").open("w") as secret:
        os.set_inheritable(secret.fileno(), True)
        child.ask("render", "", {})
        files = [os.readlink(each) for each in os.scandir(f"/proc/{child._started[0].pid}/fd")]
    assert [each.partition(":")[0] for each in sorted(files)] == ["/dev/null"] * 3 + ["socket"]


def test_the_process_ends_with_its_pipe(child):
    child.ask("render", "", {})
    process, pipe = child._started
    child._started = None
    pipe.close()
    assert process.wait() == 0


def test_a_child_that_something_else_ended_is_replaced():
    assert render_template("{{ a }}", {"a": 1}) == "1"
    process = template_sandbox._CHILD._started[0]
    process.terminate()
    process.wait()
    assert render_template("{{ a }}", {"a": 2}) == "2"


def test_keys_are_not_in_the_childs_environment(monkeypatch):
    monkeypatch.setenv("EXAMPLE_API_KEY", "secret")
    monkeypatch.setattr(template_sandbox, "_CHILD", template_sandbox._Child())
    assert render_template("{{ a }}", {"a": 1}) == "1"
    process = template_sandbox._CHILD._started[0]
    assert b"EXAMPLE_API_KEY" not in Path(f"/proc/{process.pid}/environ").read_bytes()
    template_sandbox._CHILD.stop()


def test_a_reason_has_a_largest_length():
    with pytest.raises(jinja2.TemplateError) as refused:
        render_template("{{ raise_exception('a' * 10**6) }}", {})
    assert len(str(refused.value)) == template_sandbox.MAX_REASON


def test_deep_values_are_refused_in_one_line():
    deep = 1
    for _ in range(100_000):  # how deep a pickle may be depends on the Python
        deep = {"a": deep}
    with pytest.raises(template_sandbox.TemplateLimitError, match="nests too deeply"):
        render_template("{{ m }}", {"m": deep})


def test_constants_of_templates_leave_memory_for_the_next(child):
    child.ask("render", "", {})
    process = child._started[0]
    for number in range(20_000_000, 20_000_030):  # equal ones would be one
        assert child.ask("render", f"{{% if a %}}{{{{ 'x' * {number} }}}}{{% endif %}}", {}) == ""
    assert child._started[0] is process


def test_processor_time_is_that_of_one_rendering(child, monkeypatch):
    monkeypatch.setattr(template_sandbox, "PROCESSOR_SECONDS", 0.5)
    source = "{% for x in range(90000) %}{% endfor %}"
    taken = 0.0
    while taken < 1.5:
        child.ask("render", source, {})
        taken = processor_seconds(child._started[0].pid)
    with pytest.raises(TemplateLimitError, match=r"more than 0\.5 s of processor time"):
        child.ask(
            "render", "{% for x in range(90000) %}{% for y in range(90000) %}{% endfor %}{% endfor %}", {}
        )


def processor_seconds(process):
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
