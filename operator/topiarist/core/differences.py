"""What differs between an existing topic and its spec, field by field: size, replicas, config, record.

``plan`` decides whether a topic may be touched at all; this module finds what there would be to do. Each function
looks at one field and adds to a ``Draft``: a change, a refusal, or a notice (for fields in ``ignore``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from topiarist.core import configs, sizes
from topiarist.core.change import AddPartitions, Change, ConfigItem, UpdateConfig
from topiarist.core.draft import LEAVE_TO_KAFKA, Draft
from topiarist.core.names import INTERNAL_TOPICS
from topiarist.core.risk import of_config, rejudged
from topiarist.core.rules import DECLARE, config_faults, min_isr_above, remedy, too_new
from topiarist.core.spec import TopicSpec
from topiarist.core.state import TopicRecord, TopicState
from topiarist.core.units import count
from topiarist.core.witness import applied_after
from topiarist.errors import Reason

THROTTLES = frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"})
"""Set and removed by Kafka's own reassignments: never ours unless a spec names them."""


def find(draft: Draft, topic: TopicState) -> None:
    """Everything that differs between ``topic`` and the draft's spec, record aside."""
    sizes.find(draft, topic)
    _config(draft, topic)
    if len(draft.changes) > 1:  # what growth may cost depends on what the config will be
        after = config_after(topic.config, draft.changes)
        draft.changes = [rejudged(change, topic.config, after, draft.context.settings) for change in draft.changes]


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
    elif item.before is None and (message := too_new(context.cluster, item.key, context.state.release_at_least)):
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


def record_after(
    owner: str, spec: TopicSpec, config: Mapping[str, str], partitions: int, before: TopicRecord | None
) -> TopicRecord:
    """Our record beside a topic that then has the overrides ``config`` and so many ``partitions``; ``before`` is the
    valid record, if any.

    It lists the spec's keys that hold the spec's value, and what we set earlier and have not removed yet, or others
    have and the spec still asks for.
    """
    met = {key for key, text in spec.config.items() if config.get(key) == text or _same(config, key, text)}
    if spec.ignore:
        met -= {key for key in met if f"config.{key}" in spec.ignore}
    kept = (key for key in before.config if key in config or key in spec.config) if before else ()
    keys = tuple(sorted(met.union(kept)))
    applied = applied_after(spec, met, keys, partitions, before.applied if before else None)
    after = TopicRecord(owner, keys, applied=applied)
    return before if before == after else after


def partitions_after(before: int, changes: Sequence[Change]) -> int:
    """Partitions of an existing topic once ``changes`` are done."""
    return before + sum(len(change.replicas) for change in changes if isinstance(change, AddPartitions))
