"""The evaluator of policy expressions: CEL, by the C++ library of the CEL project.

``filters.policies`` calls it through the port ``RuleEvaluator``; it is imported only if a run has policies. Every
variable is declared with its type, so that a misspelled name does not compile. An expression that cannot be evaluated
(a missing key, text that is not a number) is an error of the rule and never passes. An expression may be hostile: its
length, depth, loops and time are limited.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from msgspec import Struct

from topiarist.errors import missing_packages_error
from topiarist.model.plan import MoveReplicas
from topiarist.model.policy import (
    CHANGE_VARIABLES,
    SHORT_MOVE,
    TOPIC_VARIABLES,
    CelBindings,
    CelType,
    CelVariable,
    Rule,
    RuleError,
    RuleSubject,
)
from topiarist.schema.check import did_you_mean
from topiarist.text import format_count, printable, quote

try:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_optional
except ImportError as missing:  # not every system has a wheel; without the library, policies must not be skipped
    raise missing_packages_error("policy", "the evaluation of Policy documents") from missing

MAX_LOOPS = 4
"""Calls of all, exists, exists_one, map, filter and optMap in one expression: nested calls multiply their cost."""

MAX_PLUS_SIGNS = 16
"""Plus signs in one expression: inside a loop, each can double a text."""

MAX_MEAN_EVALUATION_S, EVALUATION_GRACE_S = 0.001, 2.0
"""The time limit of a rule, in seconds: a mean per evaluation, plus a fixed allowance."""

_MAX_MESSAGE_LENGTH = 200
"""Characters of a message from the library that are shown."""

_LOOP = re.compile(r"\b(?:all|exists|exists_one|existsOne|map|filter|transform\w+|optMap|optFlatMap)\b")
_ERROR = re.compile(r"ERROR: <input>:(?P<line>-?\d+):(?P<column>-?\d+): (?P<words>.*)")
_STATUS = re.compile(r"^[A-Z_]+: |(?: \(in container ''\))?(?: \[[A-Z_]+\])?$")
_EXPECTED = re.compile(r" expecting \{.*")
_MISSING = re.compile(r"Key not found in map : (?P<key>.*)")
_TEXT = r"""(?:"[^"\\]*"|'[^'\\]*')"""
_NAMES = "|".join(re.escape(name) for name, variable in CHANGE_VARIABLES.items() if variable.values)
_COMPARISON = re.compile(
    rf"(?:(?P<before>{_TEXT})\s*(?:[!=]=|in)\s*)?\b(?P<name>{_NAMES})\b"
    rf"(?:\s*(?:[!=]=\s*|in\s*\[\s*)(?P<after>{_TEXT}(?:\s*,\s*{_TEXT})*))?"
)
"""A variable with a closed set of values, and the texts with which an expression compares it."""
_UNKNOWN = re.compile(r"undeclared reference to '(?P<name>[^']+)'")

_TYPES = {
    CelType.STRING: cel.Type.STRING,
    CelType.INT: cel.Type.INT,
    CelType.BOOL: cel.Type.BOOL,
    CelType.LIST: cel.Type.List(cel.Type.STRING),
    CelType.MAP: cel.Type.Map(cel.Type.STRING, cel.Type.STRING),
}


class _CompiledRule(Struct):
    rule: Rule
    expression: Any
    runs: int = 0
    seconds: float = 0.0


