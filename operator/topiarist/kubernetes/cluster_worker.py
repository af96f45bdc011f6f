"""The worker of one cluster: collects the inputs of a reconciliation, also its policies, and runs it in a thread.

``manager`` calls ``ClusterWorker.reconcile``, which calls ``reconciler``; the reconciler knows nothing of the
Kubernetes API. The worker reads the ``Store`` in the event loop, and the Kafka cluster in a thread.

``ClusterSession`` keeps one session open per cluster. It opens a new session when the address or the secrets
have changed, or after an error. Secrets come from the API server, only those that a Cluster names. They are stored in
files of mode 0600, because the TLS library reads files only, in a folder that is removed with the process.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeVar

from msgspec.structs import replace

from topiarist.adapters.open_cluster import open_cluster, open_usage_reader
from topiarist.desired.resolve import Desired
from topiarist.errors import Diagnostic, Reason, TopiaristError
from topiarist.filters.chain import PlanFilter, filter_changes, keep_all
from topiarist.filters.limits import LimitFilter
from topiarist.filters.policies import EvaluationErrors, PolicyEvaluator
from topiarist.kubernetes import client, resources
from topiarist.kubernetes.cache import Candidate, Store, find_holders, select_candidates
from topiarist.kubernetes.client import ApiError, KubernetesClient
from topiarist.kubernetes.identity import ClusterIdentities, known_records_id
from topiarist.kubernetes.moves import MoveTracker
from topiarist.kubernetes.reconciler import PlanCache, ReconcileRequest, ReconcileResult, reconcile_cluster
from topiarist.kubernetes.resources import TopicOperators, judge
from topiarist.model.access import Access, KafkaAccess, SecretKeyRef, SecretReference, Via, map_references
from topiarist.model.plan import Issue, Plan, TopicPlan
from topiarist.model.policy import Policy, Rule, RuleError
from topiarist.model.spec import ClusterSpec, TopicSource
from topiarist.ports import OpenCluster, RuleEvaluator, UsageReader
from topiarist.schema import load
from topiarist.throttle import ControllerThrottle

# The policies of the operator: compiled once, and applied as a filter in each reconciliation.
#
# ``cluster_worker`` calls ``build_filter``; ``manager`` calls ``check_rules`` for the statuses of Policies. Errors in
# policies never bypass them. A rule that cannot be evaluated withholds the changes of the topics that its Policy
# selects, or of the one topic for which the evaluation fails. A rule that only warns withholds nothing. A Policy that
# cannot be read withholds every change, because its selector is unknown.

_HINT_FIX_POLICY = "correct or delete the Policy: until then, changes that it might deny are withheld"


def build_limits(policies: Sequence[Policy], spec: ClusterSpec, found: Sequence[Candidate]) -> LimitFilter:
    """Return the limits of one reconciliation; topics that are refused for now count too."""
    return LimitFilter(policies, Desired({spec.name: tuple(each.spec for each in found)}, {spec.name: spec}))


class PolicyCache:
    """A cache of compiled policy rules that builds the policy filter of each reconciliation.

    ``rule_errors`` has the rule errors of the last reconciliation by cluster.
    """

    def __init__(self) -> None:
        self.rule_errors: dict[str, Sequence[str]] = {}
        self._evaluator: tuple[Sequence[Policy], RuleEvaluator] | None = None

    def build_filter(
        self, policies: Sequence[Policy], unreadable: Sequence[str], spec: ClusterSpec, found: Sequence[Candidate]
    ) -> PlanFilter:
        """Return the policy filter of one reconciliation.

        ``unreadable`` names the Policies that cannot be read. ``found`` are the candidates of the cluster.
        """
        rule_filter = self._build_rule_filter(policies, spec, found)
        if not unreadable:
            return rule_filter
        hint = "correct or delete the Policy: until then nothing is changed"
        issue = Issue(Reason.INVALID_MANIFEST, f"Policy {unreadable[0]} cannot be read", hint=hint)
        return lambda plan: filter_changes(plan, lambda topic, change: issue)

    def check_rules(self, policies: Sequence[Policy]) -> Sequence[str]:
        """Return the errors in the rules of all policies, including those that apply to no Cluster."""
        rules = self._compile_rules(policies)
        return _format_diagnostics(PolicyEvaluator(policies, resources.manifest_annotations, rules).errors())

    def _compile_rules(self, policies: Sequence[Policy]) -> RuleEvaluator:
        known = self._evaluator  # read once: other threads may replace it
        if known is None or known[0] != policies:
            # The CEL library takes 40 ms to load: an operator without policies does without it.
            from topiarist.adapters import cel

            self._evaluator = known = (
                policies,
                cel.CelRuleEvaluator(rule for policy in policies for rule in policy.rules),
            )
        return known[1]

    def _build_rule_filter(
        self, policies: Sequence[Policy], spec: ClusterSpec, found: Sequence[Candidate]
    ) -> PlanFilter:
        if not policies:
            self.rule_errors.pop(spec.name, None)
            return keep_all
        rules = self._compile_rules(policies)
        evaluator = PolicyEvaluator(policies, resources.manifest_annotations, rules)
        specs = tuple(each.spec for each in found if not each.refusals)
        evaluator.evaluate(Desired({spec.name: specs}, {spec.name: spec}))
        of_cluster = [policy for policy in policies if policy.applies_to_cluster(spec)]
        self._record_errors(spec, evaluator.errors())

        def filter_plan(plan: Plan) -> Plan:
            left, late = evaluator.evaluate_plan(plan)
            # Record again: evaluation, or another thread that shares the rules, may have disabled a rule meanwhile.
            self._record_errors(spec, [*evaluator.errors(), *late.errors()])
            errors = evaluator.evaluation_errors, late
            return filter_changes(left, lambda topic, _: _failed_rule_issue(topic, of_cluster, rules, errors))

        return filter_plan

    def _record_errors(self, spec: ClusterSpec, found: Iterable[Diagnostic]) -> None:
        self.rule_errors[spec.name] = broken = _format_diagnostics(found)
        if broken:
            self._evaluator = None  # compile again next time: this evaluator skips the rules that it has disabled


def _failed_rule_issue(
    topic: TopicPlan, policies: Sequence[Policy], rules: RuleEvaluator, errors: Sequence[EvaluationErrors]
) -> Issue | None:
    """Return a refusal for a topic with a deny rule that cannot be evaluated; None if there is no such rule."""
    for rule, error in _failed_rules(topic, policies, rules, errors):
        if rule.deny:
            why = f"{rule.title}: cannot be evaluated: {error.message}"
            return Issue(Reason.POLICY_DENIED, why, hint=_HINT_FIX_POLICY)
    return None


def _failed_rules(
    topic: TopicPlan, policies: Sequence[Policy], rules: RuleEvaluator, errors: Sequence[EvaluationErrors]
) -> Iterator[tuple[Rule, RuleError]]:
    for policy in policies:
        if topic.spec is None or policy.applies_to_topic(topic.spec):
            yield from ((rule, rules.rule_errors[rule]) for rule in policy.rules if rule in rules.rule_errors)
    for found in errors:
        yield from found.for_topic(topic.topic)


def errors_of_policy(name: str, errors: Iterable[str]) -> list[str]:
    """Return the ``errors`` that are about rules of this Policy."""
    return [fault for fault in errors if fault.startswith(f"policy {name}, ")]


def _format_diagnostics(diagnostics: Iterable[Diagnostic]) -> list[str]:
    return [f"{fault.message}: {fault.hint}" if fault.hint else fault.message for fault in diagnostics]


NAMESPACE_TERMINATING = "its namespace is being deleted, and this must not delete topics"

CRD_TERMINATING = "the CRD of its kind is being deleted, and this must not delete topics"

TOPIC_READ_TIMEOUT_S = 10.0
"""Seconds to wait for a Topic directly before a change that cannot be undone."""

T = TypeVar("T")

log = logging.getLogger(__name__)


class KafkaTopicSource(Protocol):
    """Facts about KafkaTopics that the resources themselves do not have."""

    def problem(self) -> TopiaristError | None:
        """Return why not all KafkaTopics are known; None if they are."""

    async def operators(self) -> TopicOperators:
        """Return Strimzi's topic operators that are declared. Raises ``ApiError``."""


