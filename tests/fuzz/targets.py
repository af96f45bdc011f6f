"""Fuzzing targets: each reader of external bytes, and its properties for all bytes.

A target has ``reads``, the product's readers alone (for measuring), and ``check``, which also reads and raises for any
violated property: an undocumented exception, a message that would move a cursor, or a value that changes when it is
written and read again. ``run`` fuzzes the targets, ``test_cases`` reads former finds.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import SimpleNamespace
from typing import Any, NamedTuple

from kafka.protocol.admin import DescribeConfigsResponse
from kafka.record.util import calc_crc32c
from msgspec.structs import replace

from fuzz import seeds
from support import builders
from support.zookeeper.decoders import DECODERS
from topiarist.adapters import own_values
from topiarist.adapters.cel import CelRuleEvaluator
from topiarist.adapters.kafka_admin.connection.connection import Connection, Disconnected, Message
from topiarist.adapters.kafka_admin.protocol.messages import (
    ApiVersionsRequest,
    FindCoordinatorRequest,
    MalformedMessage,
    MetadataRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from topiarist.adapters.kafka_admin.read.metadata import OVERRIDE, VERSION, TopicOverrides, decode_overrides
from topiarist.adapters.kafka_admin.records.codec import TOPIC_PREFIX, Records, decode_records, encode_topic
from topiarist.adapters.kafka_admin.records.log import committed_records
from topiarist.adapters.manifests import diagnose, loader, yaml_text
from topiarist.adapters.manifests.source import File
from topiarist.adapters.manifests.yaml_text import NeedsDiagnosis, StrictParser
from topiarist.adapters.saved_plans import decode as decode_
from topiarist.adapters.saved_plans.encode import compute_fingerprint, dumps, encode_plans
from topiarist.adapters.snapshots import files
from topiarist.adapters.zookeeper.codec import topics, values
from topiarist.adapters.zookeeper.codec.topics import decode_config, encode_config
from topiarist.adapters.zookeeper.codec.values import load_object
from topiarist.desired import parse
from topiarist.desired.resolve import resolve
from topiarist.desired.shared_specs import index_clusters
from topiarist.errors import Diagnostic, Reason, TopiaristError
from topiarist.filters.policies import bind_change, bind_cluster, bind_topic
from topiarist.kafka.config_rules import RELEVANT_BROKER_SETTINGS
from topiarist.model.plan import RunOptions
from topiarist.model.policy import CelBindings, Rule, RuleSubject
from topiarist.model.spec import ClusterSpec, Manifest
from topiarist.planning.planner import make_plan
from topiarist.schema import load
from topiarist.schema.check import is_topiarist_document

_BATCH_LENGTH_END, _BATCH_ATTRIBUTES = 12, 21

INVALID_PLAN_REASONS = {Reason.NOT_A_PLAN, Reason.PLAN_EDITED, Reason.PLAN_TOO_NEW}


class Target(NamedTuple):
    """A target with readers, the properties of the product, seeds, and a dictionary of the format."""

    readers: tuple[Callable[[bytes], object], ...]
    check: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]
    tokens: str


def _check_printable(text: str) -> None:
    assert all(line.isprintable() for line in text.split("\n")), ascii(text)


def _check_reason(error: TopiaristError, reasons: Collection[Reason]) -> None:
    assert error.reason in reasons, error.reason
    _check_printable(str(error))


# Manifests


def _load(data: bytes) -> loader.Loaded:
    return loader.load_manifests(["-"], BytesIO(data))


def check_manifests(data: bytes) -> None:
    """Check that reading yields documents or located errors, and that valid documents are equal after a round trip."""
    loaded = _load(data)
    of_kind: dict[str, list[Manifest]] = {kind: [] for kind in load.MANIFEST_KINDS}
    for manifest in loaded.manifests:
        of_kind[manifest.kind].append(manifest)
    for manifest in of_kind["Policy"]:
        parse.parse_policy(manifest)
    clusters, doubles = index_clusters(map(parse.parse_cluster_spec, of_kind["Cluster"]))
    wanted = resolve(of_kind["Topic"], clusters or {"": ClusterSpec()}, require_cluster_documents=False)
    _check_locations(data, [*loaded.errors, *doubles, *wanted.errors, *wanted.warnings])
    if loaded.errors:
        return
    bodies = _own_documents(data)
    text = yaml_text.dump_documents(bodies).encode()
    assert repr(list(_parse_fast(text))) == repr(bodies), "the fast pass reads something else than was written"
    again = _load(text)
    assert not again.errors
    assert list(map(_manifest_content, again.manifests)) == list(map(_manifest_content, loaded.manifests))


def _check_locations(data: bytes, diagnostics: Iterable[Diagnostic]) -> None:
    lines = re.split("\r\n|[\r\n\x85\u2028\u2029]", data.decode("utf-8", "replace"))
    longest = max(map(len, lines))
    for diagnostic in diagnostics:
        _check_printable(str(diagnostic))
        assert diagnostic.location.file == "<stdin>"
        assert 1 <= diagnostic.location.line <= len(lines) + 1, diagnostic
        assert 1 <= diagnostic.location.column <= longest + 1, diagnostic


def _own_documents(data: bytes) -> list[Any]:
    """Return topiarist's documents of a valid file, by the full pass; the fast pass, if it reads all, yields the
    same.
    """
    file = File("<stdin>", data)
    judged = [found for found in diagnose.diagnose_documents(file) if isinstance(found, diagnose.DiagnosedDocument)]
    try:
        assert repr(list(_parse_fast(data))) == repr([found.body for found in judged]), "the two passes differ"
    except NeedsDiagnosis:  # in a document of another tool, where the full pass accepts more
        assert not all(is_topiarist_document(found.body) for found in judged)
    return [found.body for found in judged if is_topiarist_document(found.body)]


def _parse_fast(data: bytes) -> Iterator[Any]:
    return (parsed.body for parsed in StrictParser().parse_documents(File("<stdin>", data)))


def _manifest_content(manifest: Manifest) -> str:
    """Return the content of a manifest without positions, as text, in which 1 is not true and 0.5 is not 0.50."""
    return repr((manifest[:-1], loader.read_annotations(manifest)))


# Znodes


def _decode_or_none(decode: Callable[[bytes], Any], raw: bytes) -> Any:
    """Return the decoded value; None if the decoder rejects the bytes with a printable message."""
    try:
        return decode(raw)
    except values.ZnodeError as error:
        _check_printable(str(error))
        return None


def check_znodes(data: bytes) -> None:
    """Check that each decoder returns a value or raises ``ZnodeError``, and that values are equal after a round
    trip.
    """
    topic, config, record, gate, *_, grown, changed = (_decode_or_none(decode, data) for decode in DECODERS)
    if topic is not None:
        _check_topic(data, topic, grown)
    if config is not None:
        assert decode_config(encode_config(config)) == config
        _check_preserved(data, changed, {"version", "config"})
    if record is not None:
        assert own_values.decode_record(own_values.encode_record(record)) == record
    if gate is not None:
        assert own_values.decode_freeze(own_values.encode_freeze(gate)) == gate
    values.decode_freeze_fail_closed(data)


def _check_topic(raw: bytes, node: topics.TopicAssignment, grown: bytes | None) -> None:
    pool = topics.ZnodeDecoder()
    assert pool.decode_topic(raw) == pool.decode_topic(raw) == node
    whole = isinstance(node.partition_ids, range)
    assert (grown is not None) == whole
    if grown is None:
        return
    plain = node._replace(version=3, reassignments={}, topic_id=None, unknown_fields=())
    assert topics.decode_topic(topics.encode_topic(node.replicas)) == plain
    larger = topics.decode_topic(grown)
    assert larger.replicas == (*node.replicas, (1, 2))
    assert larger[3:] == node[3:]
    _check_preserved(raw, grown, {"version", "partitions"})


def _check_preserved(raw: bytes, written: bytes, changed: set[str]) -> None:
    """Check that unchanged parts of a znode are written back unchanged."""
    before, after = load_object(raw), load_object(written)
    same = {name: value for name, value in after.items() if name in before and name not in changed}
    assert repr(sorted(same.items())) == repr(sorted((name, before[name]) for name in before if name not in changed))


# Plans


def _read_plan(data: bytes) -> decode_.SavedPlans | None:
    try:
        return decode_.parse_plan_file(data, "plan.json")
    except TopiaristError as error:
        _check_reason(error, INVALID_PLAN_REASONS)
        return None


def check_plans(data: bytes) -> None:
    """Check that a plan file is written back identically or refused, even with a correct fingerprint."""
    for raw in (data, _sign(data)):
        found = _read_plan(raw)
        assert found is None or dumps(encode_plans(found.plans, found.unplanned)).encode() == raw


def _sign(data: bytes) -> bytes:
    """Return the document as topiarist would have written and signed it, as far as it is valid."""
    try:
        content = json.loads(data)
        return dumps({**content, "fingerprint": compute_fingerprint(content)}).encode()
    except (ValueError, TypeError, KeyError, RecursionError):
        return data


# Snapshots


def _read_snapshot(data: bytes) -> files.Snapshot | None:
    with NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        try:
            return files.load_snapshot(Path(file.name))
        except TopiaristError as error:
            _check_reason(error, {Reason.SNAPSHOT_UNUSABLE})
            return None


def check_snapshots(data: bytes) -> None:
    """Check that a file is refused, or its state is equal after a round trip, except settings that are not written."""
    found = _read_snapshot(data)
    if found is None:
        return
    again = _read_snapshot(b"".join(files.dump_snapshot(found)))
    kept = {name: text for name, text in found.state.broker_defaults.items() if name in RELEVANT_BROKER_SETTINGS}
    assert again == found._replace(state=replace(found.state, broker_defaults=kept))


# Rules of policies


@cache
def _cel_bindings() -> CelBindings:
    """Return the variables of both rule subjects for a topic to be created."""
    spec = builders.spec("orders", config={"retention.ms": 604800000, "cleanup.policy": "compact"})
    (planned,) = make_plan(builders.state(), spec.cluster, (spec,), RunOptions()).topics
    (creation,) = planned.changes
    return {**bind_topic(spec, bind_cluster(spec.cluster), {"a": "b"}), **bind_change(planned, creation, 6)}


def check_rules(data: bytes) -> None:
    """Check that any expression that fits into a policy yields a result, or an error with a printable message."""
    expression = data.decode("utf-8", "replace")[:2000]
    for subject in RuleSubject:
        rule = Rule("policy", "rule", expression, "no", subject, True, (), builders.PositionedSource("policy.yaml"), ())
        court = CelRuleEvaluator([rule])
        found = [*court.rule_errors.values(), *(fault for _, fault in court.evaluate([rule], _cel_bindings()) if fault)]
        for fault in found:
            assert fault.message.isprintable(), ascii(fault.message)
            assert fault.hint.isprintable(), ascii(fault.hint)


# Answers of brokers

REQUESTS: tuple[tuple[Callable[[], Message], int], ...] = (
    (lambda: MetadataRequest(topics=[]), 12),
    (ApiVersionsRequest, 3),
    (lambda: FindCoordinatorRequest(key_type=1, coordinator_keys=["topiarist"]), 4),
    (lambda: SaslHandshakeRequest(mechanism="PLAIN"), 1),
    (lambda: SaslAuthenticateRequest(auth_bytes=b""), 2),
)
"""The requests, with their versions, that the first byte of an input chooses from."""


class _RecordedPeer(socket.socket):
    """A socket that receives the given bytes and is then closed by its peer."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._data = BytesIO(data)

    def sendall(self, *_: Any) -> None:
        pass

    def recv_into(self, buffer: Any, *_: Any) -> int:
        return self._data.readinto(buffer)


