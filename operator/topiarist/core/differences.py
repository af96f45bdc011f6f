"""What differs between an existing topic and its spec, field by field: size, replicas, config, record.

``plan`` decides whether a topic may be touched at all; this module finds what there would be to do. Each function
looks at one field and adds to a ``Draft``: a change, a refusal, or a notice (for fields in ``ignore``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from topiarist.core import configs
from topiarist.core.change import AddPartitions, Change, ConfigItem, Finding, UpdateConfig
from topiarist.core.draft import Context, Draft
from topiarist.core.names import INTERNAL_TOPICS
from topiarist.core.risk import of_config, of_growth
from topiarist.core.rules import config_faults, min_isr_above, remedy, version
from topiarist.core.spec import TopicSpec
from topiarist.core.state import TopicRecord, TopicState
from topiarist.core.units import count
from topiarist.errors import Reason

DECLARE = "set kafkaVersion in the Cluster, or give --kafka-version"
"""What to do where a config may be unknown to a cluster whose release nobody declared."""

LEAVE_TO_KAFKA = "leave it to Kafka: take it out of the manifests"
"""What to do about a manifest for one of Kafka's own topics."""

THROTTLES = frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"})
"""Set and removed by Kafka's own reassignments: never ours unless a spec names them."""


def find(draft: Draft, topic: TopicState) -> None:
    """Everything that differs between ``topic`` and the draft's spec, record aside."""
    _partitions(draft, topic)
    _replication_factor(draft, topic)
    _config(draft, topic)


def _partitions(draft: Draft, topic: TopicState) -> None:
    spec, now = draft.spec, len(topic.replicas)
    if spec.assignment is not None:
        _explicit_replicas(draft, topic)
    wanted = spec.partitions
    if wanted is None or wanted == now:
        return
    path = ("replicaAssignment",) if spec.assignment is not None else ("partitions",)
    if path[0] in spec.ignore or "partitions" in spec.ignore:
        draft.notice(Reason.IGNORED, f"partitions: {now} on the cluster, {wanted} in the manifest", path)
    elif wanted < now:
        keep = f"list {count(now, 'partition')}" if spec.assignment is not None else f"set partitions: {now}"
        message = f"{now} -> {wanted} partitions, Kafka cannot remove any"
        draft.refuse(Reason.FEWER_PARTITIONS, message, path, instead=f"{keep}, or create a new topic")
    elif not _growth_refused(draft, topic, path):
        replicas = draft.context.placing.grow(spec, topic, wanted)
        if isinstance(replicas, Finding):
            # Lists of another width are refused for the topic as a whole too: one finding for one cause.
            if replicas.reason is not Reason.REPLICATION_FACTOR_DIFFERS or "replicationFactor" in spec.ignore:
                draft.refusals.append(replicas)
        else:
            verdict = of_growth((topic.config, {**topic.config, **spec.config}), draft.context.settings)
            draft.changes.append(AddPartitions(now, topic.replicas[0], replicas, verdict))


def _growth_refused(draft: Draft, topic: TopicState, path: tuple[str, ...]) -> bool:
    """Whether something about the topic itself forbids to add partitions now."""
    state, more = draft.context.state, f"{len(topic.replicas)} -> {draft.spec.partitions} partitions"
    if topic.name in INTERNAL_TOPICS:
        message = f"{more}: Kafka's own topic, which relies on the count"
        draft.refuse(Reason.INTERNAL_TOPIC, message, path, instead=LEAVE_TO_KAFKA)
    elif draft.context.protects(topic.name):
        message = f"{more}: belongs to other software, which relies on the count"
        draft.refuse(
            Reason.PROTECTED_TOPIC, message, path, instead="ask its owner; Cluster.spec.protected lists the names"
        )
    elif not topic.whole or not topic.replicas or not topic.replicas[0]:
        message, instead = _malformed(topic)
        draft.refuse(Reason.PARTITIONS_MALFORMED, f"{more}: {message}", path, instead=instead)
    elif topic.reassigning or topic.name in state.reassigning:
        message = f"{more}: its replicas are being reassigned, and that would undo the growth"
        draft.refuse(Reason.REASSIGNMENT_IN_PROGRESS, message, path, instead="run again when the reassignment is done")
    elif topic.unknown_fields:
        names = ", ".join(topic.unknown_fields)
        message = f"{more}: the topic has fields that Kafka does not write ({names}); they would be left incomplete"
        draft.refuse(Reason.UNKNOWN_FIELDS, message, path, instead="use the vendor's own tool to add partitions")
    else:
        return False
    return True


