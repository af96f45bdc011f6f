"""Evaluates the expressions of policies: CEL, by the C++ library of the language's own project.

Every fact is declared with its type, so that a slip of the pen does not compile. What cannot be judged (a key that is
missing, text that is no number) is a fault of the rule, never a pass. An expression may be hostile: its length, depth,
loops and time are bounded. Imported only where there is a policy.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NamedTuple

from topiarist import extras
from topiarist.core.facts import CHANGE, TOPIC, Fact, Facts, Kind
from topiarist.core.guardrails import Rule, Subject
from topiarist.core.units import count
from topiarist.core.values import quoted, shown

try:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_optional
except ImportError as missing:  # not every system has a wheel: a guard rail that is not there must not be passed by
    raise extras.missing("policy", "judging Policy documents") from missing

MOST_LOOPS = 4
"""all, exists, exists_one, map, filter and optMap in one expression: nested, each multiplies what the others cost."""

MOST_SUMS = 16
"""Plus signs in one expression: in loops, each can double a text."""

MEAN_SECONDS, GRACE_SECONDS = 0.001, 2.0
"""The time that a rule may take: so much for each evaluation on average, and so much in any case."""

_LONGEST = 200
"""Characters of what the library says that are shown."""

_LOOP = re.compile(r"\b(?:all|exists|exists_one|existsOne|map|filter|transform\w+|optMap|optFlatMap)\b")
_ERROR = re.compile(r"ERROR: <input>:(?P<line>-?\d+):(?P<column>-?\d+): (?P<words>.*)")
_STATUS = re.compile(r"^[A-Z_]+: |(?: \(in container ''\))?(?: \[[A-Z_]+\])?$")
_EXPECTED = re.compile(r" expecting \{.*")
_MISSING = re.compile(r"Key not found in map : (?P<key>.*)")
_UNKNOWN = re.compile(r"undeclared reference to '(?P<name>[^']+)'")

_TYPES = {
    Kind.TEXT: cel.Type.STRING,
    Kind.NUMBER: cel.Type.INT,
    Kind.TRUTH: cel.Type.BOOL,
    Kind.LIST: cel.Type.List(cel.Type.STRING),
    Kind.MAP: cel.Type.Map(cel.Type.STRING, cel.Type.STRING),
}


class Fault(NamedTuple):
    """Why a rule is no rule, or could not be judged; ``hint`` says what to do about it."""

    message: str
    hint: str = ""


@dataclass(slots=True)
class _Program:
    rule: Rule
    expression: Any
    runs: int = 0
    seconds: float = 0.0


class Court:
    """Compiled rules; ``faults`` has those that do not compile or were given up, by which nothing is judged, and why.

    Several threads may judge by one court.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.faults: dict[Rule, Fault] = {}
        self.evaluations = 0
        self._programs: dict[Rule, _Program] = {}
        self._environments = {subject: _environment(known) for subject, known in _FACTS.items()}
        for rule in rules:
            program = self._compiled(rule)
            if isinstance(program, Fault):
                self.faults[rule] = program
            else:
                self._programs[rule] = program

    def _compiled(self, rule: Rule) -> _Program | Fault:
        if fault := _excess(rule.expression):
            return fault
        try:
            expression = self._environments[rule.subject].compile(rule.expression)
        except RuntimeError as error:
            return _syntax(str(error), _FACTS[rule.subject])
        if expression.return_type() != cel.Type.BOOL:
            kind = expression.return_type().name().lower()
            return Fault(f"gives {kind}, wanted true or false", "compare it with something")
        return _Program(rule, expression)

    def judge(self, rules: Iterable[Rule], facts: Facts) -> Iterator[tuple[Rule, Fault | None]]:
        """The rules that are not kept (None), or that could not be judged and why; those with a fault are passed over.

        All ``rules`` are of one subject, and ``facts`` has everything that it may name.
        """
        programs = [self._programs[rule] for rule in rules if rule in self._programs]
        if not programs:
            return
        activation = self._environments[programs[0].rule.subject].Activation(facts)
        for program in programs:
            rule = program.rule
            self.evaluations += 1
            start = time.perf_counter()
            fault = _verdict(program.expression, activation)
            program.seconds += time.perf_counter() - start
            program.runs += 1
            if program.seconds > GRACE_SECONDS + program.runs * MEAN_SECONDS:
                took = f"took {program.seconds:.1f} s for {count(program.runs, 'evaluation')}, and is given up"
                fault = Fault(took, "make it simpler")
                self.faults[rule] = fault  # first: whoever passes it over from now on finds it there
                self._programs.pop(rule, None)
            if fault is not _KEPT:
                yield rule, fault


_FACTS: Mapping[Subject, Mapping[str, Fact]] = {Subject.TOPIC: TOPIC, Subject.CHANGE: CHANGE}
_KEPT = Fault("")


def _environment(facts: Mapping[str, Fact]) -> Any:
    variables = {name: _TYPES[fact.kind] for name, fact in facts.items()}
    return cel.NewEnv(variables=variables, extensions=[ext_optional.ExtOptional()])


def _verdict(expression: Any, activation: Any) -> Fault | None:
    """``_KEPT``, None if the rule is not kept, or why that cannot be said."""
    try:
        result = expression.eval(activation)
    except RuntimeError as error:
        return _failed(str(error))
    value = result.value()
    if value is True:
        return _KEPT
    return None if value is False else _failed(str(value))


def _failed(words: str) -> Fault:
    words = _plain(words)
    if missing := _MISSING.fullmatch(words):
        hint = 'where a key may be missing, ask for it first: "KEY" in MAP, or MAP[?"KEY"].orValue("")'
        return Fault(f"found no key {missing['key']}", hint)
    return Fault(words[:1].lower() + words[1:])


def _plain(words: str) -> str:
    """What the library said, without its own terms, on one line: it repeats whatever is in an expression."""
    return shown(_STATUS.sub("", words), _LONGEST)


def _excess(expression: str) -> Fault | None:
    """Why an expression is not even compiled: evaluated, it might take more time or memory than there is."""
    loops, sums = len(_LOOP.findall(expression)), expression.count("+")
    if loops > MOST_LOOPS:
        return Fault(f"has {loops} loops (all, exists, map, filter ...), wanted at most {MOST_LOOPS}", _SPLIT)
    if sums > MOST_SUMS:
        return Fault(f"has {sums} plus signs, wanted at most {MOST_SUMS}", _SPLIT)
    return None


_SPLIT = "make several rules of it"


def _syntax(text: str, facts: Mapping[str, Fact]) -> Fault:
    """The first of the compiler's complaints, where in the expression it is, and what may have been meant."""
    match = _ERROR.search(text)
    if not match:
        return Fault(f"does not compile: {_plain(text.partition(chr(10))[0])}")
    words = _plain(_EXPECTED.sub("", match["words"]))
    words = words[:1].lower() + words[1:]
    place = f"line {match['line']}, column {match['column']} of the expression"
    unknown = _UNKNOWN.search(words)
    if unknown is None:
        return Fault(f"does not compile: {words}, at {place}")
    close = get_close_matches(unknown["name"], facts, n=1)
    hint = f"did you mean {close[0]}?" if close else ""
    if unknown["name"] in CHANGE.keys() - facts.keys():
        hint = "that is known of a change only: add subject: Change"
    return Fault(f"does not compile: it knows no {quoted(unknown['name'])}, at {place}", hint)