def _read_answer(data: bytes) -> None:
    make, version = REQUESTS[data[0] % len(REQUESTS) if data else 0]
    with _RecordedPeer(data[1:]) as peer:
        connection = Connection(peer, timeout=60.0)
        try:
            connection.call(make(), version=version)
            is_answered = True
        except Disconnected:
            is_answered = False
        assert is_answered or not connection.is_open  # with an answer, the peer may have closed it


def _read_overrides(data: bytes) -> list[TopicOverrides] | None:
    """Return the overrides of an answer to DescribeConfigs; None if the decoder refuses it."""
    try:
        return list(decode_overrides(data))
    except MalformedMessage as error:
        _check_printable(str(error))
        return None


def check_overrides(data: bytes) -> None:
    """Check that an answer is refused, or read as the library reads it."""
    found = _read_overrides(data)
    if found is None:
        return
    try:
        answer: Any = DescribeConfigsResponse.decode(data, version=VERSION, header=True)
    except Exception:  # the library also decodes what is skipped here
        return
    assert found == [
        TopicOverrides(
            each.resource_name or "",
            {one.name or "": one.value or "" for one in each.configs or () if one.config_source == OVERRIDE},
            each.error_code,
            each.error_message or "",
        )
        for each in answer.results or ()
    ]


# Records


