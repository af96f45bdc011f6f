"""Kafka's topic configs: which exist in a release, what their text means, when two texts are equal, what fits together.

Two strictnesses: ``check`` and ``equal`` read values exactly as Kafka does, since what others have stored must be
readable; ``stricter`` names what Kafka would take but no manifest should hold. Values are always text, as in ZooKeeper.
Before this module stands the text of a manifest or a znode; ``rules``, ``risk`` and ``plan`` use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from topiarist.core.configdefs import LIMITS, VERSIONS, ConfigDef
from topiarist.core.configtable import CONFIGS
from topiarist.core.configvalues import NEWEST, Value, canonical_text, check, equal, parse, read, stricter
from topiarist.core.javatext import integer, trim
from topiarist.core.state import Release

__all__ = [
    "CONFIGS",
    "DEPRECATED",
    "REMOTE_STORAGE",
    "SETTINGS",
    "ConfigDef",
    "canonical_text",
    "check",
    "conflicts",
    "default",
    "deprecation",
    "effective",
    "equal",
    "forbidden_change",
    "judging",
    "known",
    "parse",
    "server_default",
    "stricter",
    "suggest",
]

DEPRECATED = frozenset(name for name, definition in CONFIGS.items() if definition.deprecated)
"""Names that some release deprecates; ``deprecation`` says which and why."""

REMOTE_STORAGE = "remote.log.storage.system.enable"
"""The brokers' setting without which no topic may have remote storage."""

SETTINGS = frozenset(server for definition in CONFIGS.values() for server, _ in definition.server) | {REMOTE_STORAGE}
"""The brokers' settings that bear on topics, under broker names: no other is ever looked at."""


def known(name: str, release: Release) -> bool:
    """Whether a Kafka release has this topic config. One that it has not would lock the topic's whole config."""
    definition = CONFIGS.get(name)
    return definition is not None and definition.since <= release


def suggest(name: str) -> str | None:
    """The topic config that was probably meant by a ``name`` that is none (a broker's name, say); None if unclear."""
    from difflib import get_close_matches

    plain = name.strip().lower().replace("_", ".")
    if plain in CONFIGS:
        return plain
    for definition in CONFIGS.values():
        if any(plain == server for server, _ in definition.server):
            return definition.name
    return next(iter(get_close_matches(plain, CONFIGS, n=1, cutoff=0.75)), None)


def deprecation(name: str, release: Release) -> str:
    """What to say of a name that a release has but wants to be rid of; empty otherwise."""
    definition = CONFIGS.get(name)
    if definition is None or definition.deprecated is None or release < definition.deprecated[0]:
        return ""
    (major, minor), words = definition.deprecated
    return f"deprecated since Kafka {major}.{minor}: {words}"


def default(name: str, release: Release = NEWEST) -> str:
    """Kafka's own default of a topic config in a release, as text; a cluster's brokers may have another."""
    definition = CONFIGS[name]
    if definition.form == "version" and release < (3, 0):
        version = f"{release[0]}.{release[1]}"
        return f"{version}-IV{VERSIONS[version]}"
    if definition.earlier_default is not None and release < definition.earlier_default[0]:
        return definition.earlier_default[1]
    return definition.default


def server_default(name: str, settings: Mapping[str, str]) -> str | None:
    """What brokers with these ``settings`` (under broker names) use where a topic has no override, as a topic's text.

    None if the settings do not say it: other settings, or Kafka's own default, hold then.
    """
    definition = CONFIGS.get(name)
    for server, factor in definition.server if definition else ():
        if server not in settings:
            continue
        if factor == 1:
            return settings[server]
        try:
            scaled = integer(trim(settings[server]), limit=LIMITS["int"]) * factor
        except ValueError:
            return None
        return str(max(scaled, -1))
    return None


def effective(
    name: str, config: Mapping[str, str], settings: Mapping[str, str], release: Release = NEWEST
) -> Value | None:
    """The value that holds for a topic: its override, else what ``settings`` say of the brokers, else Kafka's default.

    ``local.retention.*`` of -2 follows ``retention.*``. None if the text that counts cannot be read.
    """
    value = _given(name, config, settings, release)
    if value == -2 and name.startswith("local.retention."):
        return effective(name.removeprefix("local."), config, settings, release)
    return value


