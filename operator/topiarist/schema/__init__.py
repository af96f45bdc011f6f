"""The JSON Schemas, and the one door into specs: a document is valid by its schema or becomes a list of problems.

``schemas/*.json`` say what fields there are; editors, the Kubernetes definitions and this module read the same files.
jsonschema-rs decides, jsonschema explains (``explain``, imported only for a document that is not valid). After this
door ``core.spec`` and ``core.rules`` take over, which know what no schema can: other documents, releases, defaults.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from topiarist.core import configs
from topiarist.core.allowed import DISRUPTIVE_ONLY, DriftPolicy
from topiarist.core.guardrails import Policy, Rule, Subject
from topiarist.core.rules import config_problem, key_step
from topiarist.core.spec import ClusterSpec, Manifest, RackAwareness, Source
from topiarist.core.state import Release
from topiarist.core.values import config_text, shown
from topiarist.errors import Path, Problem
from topiarist.schema import secrets
from topiarist.schema.clusters import allowed_topics, budgets
from topiarist.schema.credentials import credentials

if TYPE_CHECKING:
    from jsonschema_rs import Draft7Validator

GROUP = "topiarist.dev"
VERSION = f"{GROUP}/v1"
KINDS = ("Topic", "Cluster", "Policy")

_FREE = frozenset({"config", "brokerConfig"})
"""Fields whose values may be fractions; everywhere else a number is a whole number."""

_WHOLE = {str, int, bool}


@cache
def schema(kind: str) -> Mapping[str, Any]:
    """The JSON Schema (draft-07) of a kind."""
    text = (files("topiarist") / "schemas" / f"{kind.lower()}.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@cache
def resource_schema(kind: str) -> Mapping[str, Any]:
    """Return the JSON Schema of a custom resource: that of the kind, with secrets from Secrets only."""
    return secrets.from_secrets_only(schema(kind))


def check(body: Mapping[str, Any], *, custom_resource: bool = False) -> list[Problem]:
    """Everything wrong with a document by itself; empty if it is valid. At most ``explain.MOST`` problems.

    ``body`` is plain: dict, list, str, int, bool, and ``Decimal`` or float for fractions. ``custom_resource`` says that
    it comes from an API server and not from a file.
    """
    if is_valid(body, custom_resource=custom_resource):
        return []
    from topiarist.schema import explain

    return explain.identity(body) or explain.problems(_schema(body["kind"], custom_resource), body)


def is_valid(body: Mapping[str, Any], *, custom_resource: bool = False) -> bool:
    """Whether ``check`` would find nothing wrong."""
    return body.get("apiVersion") == VERSION and body.get("kind") in KINDS and _valid(body, custom_resource)


def fault(kind: str, body: Any) -> str:
    """Where a document that no person writes first departs from its schema; empty if it is valid."""
    try:
        error = next(iter(_validator(kind).iter_errors(body)), None)
    except ValueError:
        return "it holds text that is no Unicode"
    if error is None:
        return ""
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{shown(str(step))}" for step in error.instance_path)
    return f"{where.removeprefix('.') or 'it'} is not what schemas/{kind}.json says"


def wrong_values(body: Mapping[str, Any], guesses: Iterator[object]) -> Iterator[Problem]:
    """Config values that no Kafka takes, in a document that is not valid anyway: complaints come all at once.

    A valid document is judged by ``core.rules``, which knows its cluster; here only what no cluster could make right.
    For an unknown key a known one is looked for as long as there is a next in ``guesses``: that takes a while.
    """
    for path, holder in _config_holders(body.get("spec")):
        config = holder.get("config")
        for key, value in config.items() if isinstance(config, Mapping) else ():
            if isinstance(value, str | int | Decimal) and (key in configs.CONFIGS or _meant(key, guesses)):
                problem = config_problem(ClusterSpec(), key, config_text(value))
                if problem:
                    yield Problem((*path, "config", key_step(key)), *problem)


def _meant(key: str, guesses: Iterator[object]) -> bool:
    """Whether a known key was probably meant; False also if nothing may be guessed any more."""
    return next(guesses, None) is not None and configs.suggest(key) is not None


def _config_holders(spec: Any) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Whatever in a spec, which need not be one, may have a ``config``."""
    if not isinstance(spec, Mapping):
        return
    yield ("spec",), spec
    if isinstance(spec.get("defaults"), Mapping):
        yield ("spec", "defaults"), spec["defaults"]
    overrides = spec.get("overrides")
    for index, override in enumerate(overrides if isinstance(overrides, list) else ()):
        if isinstance(override, Mapping):
            yield ("spec", "overrides", index), override


def manifest(body: Mapping[str, Any], source: Source) -> Manifest:
    """A document that ``check`` finds nothing wrong with, as a manifest."""
    metadata = body["metadata"]
    return Manifest(
        kind=body["kind"],
        name=metadata["name"],
        namespace=metadata.get("namespace", ""),
        labels=_labels(tuple(metadata.get("labels", {}).items())),
        spec=body["spec"],
        source=source,
    )