class ClusterWorker:
    """A worker that reconciles one cluster; ``stop`` returns True to end a reconciliation early."""

    def __init__(
        self,
        api: KubernetesClient,
        policy_cache: PolicyCache,
        session: ClusterSession,
        stop: Callable[[], bool],
        identities: ClusterIdentities,
        kafka_topics: KafkaTopicSource,
    ) -> None:
        self._api = api
        self._kafka_topics = kafka_topics
        self._identities = identities
        self._policy_cache = policy_cache
        self._session = session
        self._stop = stop
        self._plan_cache = PlanCache()
        self._holders: set[str] = set()
        self._move_tracker = MoveTracker()
        self._reported_requests: Counter[tuple[str, str]] = Counter()
        self._executor = ThreadPoolExecutor(1, "cluster")  # own thread: other clusters may block theirs for long

    async def reconcile(self, store: Store, home: resources.Resource, owner: str) -> ReconcileResult:
        """Reconcile the cluster of the Cluster resource ``home`` as ``owner``.

        Errors of the API server and a Cluster that cannot be read are returned as the ``error`` of the result.
        """
        spec = store.cluster_spec(home.name)
        if spec is None:
            await self._run_in_thread(self._session.close)
            return ReconcileResult([], error=TopiaristError(Reason.INVALID_MANIFEST, "the Cluster cannot be read"))
        if TopicSource.KAFKA_TOPIC in spec.sources and (problem := self._kafka_topics.problem()):
            return ReconcileResult([], error=problem)
        unranked, unreadable = store.candidates(home.name), store.unreadable_topics(home.name)
        policies, labels = store.parsed_policies(), dict(store.namespaces)
        broken_policies = sorted(name for name, found in store.policies.items() if found.manifest is None)
        try:
            secrets = await self._read_secrets(
                home.namespace, {key.name for key in secret_keys(spec.access) | secret_keys(spec.kafka)}
            )
            blocked = {**self._shared_topics(home), **await self._blocked_deletions(store, unranked)}
            unranked = await self._judge_kafka_topics(store, home.name, unranked)
        except ApiError as error:
            return ReconcileResult([], error=TopiaristError(error.reason, str(error)))

        loop = asyncio.get_running_loop()
        cluster_id = ""

        def work() -> ReconcileResult:
            candidates = select_candidates(spec, home.namespace, unranked, labels, unreadable, self._holders)
            self._holders = find_holders(candidates, unreadable, self._holders)
            cluster = self._session.cluster(spec, secrets, known_records_id(home))
            throttle = ControllerThrottle(cluster, self._stop)
            request = ReconcileRequest(
                home,
                spec,
                candidates,
                owner,
                unreadable_topics=frozenset(topic.topic_name for topic in unreadable),
                claimed_id=cluster_id,
                blocked_deletions=blocked,
                policy_filter=self._policy_cache.build_filter(policies, broken_policies, spec, candidates),
                limits=build_limits(policies, spec, candidates),
                open_usage_reader=lambda: self._session.open_usage_reader(spec, secrets),
                plan_cache=self._plan_cache,
                move_tracker=self._move_tracker,
                read_topic=lambda resource: self._read_topic(resource, loop),
            )
            return reconcile_cluster(cluster, request, lambda: self._stop() or throttle.is_throttled_too_long, throttle)

        try:
            cluster_id = await self._run_in_thread(lambda: self._open_session(spec, secrets, home))
            await self._identities.claim(home, cluster_id)
            result = await self._run_in_thread(work)
            result = await self._bind_records(home, result)
        except TopiaristError as error:
            refused = cluster_id if error.reason is Reason.CLUSTER_CONFLICT else ""
            result = ReconcileResult([], error=error, cluster_id=refused)
        finally:
            self._identities.release(home)
        result = result._replace(notices=self._session.take_notices())
        for notice in result.notices:
            log.warning("the topic of records: %s", notice, extra={"cluster": home.name})
        if result.error is not None:
            await self._run_in_thread(self._session.close)
            log.warning("a reconciliation has ended early", extra={"cluster": home.name, "error": str(result.error)})
        return result

    async def _judge_kafka_topics(self, store: Store, name: str, candidates: list[Candidate]) -> list[Candidate]:
        """Return the candidates with a refusal for each KafkaTopic that another operator may have."""
        found = store.kafka_topics(name)
        verdicts = judge(found, await self._kafka_topics.operators(), client.utc_now()) if found else {}
        store.verdicts[name] = verdicts
        issues = {key: each.issue for key, each in verdicts.items() if each.issue}
        return [
            each._replace(refusals=(*each.refusals, issue)) if (issue := issues.get(each.resource.key)) else each
            for each in candidates
        ]

    async def _bind_records(self, home: resources.Resource, result: ReconcileResult) -> ReconcileResult:
        """Store the id of the topic of records that a pass has seen; an error ends a pass that had none."""
        try:
            await self._identities.bind_records(home, result.state.records_topic_id if result.state else "")
        except TopiaristError as error:
            return result._replace(error=result.error or error)
        return result

    async def close(self) -> None:
        """Close the session and the thread; call it after the last reconciliation."""
        await self._run_in_thread(self._session.close)
        self._executor.shutdown()

    def new_requests(self) -> Mapping[tuple[str, str], int]:
        """Return the number of requests to the cluster since the last call, by operation and result."""
        now = Counter(self._session.requests())
        new, self._reported_requests = now - self._reported_requests, now
        return new

    async def _run_in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def _open_session(self, spec: ClusterSpec, secrets: SecretValues, home: resources.Resource) -> str:
        """Open the session in the worker's thread if none is open; return the id of its Kafka cluster."""
        self._session.cluster(spec, secrets, known_records_id(home))
        return self._session.cluster_id

    def _shared_topics(self, home: resources.Resource) -> Mapping[str, str]:
        """Return the topics that a Topic of another Cluster with this Kafka cluster declares, each with the reason."""
        return {
            topic: f"{who}, which has the same Kafka cluster, declares it too"
            for topic, who in self._identities.declared_by_others(home).items()
        }

    def _read_topic(self, resource: resources.Resource, loop: asyncio.AbstractEventLoop) -> resources.Resource | None:
        """Return the present Topic of this name, None if there is none; called in the worker's thread.

        The request is a list, which the operator may make anyway. Without a resource version the API server answers it
        with the newest state, not from a cache that may lag. Raises ``TopiaristError`` without an answer.
        """
        path = resources.collection_path(resource.kind, resource.namespace, resource.api_version)
        request = asyncio.run_coroutine_threadsafe(
            self._api.get(path, fieldSelector=f"metadata.name={resource.name}"), loop
        )
        try:
            bodies = request.result(TOPIC_READ_TIMEOUT_S)["items"]
        except (ApiError, TimeoutError) as error:
            request.cancel()
            raise TopiaristError(Reason.UNREACHABLE, f"the API server: {str(error) or 'no answer in time'}") from error
        return (
            resources.parse_item(resource.kind, bodies[0], resource, api_version=resource.api_version)
            if bodies
            else None
        )

    async def _read_secrets(self, namespace: str, names: Iterable[str]) -> SecretValues:
        """Return the content of the Secrets ``names``, without those that do not exist."""
        found = {}
        for name in sorted(names):
            try:
                data = (await self._api.get(f"/api/v1/namespaces/{namespace}/secrets/{name}")).get("data", {})
            except ApiError as error:
                if not error.not_found:
                    raise
                continue
            found.update({SecretKeyRef(name, key): text for key, text in data.items()})
        return found

    async def _blocked_deletions(self, store: Store, candidates: Iterable[Candidate]) -> Mapping[str, str]:
        """Return the topics that must not be deleted, each with the reason.

        These are the topics of resources that are being deleted together with their namespace, or with the definition
        of their kind.
        """
        leaving = [each for each in candidates if each.resource.deleting]
        kinds = {
            kind: await self._is_terminating(resources.definition_path(kind))
            for kind in {each.resource.kind for each in leaving}
        }
        held = {each.spec.topic: CRD_TERMINATING for each in leaving if kinds[each.resource.kind]}
        leaving = [each for each in leaving if not kinds[each.resource.kind]]
        is_terminating = {
            namespace: namespace in store.terminating_namespaces
            or await self._is_terminating(f"/api/v1/namespaces/{namespace}")
            for namespace in {each.resource.namespace for each in leaving}
        }
        return held | {
            each.spec.topic: NAMESPACE_TERMINATING for each in leaving if is_terminating[each.resource.namespace]
        }

    async def _is_terminating(self, path: str) -> bool:
        try:
            return "deletionTimestamp" in (await self._api.get(path))["metadata"]
        except ApiError as error:
            if error.not_found:
                return True
            raise


