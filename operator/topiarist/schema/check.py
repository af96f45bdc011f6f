"""The JSON Schemas, and the one door into specs: a document is valid by its schema or becomes a list of problems.

``schemas/*.json`` say what fields there are; editors, the Kubernetes definitions and this module read the same files.
jsonschema-rs decides, jsonschema explains (``explain``, imported only for a document that is not valid). After this
door ``model.spec`` and ``desired.rules`` take over, which know what no schema can: other documents, releases, defaults.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from topiarist.errors import FieldKey, FieldPath, SchemaError
from topiarist.kafka import config_rules, config_table
from topiarist.kafka.config_rules import ConfigRules
from topiarist.kafka.config_values import to_config_text
from topiarist.schema.load import (
    API_VERSION,
    FRACTION_FIELDS,
    KINDS,
    build_validator,
    document_schema,
    non_integer_paths,
)


def key_step(key: str) -> str:
    """The last step of a path to a config: the key itself if that is what is wrong, else its value."""
    return key if key in config_table.TOPIC_CONFIGS else FieldKey(key)


_FRACTION_FREE_TYPES = {str, int, bool}


def check(body: Mapping[str, Any], *, custom_resource: bool = False) -> list[SchemaError]:
    """Everything wrong with a document by itself; empty if it is valid. At most ``explain.MOST`` problems.

    ``body`` is plain: dict, list, str, int, bool, and ``Decimal`` or float for fractions. ``custom_resource`` says that
    it comes from an API server and not from a file.
    """
    if is_valid(body, custom_resource=custom_resource):
        return []
    from topiarist.schema import explain

    return explain.identity_errors(body) or explain.explain_errors(document_schema(body["kind"], custom_resource), body)


def is_valid(body: Mapping[str, Any], *, custom_resource: bool = False) -> bool:
    """Whether ``check`` would find nothing wrong."""
    return (
        body.get("apiVersion") == API_VERSION and body.get("kind") in KINDS and _matches_schema(body, custom_resource)
    )


def config_value_errors(body: Mapping[str, Any], remaining_guesses: Iterator[object]) -> Iterator[SchemaError]:
    """Config values that no Kafka takes, in a document that is not valid anyway: complaints come all at once.

    A valid document is judged by ``desired.rules``, which knows its cluster; here only what no cluster could make
    right. For an unknown key a known one is looked for as long as there is a next in ``remaining_guesses``: that takes
    a while.
    """
    for path, holder in _config_sections(body.get("spec")):
        config = holder.get("config")
        for key, value in config.items() if isinstance(config, Mapping) else ():
            if isinstance(value, str | int | Decimal) and (
                key in config_table.TOPIC_CONFIGS or _has_suggestion(key, remaining_guesses)
            ):
                problem = ConfigRules().config_problem(key, to_config_text(value))
                if problem:
                    yield SchemaError((*path, "config", key_step(key)), *problem)


def _has_suggestion(key: str, remaining_guesses: Iterator[object]) -> bool:
    """Whether a known key was probably meant; False also if nothing may be guessed any more."""
    return next(remaining_guesses, None) is not None and config_rules.suggest_config_name(key) is not None


def _config_sections(spec: Any) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
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


def _matches_schema(body: Mapping[str, Any], custom_resource: bool = False) -> bool:
    try:
        accepted = build_validator(body["kind"], custom_resource).is_valid(body)
    except ValueError:
        # Text that is no Unicode, which JSON from elsewhere can hold.
        return False
    return accepted and (_is_fraction_free(body["spec"]) or not any(non_integer_paths(body["spec"])))


def _is_fraction_free(spec: Mapping[str, Any]) -> bool:
    """Whether there is nothing in a spec that could hold a fraction, as in almost all."""
    return {type(value) for key, value in spec.items() if key not in FRACTION_FIELDS} <= _FRACTION_FREE_TYPES
