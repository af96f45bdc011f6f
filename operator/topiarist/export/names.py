"""Names of documents for names of topics: DNS names, no two the same, also where a file system ignores case.

A name begins with that of the cluster: documents of several clusters can then be planned together.
Kafka allows what DNS does not (``_``, capitals, dots at the ends), so two topics may want one name. Then a topic whose
name is a DNS name already keeps it, and each of the others gets a few letters behind it that follow from its own name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from hashlib import sha256

LONGEST = 250
"""Characters: Kubernetes takes 253, and the name of a file 255 with ``.yaml``."""

_NAMELESS = "topic"


def document_names(topics: Iterable[str], cluster: str) -> dict[str, str]:
    """Return a name for the document of every topic of a cluster, by topic; the order of ``topics`` means nothing."""
    wanted = {topic: f"{cluster}.{dns_name(topic)}" for topic in sorted(topics)}
    rivals = Counter(wanted.values())
    names = {
        topic: name
        for topic, name in wanted.items()
        if len(name) <= LONGEST and (rivals[name] == 1 or name == f"{cluster}.{topic}")
    }
    taken = set(names.values())
    for topic, name in wanted.items():
        if topic not in names:
            names[topic] = _free(name, topic, taken)
            taken.add(names[topic])
    return names


def dns_name(topic: str) -> str:
    """The DNS name that is closest to a topic's: lower case, ``-`` for ``_``, no empty or badly ended part."""
    parts = (part.strip("-") for part in re.sub(r"[^a-z0-9.]", "-", topic.lower()).split("."))
    return ".".join(filter(None, parts)) or _NAMELESS


def _free(name: str, topic: str, taken: set[str]) -> str:
    """``name`` with so much of the topic's digest behind it that nobody has it yet."""
    digest = sha256(topic.encode()).hexdigest()
    found = (f"{name[: LONGEST - length - 1].rstrip('-.')}-{digest[:length]}" for length in range(6, len(digest)))
    return next(candidate for candidate in found if candidate not in taken)
