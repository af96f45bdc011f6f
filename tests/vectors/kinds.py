"""One function for each kind of vector, from the input to the product's result in the format of the vectors.

A function returns one result, or several that must all be as expected (a random start means every start). Where the
product has no such function, ``UNSUPPORTED`` has the reason.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any, TypeVar

from topiarist.adapters.zookeeper.codec import paths, topics, values
from topiarist.adapters.zookeeper.codec.topics import decode_config, encode_change_notification
from topiarist.kafka import config_rules, config_table, config_values
from topiarist.kafka import types as names
from topiarist.kafka.placement import AssignmentError, alternate_racks, assign_replicas
from topiarist.kafka.types import KafkaVersion, Replicas
from vectors import admission, explicit_lists, move_kinds
from vectors.admission import Input, RefusedError, VectorResult, brokers_of, config_texts
from vectors.properties import PlacementResult

UNSUPPORTED = {
    "config": frozenset({"append", "subtract", "alter", "roundtrip"}),
    "validate": frozenset(
        {
            "config_change_notification",
            "controller_reaction",
            "describe",
            "describe_partition",
            "encode_reassign_partitions",
            "parse_reassignment_file",
            "reassign_check",
            "reassign_target",
            "reassign_to",
            "sequence_suffix",
        }
    ),
    "cancel": frozenset({""}),
    "controller_reaction": frozenset({""}),
    "explicit": frozenset({""}),
    "level": frozenset({""}),
}
"""Operations that the product does not have: describing, what a controller does, incremental configs, other moves.

