"""Consent of a Topic's owner: an annotation with the digest of the change that it allows.

``approval`` and ``reconciler`` compute the digests and check them. A consent counts once: when it has been used, a
digest of it is stored in ``status.clusters[].consent``, which is an input of every later digest. The same change later
has another digest, so an annotation that was not removed allows nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from topiarist.kubernetes.api.resources import Resource
from topiarist.model.plan import Change, DeleteTopic, Risk, TopicPlan, UpdateConfig
from topiarist.model.state import OwnershipRecord
from topiarist.output.change_details import describe_risk_reasons, list_field_changes
from topiarist.schema import load

ALLOW_RISK, RECREATE, TAKE_OWNERSHIP = "allow-risk", "recreate", "take-ownership"
"""Names of the consent annotations, without the prefix ``topiarist.dev/``."""

CONSENT_ANNOTATIONS = (ALLOW_RISK, RECREATE, TAKE_OWNERSHIP)

_DIGEST = re.compile(r"sha256:[0-9a-f]{16}")


def is_well_formed(value: str) -> bool:
    """Return whether an annotation's value is a comma-separated list of digests."""
    return all(_DIGEST.fullmatch(part) for part in _split_digests(value))


def risky_changes(plan: TopicPlan) -> Sequence[Change]:
    """Return the changes of a plan that need the owner's consent; deletions are not included."""
    return [
        change
        for change in plan.changes
        if change.assessment.risk is Risk.DATA_LOSS and not isinstance(change, DeleteTopic)
    ]


def risk_digest(resource: Resource, cluster: str, plan: TopicPlan, changes: Iterable[Change]) -> str:
    """Return the digest of changes that may lose data.

    It covers the topic, the fields, the old and new values, and the reasons.
    """
    identity = plan.before.identity if plan.before else None
    what = [[_change_fields(change), describe_risk_reasons(change, Risk.DATA_LOSS)] for change in changes]
    return _topic_digest(resource, cluster, [ALLOW_RISK, identity, what])


def recreation_digest(resource: Resource, cluster: str, record: OwnershipRecord | None) -> str:
    """Return the digest of the recreation of a topic that another client deleted."""
    return _topic_digest(resource, cluster, [RECREATE, record and [record.owner, record.config_keys]])


def ownership_digest(resource: Resource, cluster: str, record: OwnershipRecord | None) -> str:
    """Return the digest of taking ownership from the owner in ``record``."""
    return _topic_digest(resource, cluster, [TAKE_OWNERSHIP, record and record.owner])


def is_granted(resource: Resource, annotation: str, digest: str) -> bool:
    """Return whether an annotation of the Topic has this digest."""
    return digest in _split_digests(resource.annotation(annotation))


def current_consents_digest(resource: Resource) -> str:
    """Return one digest of all consent annotations of a Topic; empty if it has none."""
    found = [resource.annotation(annotation) for annotation in CONSENT_ANNOTATIONS]
    return _short_hash(json.dumps(found)) if any(found) else ""


def consent_command(resource: Resource, annotation: str, digest: str) -> str:
    """Return the ``kubectl annotate`` command that sets the consent, ready to copy."""
    return (
        f"kubectl annotate --overwrite --namespace={resource.namespace} topics.{load.API_GROUP} {resource.name} "
        f"{load.API_GROUP}/{annotation}={digest}"
    )


def _change_fields(change: Change) -> list[Any]:
    if isinstance(change, UpdateConfig):
        return [[item.key, item.before, item.after] for item in change.items]
    return [type(change).__name__, *list_field_changes([change])]


def _topic_digest(resource: Resource, cluster: str, what: Sequence[Any]) -> str:
    """Return the digest of ``what`` for one Topic on one cluster.

    The digest changes when a consent is used there.
    """
    before = resource.status_on(cluster).get("consent", "")
    return _short_hash(json.dumps([resource.uid, cluster, resource.topic_name, before, *what]))


def _short_hash(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _split_digests(value: str) -> list[str]:
    return [part.strip() for part in value.split(",")]