def _read_batches(data: bytes) -> list[tuple[bytes | None, bytes | None, int]] | None:
    """Return the records of the batches of a partition; None if they are refused."""
    try:
        return list(committed_records(SimpleNamespace(records=data, aborted_transactions=None), 0))
    except TopiaristError as error:
        _check_reason(error, {Reason.UNREADABLE})
        return None


def check_batches(data: bytes) -> None:
    """Check that batches are refused or read, also if the checksum of the first one is right."""
    _read_batches(data)
    if len(data) > _BATCH_ATTRIBUTES:
        end = _BATCH_LENGTH_END + int.from_bytes(data[_BATCH_LENGTH_END - 4 : _BATCH_LENGTH_END], "big", signed=True)
        checksum: int = calc_crc32c(data[_BATCH_ATTRIBUTES:end])
        _read_batches(data[: _BATCH_ATTRIBUTES - 4] + checksum.to_bytes(4, "big") + data[_BATCH_ATTRIBUTES:])


def _read_record(data: bytes) -> Records | None:
    key, _, value = data.partition(b"\0")
    try:
        return decode_records({key: value})
    except TopiaristError as error:
        _check_reason(error, {Reason.UNREADABLE})
        return None


def check_record(data: bytes) -> None:
    """Check that a record is refused, or is the same after it was written."""
    found = _read_record(data)
    if found is None:
        return
    for error in found.errors.values():
        _check_printable(error.message)
    for name, record in found.topics.items():
        again = decode_records({f"{TOPIC_PREFIX}{name}".encode(): encode_topic(record)})
        assert again.topics == {name: record}


TARGETS = {
    "manifests": Target((_load,), check_manifests, partial(seeds.example_files, "*.yaml"), seeds.YAML_TOKENS),
    "znodes": Target(
        tuple(partial(_decode_or_none, decode) for decode in DECODERS),
        check_znodes,
        seeds.znode_seeds,
        seeds.ZNODE_TOKENS,
    ),
    "plans": Target((_read_plan,), check_plans, partial(seeds.example_files, "*.json"), seeds.JSON_TOKENS),
    "snapshots": Target((_read_snapshot,), check_snapshots, seeds.snapshot_seeds, seeds.JSON_TOKENS),
    "rules": Target((check_rules,), check_rules, seeds.rule_seeds, seeds.CEL_TOKENS),
    "answers": Target((_read_answer,), _read_answer, seeds.answer_seeds, ""),
    "overrides": Target((_read_overrides,), check_overrides, seeds.override_seeds, ""),
    "batches": Target((_read_batches,), check_batches, seeds.batch_seeds, ""),
    "records": Target((_read_record,), check_record, seeds.record_seeds, seeds.JSON_TOKENS),
}