A kind without operations is unsupported as a whole.
"""

_Node = TypeVar("_Node")
_MAX_STARTS = 4096
_END: VectorResult = {}
_RESERVED_IDS = ("0" * 32, "0" * 31 + "1")


def run(kind: str, given: Input, release: KafkaVersion) -> Iterator[VectorResult]:
    """Return the product's result for a vector; refusals are results with ``error``.

    Raise ``KeyError`` for an unknown kind.
    """
    results = _MULTIPLE_RESULTS[kind](given) if kind in _MULTIPLE_RESULTS else iter([])
    if kind not in _MULTIPLE_RESULTS:
        yield _result_or_error(lambda: _SINGLE_RESULT[kind](given, release))
        return
    while (seen := _result_or_error(lambda: next(results, _END))) is not _END:
        yield seen
        if "error" in seen:
            return


def _result_or_error(work: Callable[[], VectorResult]) -> VectorResult:
    try:
        return work()
    except (AssignmentError, RefusedError) as error:
        return {"error": error.kind}


def _assign(given: Input) -> Iterator[VectorResult]:
    brokers = brokers_of(given)
    first = int(given.get("start_partition_id", 0))
    count, factor = int(given["n_partitions"]), int(given["replication_factor"])
    for start, shift in _starts(given, len(brokers)):
        lists = assign_replicas(brokers, count, replication_factor=factor, start=start, shift=shift, first=first)
        placed = dict(enumerate(lists, max(0, first)))
        yield {"valid": True, "assignment": _json(placed), "placed": PlacementResult(placed, brokers, tuple(placed))}


def _starts(given: Input, brokers: int) -> Iterator[tuple[int, int]]:
    """Return the start and shift of a vector; if they are random, all of them (or very many, evenly)."""
    start = int(given.get("start_index", -1))
    shift = int(given.get("replica_shift", start))
    if start >= 0 and shift >= 0:
        yield start, shift
        return
    starts = range(brokers) if start < 0 else (start,)
    shifts = range(brokers) if shift < 0 else (shift,)
    step = len(starts) * len(shifts) // _MAX_STARTS + 1
    pairs = list(product(starts, shifts))[::step]
    yield from pairs or [(0, 0)]


def _expand(given: Input) -> Iterator[VectorResult]:
    brokers = brokers_of(given)
    for existing, before in _initial_assignments(given):
        seen = admission.expansion(brokers, existing, int(given["n_partitions"]))
        fresh: Any = seen["new_partitions"]
        whole = {**existing, **{int(partition): tuple(replicas) for partition, replicas in fresh.items()}}
        new = tuple(map(int, fresh))
        yield {**seen, "before": before, "placed": PlacementResult(whole, brokers, new)}


def _initial_assignments(given: Input) -> Iterator[tuple[dict[int, Replicas], PlacementResult | None]]:
    """Return the topic before it grows: as given, or as any creation may have placed it."""
    if "create" not in given:
        yield {int(partition): tuple(replicas) for partition, replicas in given["existing"].items()}, None
        return
    for made in _assign({"brokers": given["brokers"], **given["create"]}):
        placed = made["placed"]
        assert isinstance(placed, PlacementResult)
        yield dict(placed.assignment), placed


def _alternate(given: Input, _release: KafkaVersion) -> VectorResult:
    return {"valid": True, "order": list(alternate_racks(brokers_of(given)))}


def _topic_name(given: Input, _release: KafkaVersion) -> VectorResult:
    match given.get("op", "validate"):
        case "validate":
            if names.topic_name_problem(given["name"]):
                raise RefusedError("invalid_topic")
            return {"valid": True}
        case "has_collision_chars":
            return {"result": names.has_collision_chars(given["name"])}
        case "unify":
            return {"result": names.metric_name(given["name"])}
        case "collide":
            return {"result": names.metric_name(given["a"]) == names.metric_name(given["b"])}
    raise KeyError(given["op"])


def _config(given: Input, release: KafkaVersion) -> VectorResult:
    match given.get("op", "validate"):
        case "validate":
            name = given["name"]
            if given["value"] is None or config_values.check_value(name, text := config_texts(given)["value"], release):
                raise RefusedError("invalid_config")
            return {"valid": True, "canonical": config_values.canonical_text(name, text), "stored": text}
        case "validate_set":
            settings = {"remote.log.storage.system.enable": "false", **config_texts(given.get("broker", {}))}
            config, stored = config_texts(given["configs"]), config_texts(given.get("existing", {}))
            admission.check_configs(config, release, settings)
            if any(
                config_rules.forbidden_change_reason(name, stored[name], config.get(name), release) for name in stored
            ):
                raise RefusedError("invalid_config")
            return {"valid": True}
        case "effective":
            config, settings = config_texts(given["configs"]), config_texts(given.get("broker", {}))
            values = {
                name: config_rules.effective_value(name, config, settings, release)
                for name in config_table.TOPIC_CONFIGS
            }
            plain = {name: sorted(value) if isinstance(value, frozenset) else value for name, value in values.items()}
            return {"valid": True, "effective": plain}
    raise KeyError(given["op"])


def _validate(given: Input, release: KafkaVersion) -> VectorResult:
    return _OPERATIONS[given["op"]](given, release)


def _parse_cli(given: Input, _release: KafkaVersion) -> VectorResult:
    return {"valid": True, "assignment": _json(dict(enumerate(explicit_lists.parse_cli_assignment(given["cli"]))))}


def _decode_broker(given: Input, _release: KafkaVersion) -> VectorResult:
    node = _decode_or_refuse(lambda: values.decode_broker(int(given["id"]), _raw(given)))
    return {"valid": True, "id": node.id, "rack": node.rack, "endpoints": list(node.endpoints), "version": node.version}


def _decode_topic(given: Input, _release: KafkaVersion) -> VectorResult:
    node = _decode_or_refuse(lambda: topics.decode_topic(_raw(given)))
    return {
        "valid": True,
        "assignment": _json(dict(zip(node.partition_ids, node.replicas, strict=True))),
        "topic_id": node.topic_id,
        "reassigning": bool(node.reassignments),
        "version": node.version,
    }


def _decode_config(given: Input, _release: KafkaVersion) -> VectorResult:
    return {"valid": True, "configs": dict(_decode_or_refuse(lambda: decode_config(_raw(given))))}


def _decode_reassign(given: Input, _release: KafkaVersion) -> VectorResult:
    entries = _decode_or_refuse(lambda: values.decode_requested_reassignments(_raw(given)))
    return {"valid": True, "partitions": [[topic, partition, list(target)] for topic, partition, target in entries]}


def _encode_notification(given: Input, _release: KafkaVersion) -> VectorResult:
    raw = _decode_or_refuse(lambda: encode_change_notification(given["entity_path"]))
    return {"path": f"{paths.CONFIG_CHANGE_PREFIX}{0:010d}", "bytes": raw.decode()}


def _topic_id(given: Input, _release: KafkaVersion) -> VectorResult:
    raw = values.dump_object({"version": 3, "partitions": {}, "topic_id": given["value"]})
    try:
        text = topics.decode_topic(raw).topic_id or ""
    except values.ZnodeError as error:
        raise RefusedError("illegal_argument") from error
    found = urlsafe_b64decode(text + "==").hex()
    return {"valid": True, "hex": found, "reserved": found in _RESERVED_IDS}


def _decode_or_refuse(work: Callable[[], _Node]) -> _Node:
    try:
        return work()
    except values.ZnodeError as error:
        raise RefusedError("malformed") from error


def _raw(given: Input) -> bytes:
    raw = given["raw"]
    return b"" if raw is None else str(raw).encode()


def _json(assignment: Mapping[int, Replicas]) -> dict[str, list[int]]:
    return {str(partition): list(replicas) for partition, replicas in assignment.items()}


def _run_on_lists(kind: str) -> Callable[[Input, KafkaVersion], VectorResult]:
    return lambda given, _release: move_kinds.run_on_lists(kind, given)


_MULTIPLE_RESULTS: Mapping[str, Callable[[Input], Iterator[VectorResult]]] = {"assign": _assign, "expand": _expand}
_SINGLE_RESULT: Mapping[str, Callable[[Input, KafkaVersion], VectorResult]] = {
    **{kind: _run_on_lists(kind) for kind in move_kinds.ON_LISTS},
    "in_flight": lambda given, _release: move_kinds.run_in_flight(given),
    "batches": lambda given, _release: move_kinds.run_batches(given),
    "throttle": lambda given, _release: move_kinds.run_throttle(given),
    "alternate": _alternate,
    "topic_name": _topic_name,
    "config": _config,
    "validate": _validate,
}
_OPERATIONS: Mapping[str, Callable[[Input, KafkaVersion], VectorResult]] = {
    "create": admission.create,
    "create_explicit": admission.create,
    "expand": lambda given, _release: admission.grow(given),
    "expand_explicit": lambda given, _release: admission.grow(given),
    "delete": lambda given, _release: admission.delete(given),
    "broker_metadatas": lambda given, _release: admission.broker_metadatas(given),
    "parse_cli_assignment": _parse_cli,
    "decode_broker": _decode_broker,
    "decode_topic": _decode_topic,
    "decode_config": _decode_config,
    "decode_reassign_partitions": _decode_reassign,
    "encode_config_change_notification": _encode_notification,
    "topic_id": _topic_id,
}