def _malformed(topic: TopicState) -> tuple[str, str]:
    """What is wrong with the partitions of a topic that cannot grow, and what to do."""
    if topic.whole and topic.replicas:
        return (
            "partition 0 has no replicas, and Kafka gives new partitions as many as that one has",
            "give partition 0 replicas with kafka-reassign-partitions, or make a new topic",
        )
    found = f"found partition ids {some(topic.partition_ids) or 'none'}"
    return (
        f"{found}, wanted 0 to n-1: Kafka counts partitions, and would overwrite one that is there",
        "make a new topic with the partitions that are wanted, and move to it",
    )


def some(numbers: Sequence[int]) -> str:
    """Numbers as a list for a message: the first twenty, and whether there are more."""
    return ", ".join(map(str, numbers[:20])) + (", ..." if len(numbers) > 20 else "")


def _explicit_replicas(draft: Draft, topic: TopicState) -> None:
    """Explicit lists bind new partitions only; that existing ones differ is said, once for all."""
    wanted = draft.spec.assignment or ()
    other = [
        (partition, replicas)
        for partition, replicas in zip(topic.partition_ids, topic.replicas, strict=True)
        if partition < len(wanted) and wanted[partition] != replicas and partition not in topic.reassigning
    ]
    if other:
        first, actual = other[0]
        example = f"{first}: {list(actual)} instead of {list(wanted[first])}"
        message = f"{count(len(other), 'partition')} placed otherwise, as {example}"
        draft.notice(Reason.REPLICAS_DIFFER, message, ("replicaAssignment",))


def _replication_factor(draft: Draft, topic: TopicState) -> None:
    """Another replication factor needs a reassignment, which is not built."""
    wanted = draft.spec.replication_factor
    if wanted is None:
        return
    widths = set(map(len, topic.replicas)) - {0}  # a partition without replicas is a fault of its own
    if topic.reassigning:
        pairs = zip(topic.partition_ids, topic.replicas, strict=True)
        widths = {len(replicas) for partition, replicas in pairs if partition not in topic.reassigning} - {0}
    if widths <= {wanted}:
        return
    path = ("replicaAssignment",) if draft.spec.assignment is not None else ("replicationFactor",)
    found = " and ".join(map(str, sorted(widths)))
    if "replicationFactor" in draft.spec.ignore or path[0] in draft.spec.ignore:
        draft.notice(Reason.IGNORED, f"replicationFactor: {found} on the cluster, {wanted} in the manifest", path)
        return
    keep = f"set replicationFactor: {found}, or " if len(widths) == 1 else ""
    if keep and draft.spec.assignment is not None:
        keep = f"list {count(min(widths), 'broker')} for each partition, or "
    draft.refuse(
        Reason.REPLICATION_FACTOR_DIFFERS,
        f"replication factor {found} -> {wanted}: existing partitions are never moved",
        path,
        instead=f"{keep}reassign with kafka-reassign-partitions",
    )


def _config(draft: Draft, topic: TopicState) -> None:
    """Set what the spec has, remove what we set and it no longer has, leave the rest alone unless told otherwise."""
    spec, stored = draft.spec, topic.config
    # Most values are written as they stand: only the others are worth a look at what they mean.
    odd = [(key, text) for key, text in spec.config.items() if stored.get(key) != text]
    items = [_item(draft, topic, key, text) for key, text in odd if not _same(stored, key, text)]
    others = stored.keys() - spec.config.keys() - THROTTLES
    record = topic.valid_record
    ours = record.config if record else ()
    for key in sorted(others) if others else ():
        if key in ours or (spec.remove_unmanaged and configs.known(key, draft.context.release)):
            items.append(_item(draft, topic, key, None))
        else:
            draft.notice(Reason.UNMANAGED, f"{key} {stored[key]}: not in the manifest and not set by us: left alone")
    if items:
        _update(draft, topic, sorted(items))


def _same(stored: Mapping[str, str], key: str, text: str) -> bool:
    now = stored.get(key)
    return now is not None and configs.equal(key, now, text)


def _item(draft: Draft, topic: TopicState, key: str, after: str | None) -> ConfigItem:
    before = topic.config.get(key)
    verdict = of_config(key, before, after, draft.context.settings)
    return ConfigItem(key, before, after, verdict, key in draft.spec.inherited)


