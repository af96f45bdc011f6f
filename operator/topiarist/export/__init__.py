"""What a cluster holds, as manifests that a person would want to keep: read a state, get documents, plan finds nothing.

``names`` gives every topic a document name, ``topics`` decides what of a topic a manifest can say, ``defaults`` finds
what nearly all topics share. Pure: before this package stands an adapter that has read the cluster, after it one that
writes files. What is left out, and why, is a value beside the documents, never silence.
"""

from topiarist.export.documents import Exported, cluster_document, export
from topiarist.export.topics import LeftOut

__all__ = ["Exported", "LeftOut", "cluster_document", "export"]
