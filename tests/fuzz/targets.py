"""What is fuzzed: each reader of bytes from outside, and what must hold for all bytes.

A target has ``reads``, which are the product alone (for measuring), and ``check``, which reads as well and raises for
whatever breaks a promise: an exception that is not documented, a message that would move a cursor, or a value that does
not come back the same from what is written of it. ``run`` fuzzes them, ``test_cases`` reads what was once found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, NamedTuple

from fuzz import seeds
from support import states
from support.decoders import DECODERS
from topiarist import saved, schema
from topiarist.adapters import manifests as loader
from topiarist.adapters import snapshot, znodes
from topiarist.adapters.cel import Court
from topiarist.adapters.manifests import thorough
from topiarist.adapters.manifests.source import File
from topiarist.adapters.manifests.strict import Odd, StrictLoader
from topiarist.adapters.znodes.strict import load_object
from topiarist.core.claims import cluster_map
from topiarist.core.configs import SETTINGS
from topiarist.core.facts import Facts, of_change, of_cluster, of_topic
from topiarist.core.guardrails import Rule, Subject
from topiarist.core.plan import Run, make_plan
from topiarist.core.spec import ClusterSpec, Manifest
from topiarist.desired import resolve
from topiarist.errors import Complaint, Reason, TopiaristError
from topiarist.render.document import document, dumps, fingerprint

NOT_A_PLAN = {Reason.NOT_A_PLAN, Reason.PLAN_EDITED, Reason.PLAN_TOO_NEW}


class Target(NamedTuple):
    """Readers, the product with all that must hold of them, inputs to begin with, and words of the format."""

    reads: tuple[Callable[[bytes], object], ...]
    check: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]
    words: str


def _printable(text: str) -> None:
    assert all(line.isprintable() for line in text.split("\n")), ascii(text)


def _refused(error: TopiaristError, reasons: Collection[Reason]) -> None:
    assert error.reason in reasons, error.reason
    _printable(str(error))


# Manifests


def _load(data: bytes) -> loader.Loaded:
    return loader.load(["-"], BytesIO(data))


def manifests(data: bytes) -> None:
    """Documents or located complaints; specs of what is valid; and what is valid is written and read the same."""
    loaded = _load(data)
    of_kind: dict[str, list[Manifest]] = {kind: [] for kind in schema.KINDS}
    for manifest in loaded.manifests:
        of_kind[manifest.kind].append(manifest)
    for manifest in of_kind["Policy"]:
        schema.policy(manifest)
    clusters, doubles = cluster_map(map(schema.cluster_spec, of_kind["Cluster"]))
    wanted = resolve(of_kind["Topic"], clusters or {"": ClusterSpec()}, strict=False)
    _inside(data, [*loaded.complaints, *doubles, *wanted.complaints, *wanted.warnings])
    if loaded.complaints:
        return
    bodies = _bodies(data)
    text = loader.dump(bodies).encode()
    assert repr(list(_fast(text))) == repr(bodies), "the fast pass reads something else than was written"
    again = _load(text)
    assert not again.complaints
    assert list(map(_content, again.manifests)) == list(map(_content, loaded.manifests))


def _inside(data: bytes, complaints: Iterable[Complaint]) -> None:
    lines = re.split("\r\n|[\r\n\x85\u2028\u2029]", data.decode("utf-8", "replace"))
    longest = max(map(len, lines))
    for complaint in complaints:
        _printable(str(complaint))
        assert complaint.place.file == "<stdin>"
        assert 1 <= complaint.place.line <= len(lines) + 1, complaint
        assert 1 <= complaint.place.column <= longest + 1, complaint


def _bodies(data: bytes) -> list[Any]:
    """Our documents in a file without fault, by the thorough pass; the fast one reads the same, if it reads all."""
    file = File("<stdin>", data)
    judged = [found for found in thorough.documents(file) if isinstance(found, thorough.Judged)]
    try:
        assert repr(list(_fast(data))) == repr([found.body for found in judged]), "the two passes differ"
    except Odd:  # in a document of others, of which more is taken
        assert not all(thorough.is_ours(found.body) for found in judged)
    return [found.body for found in judged if thorough.is_ours(found.body)]


def _fast(data: bytes) -> Iterator[Any]:
    return (parsed.body for parsed in StrictLoader().documents(File("<stdin>", data)))


def _content(manifest: Manifest) -> str:
    """All of a manifest but where it stands; by its text, in which 1 is not true and 0.5 not 0.50."""
    return repr((manifest[:-1], loader.annotations_of(manifest)))


# Znodes


def _value(decode: Callable[[bytes], Any], raw: bytes) -> Any:
    """What a decoder makes of bytes; None if it says, in printable words, that they are none of its own."""
    try:
        return decode(raw)
    except znodes.ZnodeError as error:
        _printable(str(error))
        return None


def every_znode(data: bytes) -> None:
    """A value or ``ZnodeError`` from each decoder; what is encoded of it is decoded to it; nothing is dropped."""
    topic, config, record, gate, *_, grown, changed = (_value(decode, data) for decode in DECODERS)
    if topic is not None:
        _topic(data, topic, grown)
    if config is not None:
        assert znodes.decode_config(znodes.encode_config(config)) == config
        _kept(data, changed, {"version", "config"})
    if record is not None:
        assert znodes.decode_record(znodes.encode_record(record)) == record
    if gate is not None:
        assert znodes.decode_gate(znodes.encode_gate(gate)) == gate
    znodes.read_gate(data)


def _topic(raw: bytes, node: znodes.TopicNode, grown: bytes | None) -> None:
    pool = znodes.Pool()
    assert pool.topic(raw) == pool.topic(raw) == node
    whole = isinstance(node.partition_ids, range)
    assert (grown is not None) == whole
    if grown is None:
        return
    plain = node._replace(reassigning=(), unknown_fields=())
    written = znodes.encode_topic(node.replicas, version=node.version, topic_id=node.topic_id)
    assert znodes.decode_topic(written) == plain
    larger = znodes.decode_topic(grown)
    assert larger.replicas == (*node.replicas, (1, 2))
    assert larger[3:] == node[3:]
    _kept(raw, grown, {"version", "partitions"})


def _kept(raw: bytes, written: bytes, changed: set[str]) -> None:
    """Whatever of a znode is not changed is written back as it was."""
    before, after = load_object(raw), load_object(written)
    same = {name: value for name, value in after.items() if name in before and name not in changed}
    assert repr(sorted(same.items())) == repr(sorted((name, before[name]) for name in before if name not in changed))


# Plans


def _read_plan(data: bytes) -> Any:
    try:
        return saved.read(data, "plan.json")
    except TopiaristError as error:
        _refused(error, NOT_A_PLAN)
        return None


def plans(data: bytes) -> None:
    """A file of plans is written to the same bytes, or refused; also where the fingerprint fits: anybody makes one."""
    for raw in (data, _signed(data)):
        found = _read_plan(raw)
        assert found is None or dumps(document(found)).encode() == raw


def _signed(data: bytes) -> bytes:
    """The same document as topiarist would have written and signed it, as far as it is one."""
    try:
        content = json.loads(data)
        return dumps({**content, "fingerprint": fingerprint(content)}).encode()
    except (ValueError, TypeError, KeyError, RecursionError):
        return data


# Snapshots


def _read_snapshot(data: bytes) -> snapshot.Snapshot | None:
    with NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        try:
            return snapshot.load(Path(file.name))
        except TopiaristError as error:
            _refused(error, {Reason.SNAPSHOT_UNUSABLE})
            return None


def snapshots(data: bytes) -> None:
    """A file is refused, or a state that is written and read again as it is, but for settings that stay behind."""
    found = _read_snapshot(data)
    if found is None:
        return
    again = _read_snapshot(b"".join(snapshot.dump(found)))
    kept = {name: text for name, text in found.state.broker_defaults.items() if name in SETTINGS}
    assert again == found._replace(state=replace(found.state, broker_defaults=kept))


# Rules of policies


@cache
def _facts() -> Facts:
    """A topic to be created, with everything that rules of either subject may name."""
    spec = states.spec("orders", config={"retention.ms": 604800000, "cleanup.policy": "compact"})
    (planned,) = make_plan(states.cluster(), spec.cluster, (spec,), Run()).topics
    (creation,) = planned.changes
    return {**of_topic(spec, of_cluster(spec.cluster), {"a": "b"}), **of_change(planned, creation, 6)}


def rules(data: bytes) -> None:
    """Any expression that fits into a policy is kept, not kept, or a fault in printable words."""
    expression = data.decode("utf-8", "replace")[:2000]
    for subject in Subject:
        rule = Rule("policy", "rule", expression, "no", subject, True, (), states.Written("policy.yaml"), ())
        court = Court([rule])
        found = [*court.faults.values(), *(fault for _, fault in court.judge([rule], _facts()) if fault)]
        for fault in found:
            assert fault.message.isprintable(), ascii(fault.message)
            assert fault.hint.isprintable(), ascii(fault.hint)


TARGETS = {
    "manifests": Target((_load,), manifests, partial(seeds.files, "*.yaml"), seeds.YAML),
    "znodes": Target(tuple(partial(_value, decode) for decode in DECODERS), every_znode, seeds.of_znodes, seeds.ZNODE),
    "plans": Target((_read_plan,), plans, partial(seeds.files, "*.json"), seeds.JSON),
    "snapshots": Target((_read_snapshot,), snapshots, seeds.of_snapshots, seeds.JSON),
    "rules": Target((rules,), rules, seeds.of_rules, seeds.CEL),
}