class CelRuleEvaluator:
    """A set of compiled rules.

    ``rule_errors`` has the rules that do not compile or took too long, with the reason; they are not evaluated. Several
    threads may share one evaluator.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rule_errors: dict[Rule, RuleError] = {}
        self._compiled_rules: dict[Rule, _CompiledRule] = {}
        self._environments = {
            subject: cel.NewEnv(
                variables={name: _TYPES[variable.type] for name, variable in variables.items()},
                extensions=[ext_optional.ExtOptional()],
            )
            for subject, variables in _VARIABLES.items()
        }
        for rule in rules:
            program = self._compile(rule)
            if isinstance(program, RuleError):
                self.rule_errors[rule] = program
            else:
                self._compiled_rules[rule] = program

    def _compile(self, rule: Rule) -> _CompiledRule | RuleError:
        if error := _complexity_error(rule.expression):
            return error
        try:
            expression = self._environments[rule.subject].compile(rule.expression)
            if (long := _COMPARISON.sub(_expand_short_move, rule.expression)) != rule.expression:
                # After the expression itself, so that an error has the position in the user's text.
                expression = self._environments[rule.subject].compile(long)
        except RuntimeError as error:
            return _make_compile_error(str(error), _VARIABLES[rule.subject])
        if expression.return_type() != cel.Type.BOOL:
            kind = expression.return_type().name().lower()
            return RuleError(f"evaluates to {kind}, wanted true or false", "compare the value with another one")
        for comparison in _COMPARISON.finditer(rule.expression):
            values = CHANGE_VARIABLES[comparison["name"]].values
            for text in _compared_texts(comparison):
                if text not in values:
                    message = f"compares {comparison['name']} with {quote(text)}, wanted {', '.join(values)}"
                    return RuleError(message, did_you_mean(text, values))
        return _CompiledRule(rule, expression)

    def evaluate(self, rules: Iterable[Rule], facts: CelBindings) -> Iterator[tuple[Rule, RuleError | None]]:
        """Yield the rules that do not pass (None), or that failed to evaluate (the error).

        Rules in ``rule_errors`` are skipped. All ``rules`` have one subject, and ``facts`` binds every variable of that
        subject.
        """
        programs = [self._compiled_rules[rule] for rule in rules if rule in self._compiled_rules]
        if not programs:
            return
        activation = self._environments[programs[0].rule.subject].Activation(facts)
        for program in programs:
            rule = program.rule
            start = time.perf_counter()
            fault = _evaluate_expression(program.expression, activation)
            program.seconds += time.perf_counter() - start
            program.runs += 1
            if program.seconds > EVALUATION_GRACE_S + program.runs * MAX_MEAN_EVALUATION_S:
                count = format_count(program.runs, "evaluation")
                message = f"took {program.seconds:.1f} s for {count}, so it is not evaluated any more"
                fault = RuleError(message, "simplify the expression")
                # Before the removal: another thread that then skips the rule must find its error.
                self.rule_errors[rule] = fault
                self._compiled_rules.pop(rule, None)
            if fault is not _PASSED:
                yield rule, fault


_VARIABLES: Mapping[RuleSubject, Mapping[str, CelVariable]] = {
    RuleSubject.TOPIC: TOPIC_VARIABLES,
    RuleSubject.CHANGE: CHANGE_VARIABLES,
}
_PASSED = RuleError("")


def _compared_texts(comparison: re.Match[str]) -> Iterator[str]:
    for side in filter(None, comparison.group("before", "after")):
        yield from (text[1:-1] for text in re.findall(_TEXT, side))


def _expand_short_move(comparison: re.Match[str]) -> str:
    if comparison["name"] != "change.kind":
        return comparison[0]
    return re.sub(rf"""(["']){SHORT_MOVE}\1""", rf"\1{MoveReplicas.__name__}\1", comparison[0])


def _evaluate_expression(expression: Any, activation: Any) -> RuleError | None:
    """Return ``_PASSED``, None if the rule does not pass, or the error of the evaluation."""
    try:
        result = expression.eval(activation)
    except RuntimeError as error:
        return _make_evaluation_error(str(error))
    value = result.value()
    if value is True:
        return _PASSED
    return None if value is False else _make_evaluation_error(str(value))


def _make_evaluation_error(message: str) -> RuleError:
    message = _clean_message(message)
    if missing := _MISSING.fullmatch(message):
        hint = 'if the key may be missing, use "KEY" in MAP, or MAP[?"KEY"].orValue("")'
        return RuleError(f"found no key {missing['key']}", hint)
    return RuleError(message[:1].lower() + message[1:])


def _clean_message(message: str) -> str:
    # Escaped and shortened, because the message of the library repeats text of the expression.
    return printable(_STATUS.sub("", message), _MAX_MESSAGE_LENGTH)


def _complexity_error(expression: str) -> RuleError | None:
    """Return the error of an expression that might take too much time or memory; None if there is none."""
    loops, sums = len(_LOOP.findall(expression)), expression.count("+")
    if loops > MAX_LOOPS:
        return RuleError(
            f"has {loops} loops (all, exists, map, filter ...), wanted at most {MAX_LOOPS}", _HINT_SPLIT_RULE
        )
    if sums > MAX_PLUS_SIGNS:
        return RuleError(f"has {sums} plus signs, wanted at most {MAX_PLUS_SIGNS}", _HINT_SPLIT_RULE)
    return None


_HINT_SPLIT_RULE = "split it into several rules"


def _make_compile_error(text: str, declarations: Mapping[str, CelVariable]) -> RuleError:
    """Return the first compiler error, with its position in the expression and a suggestion."""
    match = _ERROR.search(text)
    if not match:
        return RuleError(f"does not compile: {_clean_message(text.partition(chr(10))[0])}")
    words = _clean_message(_EXPECTED.sub("", match["words"]))
    words = words[:1].lower() + words[1:]
    place = f"line {match['line']}, column {match['column']} of the expression"
    unknown = _UNKNOWN.search(words)
    if unknown is None:
        return RuleError(f"does not compile: {words}, at {place}")
    close = get_close_matches(unknown["name"], declarations, n=1)
    hint = f"did you mean {close[0]}?" if close else ""
    if unknown["name"] in CHANGE_VARIABLES.keys() - declarations.keys():
        hint = "only rules about changes have this variable: add subject: Change"
    return RuleError(f"does not compile: unknown name {quote(unknown['name'])}, at {place}", hint)
