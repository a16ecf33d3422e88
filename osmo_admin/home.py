"""The home page: how full is the fleet, is anything wrong, where does my work stand, who waits, which quota is idle,
what changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import reverse

from pools.admin.base import actor_of
from pools.domain.list_columns import IDLE_COLUMNS, POOL_COLUMNS
from pools.domain.names import split_name
from pools.domain.people.roles import Actor, Permission, is_allowed
from pools.models import Pool
from pools.selectors.audit_trail import one_of_each_request
from pools.selectors.quotas import platform_totals, pool_tree
from pools.services.configuration.approvals import count_decidable
from scheduling.domain.list_columns import WAITING_COLUMNS, WORKFLOW_COLUMNS
from scheduling.selectors.receipts.preemptions import preemption_news
from scheduling.selectors.status.fleet import read_fleet
from scheduling.selectors.status.overview import read_overview
from scheduling.selectors.status.problems import Problem, ProblemCode
from scheduling.selectors.work.active_work import count_active_workflows

MAX_WAITING_SHOWN = 6
MAX_NEWS = 3
MAX_FINDINGS = 3
MAX_NAMED = 4
GROUP_WORDS = {
    ProblemCode.SILENT_CLUSTER: "{} clusters do not answer",
    ProblemCode.OFFLINE: "{} clusters are offline",
    ProblemCode.QUEUE_SYNC: "The queues of {} clusters differ from their quotas",
    ProblemCode.REFUSED_CALL: "{} clusters refuse calls that OSMO Admin needs",
    ProblemCode.LATE_JOB: "{} background jobs are late",
    ProblemCode.SUSPECT_NODE: "{} nodes are suspect: different work failed there within minutes",
    ProblemCode.DEGRADED: "{} clusters cannot hold the quotas of their pools now",
    ProblemCode.OVERSUBSCRIBED: "On {} clusters the quotas are more than the nodes have",
    ProblemCode.GPU_QUOTA: "{} namespaces are near or above their GPU quota",
    ProblemCode.LONG_DRAIN: "{} subpools drain for more than a day",
    ProblemCode.OVERDUE_DRAIN: "{} subpools drain beyond their deadline",
    ProblemCode.LONG_WAIT: "In {} pools work waits longer than usual",
    ProblemCode.IDLE_QUOTA: "On {} clusters quota is idle while work waits",
    ProblemCode.STUCK_GANG: "{} gangs wait although nothing may stop them",
    ProblemCode.OVERDUE_START: "{} gangs did not start by the time that was promised",
    ProblemCode.WRONG_PREVIEW: "{} previews of changes were wrong",
    ProblemCode.CONTRADICTED_START: "{} promised starts contradict their forecasts",
}
"""What several problems of one kind are together."""


@dataclass(frozen=True, slots=True)
class ProblemRow:
    """A problem with the address of its page, and the one of its action with the action's name; empty without one."""

    problem: Problem
    address: str
    action: str
    action_address: str

    @property
    def name(self) -> str:
        """The name of its object."""
        return self.problem.subject.partition("/")[2]


@dataclass(frozen=True, slots=True)
class HomeFinding:
    """The problems of one kind, as one row of the page."""

    rows: Sequence[ProblemRow]

    @property
    def first(self) -> ProblemRow:
        """Its only problem, or the first of several."""
        return self.rows[0]

    @property
    def words(self) -> str:
        """What several problems are together."""
        return GROUP_WORDS[self.first.problem.code].format(len(self.rows))

    @property
    def named(self) -> Sequence[ProblemRow]:
        """The first of several problems, which the row names."""
        return self.rows[:MAX_NAMED]

    @property
    def unnamed(self) -> int:
        """The number of the others."""
        return max(0, len(self.rows) - MAX_NAMED)


