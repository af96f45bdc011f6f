"""The Python interface: load manifests, read clusters, plan, apply, with the guards of the commands.

A run is described by ``RunSettings``, which has the options of ``topiarist apply`` under the same names. Every function
uses ``topiarist.runs``, as the command line does. Nothing here prints, logs, reads the environment, handles signals or
ends the process; every error is a ``TopiaristError`` with a reason, a message and a hint. docs/python.md has examples.

Only the names in ``__all__`` are public. They keep their meaning as long as ``PLAN_FORMAT_VERSION`` is the same.
"""

from topiarist.adapters.saved_plans.encode import FORMAT_VERSION as PLAN_FORMAT_VERSION
from topiarist.api.functions import (
    ApplyResult,
    ClusterStates,
    Manifests,
    Plans,
    apply_manifests,
    apply_plans,
    approve_risk,
    load_manifests,
    make_plans,
    parse_plans,
    read_clusters,
)
from topiarist.errors import Diagnostic, Exit, InvalidManifests, Location, Reason, TopiaristError
from topiarist.kafka.types import Broker
from topiarist.model.moves import LeaderChange, ReplicaMove
from topiarist.model.outcome import Outcome, ReconcileReport, Result
from topiarist.model.plan import (
    AddPartitions,
    ConfigItem,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    Issue,
    MoveReplicas,
    Plan,
    RiskAssessment,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
)
from topiarist.model.run_options import Risk, RiskApproval
from topiarist.model.state import ClusterState, OwnershipRecord, TopicState
from topiarist.runs.settings import RunListener, RunSettings

__all__ = [
    "PLAN_FORMAT_VERSION",
    "AddPartitions",
    "ApplyResult",
    "Broker",
    "ClusterState",
    "ClusterStates",
    "ConfigItem",
    "CreateTopic",
    "DeleteTopic",
    "Diagnostic",
    "ElectLeaders",
    "Exit",
    "InvalidManifests",
    "Issue",
    "LeaderChange",
    "Location",
    "Manifests",
    "MoveReplicas",
    "Outcome",
    "OwnershipRecord",
    "Plan",
    "Plans",
    "Reason",
    "ReconcileReport",
    "ReplicaMove",
    "Result",
    "Risk",
    "RiskApproval",
    "RiskAssessment",
    "RunListener",
    "RunSettings",
    "TakeOwnership",
    "TopiaristError",
    "TopicPlan",
    "TopicState",
    "UpdateConfig",
    "apply_manifests",
    "apply_plans",
    "approve_risk",
    "load_manifests",
    "make_plans",
    "parse_plans",
    "read_clusters",
]