SecretValues = Mapping[SecretKeyRef, str]
"""Values of the Secrets that a Cluster names, in base64 as the API server returns them."""

CONNECT_TIMEOUT_S, LOCK_TIMEOUT_S = 10.0, 30.0


class ClusterSession:
    """A session with one cluster. Every method blocks: call it in a thread, one at a time.

    ``cluster_id`` is the id of the Kafka cluster when the session was opened.
    """

    def __init__(self, owner: str, folder: Path) -> None:
        self._owner = owner
        self._folder = folder
        self._open: OpenCluster | None = None
        self.cluster_id = ""
        self._opened_for: tuple[object, ...] = ()
        self._requests: Counter[tuple[str, str]] = Counter()
        self._notices: list[str] = []

    def cluster(self, spec: ClusterSpec, secrets: SecretValues, records_topic_id: str = "") -> OpenCluster:
        """Return the open session, or open one if the connection settings or secrets have changed.

        ``records_topic_id`` is the id of the topic of records that an earlier session has seen, if any. Raises
        ``TopiaristError`` if the session cannot be opened.
        """
        wanted = (spec.access, tuple(sorted(secrets.items())))
        if self._open is None or wanted != self._opened_for:
            self.close()
            opened = open_cluster(
                _with_records_id(write_secret_files(spec, secrets, self._folder), records_topic_id),
                owner=self._owner,
                connect_timeout=CONNECT_TIMEOUT_S,
                lock_timeout=LOCK_TIMEOUT_S,
                on_notice=self._notices.append,
            ).enable_decode_cache()
            self._open, self._opened_for = opened, ()  # closed after an error of the read
            self.cluster_id = opened.read_cluster_id()
            self._opened_for = wanted
        return self._open

    def open_usage_reader(self, spec: ClusterSpec, secrets: SecretValues) -> UsageReader | None:
        """Open a session that reads the usage of topics; None if the Cluster has no address of its brokers.

        A Cluster that is reached through ZooKeeper names the secrets of both ways.
        """
        if spec.kafka is None:
            return None
        with_files = write_secret_files(replace(spec, via=Via.KAFKA), secrets, self._folder)
        return open_usage_reader(with_files, connect_timeout=CONNECT_TIMEOUT_S)

    def close(self) -> None:
        """Close the session, if one is open."""
        if self._open is not None:
            self._requests.update(self._open.requests)
            self._open.close()
            self._open = None

    def take_notices(self) -> Sequence[str]:
        """Return what the topic of records has otherwise than wanted, each once: directly after it was made."""
        taken, self._notices[:] = tuple(self._notices), []
        return taken

    def requests(self) -> Counter[tuple[str, str]]:
        """Return the number of requests to the cluster so far, by operation and result."""
        return self._requests + Counter(self._open.requests if self._open else {})