@lru_cache(maxsize=1024)
def _labels(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """The labels, once for all manifests of a team that have the same."""
    return dict(items)


def cluster_spec(manifest: Manifest) -> ClusterSpec:
    """What a manifest of kind ``Cluster`` says; what it leaves out is at its default."""
    spec = manifest.spec
    zookeeper, defaults = spec.get("zookeeper", {}), spec.get("defaults", {})
    given = {
        "connect": zookeeper.get("connect"),
        "max_buffer": zookeeper.get("maxBuffer"),
        "cluster_id": spec.get("clusterId"),
        "release": _release(spec.get("kafkaVersion")),
        "default_partitions": defaults.get("partitions"),
        "default_replication_factor": defaults.get("replicationFactor"),
        "protected": tuple(spec["protected"]) if "protected" in spec else None,
    }
    return ClusterSpec(
        name=manifest.name,
        labels=manifest.labels,
        rack_awareness=RackAwareness(spec.get("rackAwareness", RackAwareness.ENFORCED)),
        default_config=_texts(defaults.get("config", {})),
        broker_config=_texts(spec.get("brokerConfig", {})),
        allow_unknown_configs=tuple(spec.get("allowUnknownConfigs", ())),
        exclude_brokers=frozenset(spec.get("excludeBrokers", ())),
        budgets=budgets(spec.get("budgets", {})),
        credentials=credentials(manifest),
        source=manifest.source,
        allowed_topics=allowed_topics(spec),
        adopt=tuple(spec.get("adopt", ())),
        allow_risk=frozenset(spec.get("allowRisk", DISRUPTIVE_ONLY)),
        allow_deletion=spec.get("allowDeletion", False),
        drift_policy=DriftPolicy(spec.get("driftPolicy", DriftPolicy.REPORT)),
        **{field: value for field, value in given.items() if value is not None},
    )


def policy(manifest: Manifest) -> Policy:
    """What a manifest of kind ``Policy`` says."""
    spec = manifest.spec
    selector = spec.get("selector", {})
    return Policy(
        name=manifest.name,
        namespace=manifest.namespace,
        source=manifest.source,
        rules=tuple(_rule(manifest, index, rule) for index, rule in enumerate(spec["rules"])),
        topics=tuple(selector.get("topics", ())),
        labels=selector.get("matchLabels", {}),
        clusters=tuple(selector.get("clusters", ())),
        cluster_labels=selector.get("clusterSelector", {}).get("matchLabels", {}),
    )


def _rule(manifest: Manifest, index: int, rule: Mapping[str, Any]) -> Rule:
    field, _, key = rule.get("field", "name").partition(".")
    above = ("metadata",) if field in ("labels", "annotations") else ()
    return Rule(
        policy=manifest.name,
        name=rule["name"],
        expression=rule["expression"],
        message=" ".join(rule["message"].split()),
        subject=Subject(rule.get("subject", Subject.TOPIC)),
        deny=rule.get("action", "Deny") == "Deny",
        field=() if field == "name" else (*above, *filter(None, (field, key))),
        source=manifest.source,
        path=("spec", "rules", index),
    )


def fractions(spec: Any, path: Path = ("spec",)) -> Iterable[Path]:
    """The paths of all fractions where only whole numbers can stand.

    To JSON Schema 12.0 is a whole number. Here it is not: what reads the specs counts with ``int``.
    """
    if isinstance(spec, dict):
        for key, value in spec.items():
            if key not in _FREE:
                yield from fractions(value, (*path, key))
    elif isinstance(spec, list):
        for index, item in enumerate(spec):
            if type(item) is not int:
                yield from fractions(item, (*path, index))
    elif not isinstance(spec, str | int | None):
        yield path


def _schema(kind: str, custom_resource: bool) -> Mapping[str, Any]:
    return resource_schema(kind) if custom_resource else schema(kind)


@cache
def _validator(kind: str, custom_resource: bool = False) -> Draft7Validator:
    from jsonschema_rs import Draft7Validator

    return Draft7Validator(dict(_schema(kind, custom_resource)))


def _valid(body: Mapping[str, Any], custom_resource: bool = False) -> bool:
    try:
        accepted = _validator(body["kind"], custom_resource).is_valid(body)
    except ValueError:
        # Text that is no Unicode, which JSON from elsewhere can hold.
        return False
    return accepted and (_plainly_whole(body["spec"]) or not any(fractions(body["spec"])))


def _plainly_whole(spec: Mapping[str, Any]) -> bool:
    """Whether there is nothing in a spec that could hold a fraction, as in almost all."""
    return {type(value) for key, value in spec.items() if key not in _FREE} <= _WHOLE


def _texts(config: Mapping[str, Any]) -> dict[str, str]:
    return {key: config_text(value) for key, value in config.items()}


def _release(version: str | None) -> Release | None:
    if version is None:
        return None
    major, minor = version.split(".")
    return int(major), int(minor)