def conflicts(
    config: Mapping[str, str], release: Release, settings: Mapping[str, str] | None = None
) -> list[tuple[str, str]]:
    """What does not fit together in a topic's overrides: a key of them and what is wrong, for each rule that is broken.

    ``settings`` is what is known of the brokers' own settings, under broker names (``REMOTE_STORAGE`` among them).
    Values that cannot be read are left to ``check``; what the overrides have no part in is no conflict.
    """
    if config.keys().isdisjoint(_RARE) and (not settings or settings.keys().isdisjoint(_RARE_SETTINGS)):
        return []  # almost every topic: no rule can be broken
    values = {name: _given(name, config, settings or {}, release) for name in _RULED}
    found: list[tuple[str, str]] = []
    if release < (3, 6):  # brokers counted only Kafka's own defaults then
        lags = {name: _given(name, config, {}, release) for name in _LAGS}
        found += _lag_conflict(lags, config)
    else:
        found += _lag_conflict(values, config)
        found += _remote_conflicts(values, config, settings or {})
    if values["remote.storage.enable"] is True or (3, 0) <= release < (3, 6):
        found += _local_conflicts(values, config, release)
    if release >= (3, 9):
        refused = [name for name in _NOT_IN_ZOOKEEPER if values[name] is True]
        found += [(name, f"{name}: found true, which Kafka refuses in ZooKeeper mode") for name in refused]
    return found


def judging(settings: Mapping[str, str]) -> Mapping[str, str]:
    """Those of the brokers' ``settings`` that bear on topics; all others may as well not be known."""
    return {key: text for key, text in sorted(settings.items()) if key in SETTINGS}


def forbidden_change(name: str, before: str | None, after: str | None, release: Release = NEWEST) -> str:
    """Say why an override may not go from ``before`` to ``after`` (None: no override); empty if it may.

    Only ``remote.storage.enable`` knows such a rule: in ZooKeeper mode it cannot be switched off again.
    """
    if name != "remote.storage.enable" or release < (3, 6):
        return ""
    on, still = (text is not None and equal(name, text, "true") for text in (before, after))
    return "remote storage cannot be switched off again in ZooKeeper mode" if on and not still else ""


_LAGS = ("min.compaction.lag.ms", "max.compaction.lag.ms")
_NOT_IN_ZOOKEEPER = ("remote.log.copy.disable", "remote.log.delete.on.disable")
_LOCAL = ("retention.ms", "local.retention.ms", "retention.bytes", "local.retention.bytes")
_RARE = {*_LAGS, *_NOT_IN_ZOOKEEPER, "local.retention.ms", "local.retention.bytes", "remote.storage.enable"}
_RARE_SETTINGS = {"log.local.retention.ms", "log.local.retention.bytes"}
_RULED = (*_LAGS, *_NOT_IN_ZOOKEEPER, *_LOCAL, "remote.storage.enable", "cleanup.policy")


def _lag_conflict(values: Mapping[str, Value | None], config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    least, most = (values[name] for name in _LAGS)
    key = next((name for name in _LAGS if name in config), None)
    if key and isinstance(least, int) and isinstance(most, int) and least > most:
        yield key, f"min.compaction.lag.ms is {least}, more than max.compaction.lag.ms, which is {most}"


def _remote_conflicts(
    values: Mapping[str, Value | None], config: Mapping[str, str], settings: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    if values["remote.storage.enable"] is not True:
        return
    # A broker without remote storage that loads such a topic does not start again, and ZooKeeper does not show whether
    # it has any: somebody has to say so.
    if trim(settings.get(REMOTE_STORAGE, "false")).lower() != "true":
        yield (
            "remote.storage.enable",
            "remote.storage.enable is true, and brokers without remote storage would not start again: if these have "
            f'it, say {REMOTE_STORAGE}: "true" in the brokerConfig of their Cluster',
        )
    policy = values["cleanup.policy"]
    if isinstance(policy, frozenset) and "compact" in policy:
        key = "cleanup.policy" if "cleanup.policy" in config else "remote.storage.enable"
        yield key, "remote.storage.enable is true, which a cleanup.policy with compact does not allow"


def _local_conflicts(
    values: Mapping[str, Value | None], config: Mapping[str, str], release: Release
) -> Iterator[tuple[str, str]]:
    for whole in ("retention.ms", "retention.bytes"):
        local = f"local.{whole}"
        kept, here = values[whole], values[local]
        key = next((name for name in (local, whole, "remote.storage.enable") if name in config), None)
        if key is None or not isinstance(kept, int) or not isinstance(here, int) or here == -2:
            continue
        # Before 3.6 Kafka took "no limit" for the number that it is: any local limit was more, and brokers threw.
        if kept < 0 and (release >= (3, 6) or here == kept):
            continue
        if here == -1:
            yield key, f"{local} is -1 (no limit), but {whole} is {kept}"
        elif here > kept:
            yield key, f"{local} is {here}, more than {whole}, which is {kept}"


def _given(name: str, config: Mapping[str, str], settings: Mapping[str, str], release: Release) -> Value | None:
    text = config.get(name)
    if text is None:
        text = server_default(name, settings)
    value, problem = read(name, default(name, release) if text is None else text)
    return None if problem else value