def _update(draft: Draft, topic: TopicState, items: Sequence[ConfigItem]) -> None:
    """One change of all keys that may be changed; each of the others is a refusal or a notice of its own."""
    wanted = []
    for item in items:
        if f"config.{item.key}" in draft.spec.ignore:
            found, meant = ("not set" if text is None else text for text in (item.before, item.after))
            message = f"{item.key}: {found} on the cluster, {meant} in the manifest"
            draft.notice(Reason.IGNORED, message, ("config", item.key))
        elif not _item_refused(draft, topic, item):
            wanted.append(item)
    if wanted and not _whole_refused(draft, topic, update := UpdateConfig(tuple(wanted))):
        draft.changes.append(update)


def _item_refused(draft: Draft, topic: TopicState, item: ConfigItem) -> bool:
    path, held = ("config", item.key), (UpdateConfig((item,)),)
    context = draft.context
    if topic.name in INTERNAL_TOPICS:
        message = f"{item.key}: Kafka's own topic, its config is left alone"
        draft.refuse(Reason.INTERNAL_TOPIC, message, path, instead=LEAVE_TO_KAFKA, held=held)
    elif item.key == "cleanup.policy" and context.protects(topic.name):
        message = "cleanup.policy: belongs to other software, which relies on it"
        instead = "ask its owner; Cluster.spec.protected lists the names"
        draft.refuse(Reason.PROTECTED_TOPIC, message, path, instead=instead, held=held)
    elif message := configs.forbidden_change(item.key, item.before, item.after, context.releases[0]):
        instead = f"set {item.key}: {item.before}, or create a new topic"
        draft.refuse(Reason.CONFIG_INVALID, f"{item.key}: {message}", path, instead=instead, held=held)
    elif item.before is None and (message := too_new(context, item.key)):
        draft.refuse(Reason.CONFIG_TOO_NEW, message, path, instead=DECLARE, held=held)
    elif item.after is not None and min_isr_above({item.key: item.after}, narrowest := narrowest_of(topic)):
        message = f"{item.key} {item.after}: the narrowest partition has {count(narrowest, 'replica')}"
        instead = "every write with acks=all would fail; ask for no more than there are"
        draft.refuse(Reason.MIN_ISR_ABOVE_REPLICAS, message, path, instead=instead, held=held)
    else:
        return False
    return True


def narrowest_of(topic: TopicState) -> int:
    """Replicas of the partition that has the fewest; 0 if there is no partition."""
    return min(map(len, topic.replicas), default=0)


def too_new(context: Context, key: str) -> str:
    """Why ``key`` may be unknown to a cluster whose release nobody declared; empty if it is not."""
    if context.cluster.release is not None or key not in configs.CONFIGS or configs.known(key, context.release):
        return ""
    since, seen = version(configs.CONFIGS[key].since), version(context.release)
    return f"{key}: Kafka knows it since {since}; of this cluster only {seen} or later is certain"


def _whole_refused(draft: Draft, topic: TopicState, update: UpdateConfig) -> bool:
    """Kafka validates the whole map, unmanaged keys included: so do we, as it would be written."""
    context = draft.context
    wrong = config_faults(config_after(topic.config, (update,)), context.cluster, context.releases, context.settings)
    if wrong:
        message = "the config as it would be written is invalid: " + "; ".join(fault.message for fault in wrong)
        instead = remedy(wrong, draft.spec.config)
        draft.refuse(Reason.CONFIG_INVALID, message, ("config",), instead=instead, held=(update,))
    return bool(wrong)


def config_after(config: Mapping[str, str], changes: Sequence[Change]) -> Mapping[str, str]:
    """The overrides once ``changes`` are done."""
    items = list(_items(changes))
    if not items:
        return config
    after = {**config, **{item.key: item.after for item in items if item.after is not None}}
    for item in items:
        if item.after is None:
            after.pop(item.key, None)
    return after


def _items(changes: Sequence[Change]) -> Iterator[ConfigItem]:
    for change in changes:
        if isinstance(change, UpdateConfig):
            yield from change.items


def record_after(owner: str, spec: TopicSpec, config: Mapping[str, str], before: TopicRecord | None) -> TopicRecord:
    """Our record beside a topic that then has the overrides ``config``; ``before`` is the valid record, if any.

    It lists the spec's keys that hold the spec's value, and what we set earlier and have not removed yet.
    """
    ours = {key for key, text in spec.config.items() if config.get(key) == text or _same(config, key, text)}
    if spec.ignore:
        ours -= {key for key in ours if f"config.{key}" in spec.ignore}
    if before:
        ours.update(key for key in before.config if key in config)
    keys = tuple(sorted(ours))
    if before and before.owner == owner and before.config == keys and not before.absent:
        return before
    return TopicRecord(owner, keys)