def home_page(site: AdminSite, request: HttpRequest) -> TemplateResponse:
    """The overview; the number of queries does not depend on the number of pools or workflows."""
    actor = actor_of(request)
    overview = read_overview(actor)
    totals = platform_totals.platform_totals(actor, overview.parts)
    visible = Pool.objects.visible_to(actor).roots().filter(archived=False)
    problems = [_problem_row(actor, each) for each in overview.problems]
    findings = group_problems(problems)
    approvals = count_decidable(actor)
    news, repeated = one_of_each_request(actor, overview.changes)
    request.current_app = site.name
    context = {
        **site.each_context(request),
        "title": "Home",
        "crumbs": (),
        "overview": overview,
        "news": news,
        "repeated": repeated,
        "sees_changes": actor.can_read_all or bool(actor.pools_with(Permission.POOL_AUDIT)),
        "approvals": approvals,
        "problems": problems,
        "to_check": approvals + len(problems),
        "findings": findings[:MAX_FINDINGS],
        "more_findings": findings[MAX_FINDINGS:],
        "preemptions": preemption_news(actor, limit=MAX_NEWS),
        "columns": WORKFLOW_COLUMNS,
        "idle_columns": IDLE_COLUMNS,
        "waiting_columns": WAITING_COLUMNS,
        "waiting": overview.waiting[:MAX_WAITING_SHOWN],
        "more_waiting": len(overview.waiting) - MAX_WAITING_SHOWN,
        "totals": totals,
        "fleet": read_fleet(actor, totals, overview.flavors, overview.parts),
        "work": count_active_workflows(actor),
        "pool_columns": POOL_COLUMNS,
        "own_pools": () if actor.can_read_all else pool_tree.pool_trees(visible).trees,
        "may_submit": actor.is_admin or bool(actor.pools_with(Permission.POOL_SUBMIT)),
        "may_configure": is_allowed(actor, Permission.POOL_CONFIGURE),
        "has_no_pool": not actor.can_read_all and not totals.pools,
        "is_empty": is_allowed(actor, Permission.PLATFORM_WRITE) and not totals.pools,
        "username": actor.username,
        "actor_reads_all": actor.can_read_all,
    }
    return TemplateResponse(request, "osmo/home.html", context)


def group_problems(rows: Sequence[ProblemRow]) -> list[HomeFinding]:
    """One finding for each kind of problem, in the order of their first problems."""
    kinds: dict[tuple[ProblemCode, bool], list[ProblemRow]] = {}
    for row in rows:
        kinds.setdefault((row.problem.code, row.problem.is_urgent), []).append(row)
    return [HomeFinding(each) for each in kinds.values()]


def _problem_row(actor: Actor, problem: Problem) -> ProblemRow:
    """The pages of a problem. Pages of clusters and jobs open only for platform readers."""
    kind, _, name = problem.subject.partition("/")
    reads_platform = is_allowed(actor, Permission.PLATFORM_READ)
    if kind == "job":
        return ProblemRow(problem, reverse("admin:django_celery_beat_periodictask_changelist"), "", "")
    if kind == "gpu_quota":
        page = reverse("admin:pools_gpuquota_change", args=[name])
        may_write = is_allowed(actor, Permission.PLATFORM_WRITE)
        change = reverse("admin:pools_gpuquota_configure", args=[name]) if may_write else ""
        return ProblemRow(problem, page, "Change the caps" if change else "", change)
    if kind == "backend":
        page = reverse("admin:pools_backend_change", args=[name]) if reads_platform else ""
        if problem.code in (ProblemCode.OVERSUBSCRIBED, ProblemCode.DEGRADED):
            return ProblemRow(problem, page, "See its pools", _pools_of(name))
        if problem.code == ProblemCode.WRONG_PREVIEW:
            both = f"{reverse('admin:scheduling_showneffect_changelist')}?outcome=broken"
            return ProblemRow(problem, both, "See what came", both)
        if problem.code == ProblemCode.IDLE_QUOTA:
            return ProblemRow(problem, "#idle-title", "Compare its pools", _pools_of(name))
        causes = (ProblemCode.SILENT_CLUSTER, ProblemCode.REFUSED_CALL)
        if problem.code in (ProblemCode.QUEUE_SYNC, *causes) and reads_platform:
            sync = reverse("admin:scheduling_queuesync_change", args=[name])
            return ProblemRow(
                problem, sync, "See the cause" if problem.code in causes else "Compare and re-apply", sync
            )
        return ProblemRow(problem, page, "", "")
    if kind == "node":
        page = reverse("admin:pools_node_page", args=name.split("/", 1))
        return ProblemRow(problem, page, "See the node", page)
    if kind == "workflow":
        page = reverse("admin:scheduling_workflow_change", args=[name])
        return ProblemRow(problem, page, "See why it waits", page)
    return _pool_problem_row(problem, name)


def _pool_problem_row(problem: Problem, name: str) -> ProblemRow:
    root = split_name(name).parent
    page = reverse("admin:pools_pool_change", args=[root])
    if problem.code == ProblemCode.LONG_WAIT:
        return ProblemRow(problem, page, "See the queue", reverse("admin:scheduling_workflow_queue", args=[root]))
    work = f"{reverse('admin:scheduling_workflow_changelist')}?pool={name}&status=active"
    return ProblemRow(problem, page, "See the work that holds it", work)


def _pools_of(backend: str) -> str:
    return f"{reverse('admin:pools_pool_changelist')}?backend={backend}"
