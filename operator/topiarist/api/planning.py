"""Plans for a caller in Python: made from manifests, or parsed from the JSON that another task has passed on.

``reading`` has the inputs alone, ``applying`` carries plans out. The JSON of ``Plans.to_json`` is that of ``topiarist
plan --out``, to the byte.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from topiarist.adapters.saved_plans.decode import parse_plan_file
from topiarist.adapters.saved_plans.encode import dumps, encode_plans
from topiarist.errors import TopiaristError
from topiarist.model.plan import Plan
from topiarist.output.html import plan as html
from topiarist.output.markdown import plan as markdown
from topiarist.output.text import plan as text
from topiarist.output.text.layout import TextLayout
from topiarist.runs import inputs
from topiarist.runs.listener import SILENT, RunListener
from topiarist.runs.sessions import ClusterSessions
from topiarist.runs.settings import RunSettings, check_settings


class Plans(Struct, frozen=True):
    """The plans of a run, in order of the names of their clusters.

    ``errors`` has the error of each cluster that could not be planned, by name; an empty name stands for an error of
    several clusters. It is empty unless ``make_plans`` was told to keep going.
    """

    plans: tuple[Plan, ...]
    errors: Mapping[str, TopiaristError] = field(default_factory=dict)

    @property
    def has_changes(self) -> bool:
        """Return whether applying the plans would write anything."""
        return any(plan.has_changes for plan in self.plans)

    @property
    def has_refusals(self) -> bool:
        """Return whether anything was refused."""
        return any(plan.has_refusals for plan in self.plans)

    @property
    def fingerprint(self) -> str:
        """Return the SHA-256 of the plans, in hex; equal plans have equal fingerprints."""
        return str(encode_plans(self.plans)["fingerprint"])

    def to_json(self) -> str:
        """Return the content of a plan file: ASCII text for ``apply_plans``, ``parse_plans`` and ``apply --plan``."""
        return dumps(encode_plans(self.plans))

    def to_text(self) -> str:
        """Return the plans as ``topiarist plan`` prints them, in 80 columns, without color."""
        return text.format_plans(self.plans, TextLayout())

    def to_html(self, root: str) -> str:
        """Return the plans as one HTML page; file locations are relative to the folder ``root``."""
        return html.format_plans(self.plans, sorted(self.errors), root)

    def to_markdown(self, root: str) -> str:
        """Return the comment of a pull request; file locations are relative to the folder ``root``."""
        return markdown.format_plans(self.plans, sorted(self.errors), root)


def make_plans(settings: RunSettings, listener: RunListener = SILENT, *, keep_going: bool = False) -> Plans:
    """Plan the manifests of a run on their clusters, or on snapshots, without the changes that the run may not make.

    Policies are evaluated, and budgets and refusals count, as in ``topiarist plan``. Nothing is written.

    Raises ``InvalidManifests`` with every error of the manifests, or ``TopiaristError``. The error of one cluster is
    raised too, after all clusters were read; if ``keep_going``, it is in the result, with the plans of the others.
    """
    check_settings(settings, needs_paths=True)
    run = inputs.load_manifests(settings, listener)
    with ClusterSessions(run.desired.targeted_clusters, settings, listener, keep_open=False) as sessions:
        found = sessions.read_and_plan(run.desired, settings.run_options)
        plans = tuple(run.filter_plan(plan, settings) for plan in found)
    if sessions.failures and not keep_going:
        raise sessions.failures[0][1]
    return Plans(plans, dict(sessions.failures))


def parse_plans(content: str | bytes, name: str = "the plan") -> Plans:
    """Return the plans in JSON of ``Plans.to_json``; ``name`` is for messages.

    Raises ``TopiaristError``: ``NotAPlan``, ``PlanTooNew`` or ``PlanEdited``, also for a changed byte.
    """
    return Plans(parse_plan_file(to_bytes(content), name))


def to_bytes(content: str | bytes) -> bytes:
    """Return the content of a plan file as bytes; what is no ASCII text is no plan, and is refused as one."""
    return content.encode(errors="surrogatepass") if isinstance(content, str) else content