def secret_keys(access: Access | None) -> frozenset[SecretKeyRef]:
    """Return the keys of Secrets that an access names."""
    keys = set[SecretKeyRef]()

    def add_key(reference: SecretReference) -> SecretReference:
        if reference.secret:
            keys.add(reference.secret)
        return reference

    map_references(access, add_key)
    return frozenset(keys)


def _with_records_id(spec: ClusterSpec, topic_id: str) -> ClusterSpec:
    access = spec.access
    if not isinstance(access, KafkaAccess) or access.records is None:
        return spec
    return replace(spec, kafka=replace(access, records=access.records._replace(known_id=topic_id)))


def write_secret_files(spec: ClusterSpec, secrets: SecretValues, folder: Path) -> ClusterSpec:
    """Write the secrets of the access to files and return the spec with references to these files.

    Raises ``CredentialsInvalid`` for a Secret key that does not exist, and for a reference to anything but a Secret.
    """

    def write(reference: SecretReference) -> SecretReference:
        return _write_secret_file(reference, secrets, folder)

    field = "kafka" if isinstance(spec.access, KafkaAccess) else "zookeeper"
    return replace(spec, **{field: map_references(spec.access, write)})


def _write_secret_file(reference: SecretReference, secrets: SecretValues, folder: Path) -> SecretReference:
    key = reference.secret
    if key is None and re.fullmatch(load.TOKEN_FILE, reference.file):
        return reference  # mounted for the brokers, and read again at each login
    if key is None:
        # The schema of resources refuses this already. Check again: every secret of a session passes through here.
        source = "file" if reference.file else "command" if reference.command else "environment variable"
        raise TopiaristError(
            Reason.CREDENTIALS_INVALID,
            f"{reference.location}: the operator reads no {source} that a Cluster names",
            "put the value into a Secret of the operator's namespace and name it by secretKeyRef",
        )
    if key not in secrets:
        raise TopiaristError(
            Reason.CREDENTIALS_INVALID,
            f"{reference.location}: there is no key {key.key} in a Secret {key.name} of the operator's namespace",
            "create it; the operator needs permission to get this Secret",
        )
    path = folder / hashlib.sha256(f"{key.name}/{key.key}".encode()).hexdigest()[:16]
    fresh = path.with_name(f"{path.name}-{threading.get_ident()}")  # another cluster may be reading the old file
    fresh.touch(0o600)
    fresh.write_bytes(base64.b64decode(secrets[key]))
    fresh.replace(path)
    return replace(reference, file=str(path))
