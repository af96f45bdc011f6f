"""CEL expressions: valid expressions, errors, and limits for hostile expressions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders import PROD_CLUSTER, plan, state
from support.policy_builders import labelled_spec, rule
from topiarist.adapters import cel
from topiarist.adapters.cel import CelRuleEvaluator
from topiarist.filters.policies import bind_change, bind_cluster, bind_topic
from topiarist.model.policy import CHANGE_VARIABLES, RuleError
from topiarist.model.spec import TopicSpec

SPEC = labelled_spec("orders", {"team": "shop"}, config={"retention.ms": 604800000})


def judged(expression: str, spec: TopicSpec = SPEC) -> RuleError | bool:
    """Return whether a topic satisfies the rule, or the error of the rule."""
    law = rule(expression)
    court = CelRuleEvaluator([law])
    if law in court.rule_errors:
        return court.rule_errors[law]
    found = list(court.evaluate([law], bind_topic(spec, bind_cluster(spec.cluster), {})))
    return (found[0][1] or False) if found else True


@pytest.mark.parametrize(
    ("expression", "kept"),
    [
        ("topic.partitions == 3", True),
        ("topic.partitions > 3", False),
        ('topic.name.startsWith("ord") && topic.name.matches("^[a-z]+$")', True),
        ('topic.labels.team == "shop"', True),
        ("has(topic.labels.nobody)", False),
        ('topic.labels[?"nobody"].orValue("x") == "x"', True),
        ('int(topic.config["retention.ms"]) <= 7 * 24 * 3600 * 1000', True),
        ('"retention.ms" in topic.config', True),
        ('topic.config.all(key, key != "cleanup.policy")', True),
        ('cluster.name == "prod" && cluster.kafkaVersion == "3.9"', True),
        ('true || topic.labels.nobody == ""', True),
        ('"ü".size() == 1', True),
        ("duration('168h') > duration('1h')", True),
        ("topic.partitions >= 3 // at least\n && topic.partitions < 5", True),
    ],
)
def test_what_a_rule_can_say(expression: str, kept: bool) -> None:
    """Rules can use names, maps with and without a key, numbers in text, patterns, comments and several lines."""
    assert judged(expression) is kept


FAULTS = {
    "topic.partitions <=": "does not compile: syntax error: mismatched input '<EOF>', at line 1, column 20",
    "topic.partitions\n <= 3 &&& true": "at line 2, column 9",
    "topic.partitons <= 3": 'does not compile: unknown name "topic.partitons", at line 1, column 6',
    "partitions <= 3": 'unknown name "partitions"',
    "topic.name.beginsWith('a')": 'unknown name "beginsWith"',
    "topic == 1": 'unknown name "topic"',
    "topic.partitions <= '3'": "found no matching overload for '_<=_' applied to '(int, string)'",
    "topic.config['a'] == 3": "found no matching overload",
    "topic.partitions": "evaluates to int, wanted true or false",
    "'yes'": "evaluates to string, wanted true or false",
    "dyn(true)": "evaluates to dyn, wanted true or false",
    "has(topic.name)": "evaluates to string, wanted true or false",
    "now() > timestamp('2024-01-01T00:00:00Z')": 'unknown name "now"',
    "topic.labels.nobody == ''": 'found no key "nobody"',
    "topic.labels['nobody'] == ''": 'found no key "nobody"',
    "int(topic.name) > 0": "cannot convert string to int",
    "9223372036854775807 + topic.partitions > 0": "integer overflow",
    "topic.partitions / 0 == 1": "divide by zero",
    "topic.name.matches('(')": "invalid regular expression: missing ): (",
    "dyn(topic.name) > dyn(3)": "no matching overloads found",
    "(" * 60 + "true" + ")" * 60: "does not compile: Expression recursion limit exceeded",
}


@pytest.mark.parametrize(("expression", "words"), FAULTS.items(), ids=[str(n) for n in range(len(FAULTS))])
def test_what_cannot_be_judged_is_a_fault(expression: str, words: str) -> None:
    """An expression that cannot be evaluated is an error with problem and position, neither a pass nor a violation."""
    found = judged(expression)
    assert isinstance(found, RuleError)
    assert words in found.message
    assert "container" not in found.message
    assert "INVALID" not in found.message


@pytest.mark.parametrize(
    "expression",
    [
        "\x1b[2J",
        "topic.name.matches('(\u202e')",
        "topic.labels['\u202e\x1b'] == ''",
        "topic.labels['a\\nb'] == ''",
        "topic.a\u202e",
        "'" + "\x07" * 1000,
    ],
)
def test_what_a_fault_repeats_is_printable(expression: str) -> None:
    """Messages escape the control characters that the library repeats from an expression."""
    found = judged(expression)
    assert isinstance(found, RuleError)
    assert found.message.isprintable()
    assert found.hint.isprintable()
    assert len(found.message) < 1000


WORDS = "topic. name config labels == && || in has( all(x, map(x, matches( size() int( dyn( null true b'a' [? orValue("
TOKENS = st.sampled_from([*"()[]{}?:,.+-*/%<>!\"'`\\ \n\x00\x1b\u202e1aü", *WORDS.split()])


@given(st.one_of(st.lists(TOKENS, min_size=1, max_size=30).map("".join), st.text(min_size=1, max_size=30)))
def test_any_text_is_a_rule_or_a_fault(expression: str) -> None:
    """No expression raises an exception: the result is satisfied, violated, or an error with a message."""
    found = judged(expression)
    assert isinstance(found, bool) or found.message.isprintable()


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("topic.partitons < 3", "did you mean topic.partitions?"),
        ("change.kind == 'TakeOwnership'", "add subject: Change"),
        ("topic.labels.nobody == ''", "if the key may be missing"),
        ("topic.partitions", "compare the value"),
    ],
)
def test_what_to_do_about_a_fault(expression: str, hint: str) -> None:
    """The hint gives the similar name, the required subject, or the syntax for an optional key."""
    found = judged(expression)
    assert isinstance(found, RuleError)
    assert hint in found.hint


@pytest.mark.parametrize(
    ("expression", "name", "text", "hint"),
    [
        ('change.kind != "DeletTopic"', "change.kind", "DeletTopic", "did you mean DeleteTopic?"),
        ("'deletetopic' == change.kind", "change.kind", "deletetopic", "did you mean DeleteTopic?"),
        ('change.kind in [ "move", "Nudge" ]', "change.kind", "Nudge", ""),
        ('change.risk=="dataLoss"', "change.risk", "dataLoss", "did you mean DataLoss?"),
        ('!("spread" in change.reasons)', "change.reasons", "spread", "did you mean Spread?"),
        ('topic.usage.written\n== "Unused"', "topic.usage.written", "Unused", "did you mean Used?"),
        ('true || topic.usage.read == ""', "topic.usage.read", "", ""),
    ],
)
def test_a_value_that_a_variable_never_has_is_a_fault(expression: str, name: str, text: str, hint: str) -> None:
    """A comparison that can never be true would make the rule silent, so the error lists the values that there are."""
    law = rule(expression, subject="Change")
    error = CelRuleEvaluator([law]).rule_errors[law]
    assert error.message.startswith(f'compares {name} with "{text}", wanted {CHANGE_VARIABLES[name].values[0]}, ')
    assert error.hint == hint


def _loops(depth: int) -> str:
    inside = "true"
    for number in range(depth):
        inside = f"[1, 2].all(x{number}, {inside})"
    return inside


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (_loops(5), "has 5 loops"),
        (" + ".join(["1"] * 18) + " > 0", "has 17 plus signs"),
        ("[1,2,3,4,5,6,7,8,9,10].all(a," * 4 + " 1 == 1" + ")" * 4, "iteration budget exceeded"),
        ("topic.name.matches('((a{1,100}){1,100}){1,100}')", "invalid regular expression"),
    ],
)
def test_what_might_never_end(expression: str, words: str) -> None:
    """Loops and plus signs are limited before evaluation; iterations and patterns have limits of their own."""
    found = judged(expression)
    assert isinstance(found, RuleError)
    assert words in found.message


def test_what_is_within_the_limits() -> None:
    """Four loops and sixteen plus signs are allowed."""
    assert judged(_loops(4)) is True
    assert judged(" + ".join(["1"] * 17) + " == 17") is True


def test_a_rule_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule above the time limit gives one error with its time, and is not evaluated again."""
    slow = rule("topic.partitions > 0")
    court = CelRuleEvaluator([slow])
    facts = bind_topic(SPEC, bind_cluster(SPEC.cluster), {})
    assert list(court.evaluate([slow], facts)) == []
    monkeypatch.setattr(cel, "EVALUATION_GRACE_S", -1.0)
    ((found, fault),) = court.evaluate([slow], facts)
    assert found is slow
    assert fault is not None
    assert fault.message == "took 0.0 s for 2 evaluations, so it is not evaluated any more"
    assert list(court.evaluate([slow], facts)) == []


def test_a_change_is_judged_with_its_topic() -> None:
    """A rule about changes can use the change and its topic."""
    law = rule("change.kind == 'CreateTopic' && change.after.partitions == topic.partitions", "Change")
    (found,) = plan(state(), SPEC).topics
    facts = {**bind_topic(SPEC, bind_cluster(PROD_CLUSTER), {}), **bind_change(found, found.changes[0], 6)}
    assert list(CelRuleEvaluator([law]).evaluate([law], facts)) == []


def test_text_that_is_no_unicode_is_a_fault() -> None:
    """A lone surrogate in a config value gives an error of the rule, neither a pass nor an exception."""
    law = rule('topic.config["a"] != ""')
    facts = {**bind_topic(SPEC, bind_cluster(SPEC.cluster), {}), "topic.config": {"a": "\ud800"}}
    ((found, fault),) = CelRuleEvaluator([law]).evaluate([law], facts)
    assert found is law
    assert isinstance(fault, RuleError)
