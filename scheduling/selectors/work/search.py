"""Search by the beginning of a name: pools, subpools, workflows, users, nodes, GPU quota
namespaces, the person's own saved views, and what the person may do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from django.db.models import Q, QuerySet
from django.db.models.functions import Collate

from pools.domain.people.roles import Actor, Permission, is_allowed
from pools.models import GpuQuota, Node, Pool, User
from pools.permissions import namespaces_for
from pools.selectors.saved_views import list_views
from scheduling.models import Workflow

MAX_SEARCH_TEXT = 100


class SearchKind(StrEnum):
    """What was found."""

    POOL = "pool"
    SUBPOOL = "subpool"
    WORKFLOW = "workflow"
    USER = "user"
    NODE = "node"
    NAMESPACE = "namespace"
    VIEW = "view"
    ACTION = "action"


class SearchAction(StrEnum):
    """What a person may begin from the search, in the words of its page."""

    SUBMIT = "Submit a workflow"
    CREATE_POOL = "Create a pool"
    IMPORT_QUOTAS = "Import quotas of subpools"
    CREATE_COHORT = "Create a cohort"
    LIMIT_NAMESPACE = "Limit a namespace (GPU quota)"
    CREATE_USER = "Create a user"
    CREATE_TOKEN = "Create an access token"  # noqa: S105  # the title of a page
    CREATE_CLUSTER = "Create a simulated cluster"
    CONNECT_CLUSTER = "Connect a Kubernetes cluster"


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One object. `detail` tells objects with similar names apart; `place` is the pool of a subpool, the backend of a
    node or the list of a saved view, and `filters` the query of a saved view."""

    kind: SearchKind
    name: str
    detail: str
    place: str = ""
    filters: str = ""


def search(actor: Actor, text: str, *, limit: int) -> list[SearchHit]:
    """At most `limit` objects of each kind that `actor` may see, whose names begin with `text`; of a subpool also its
    name within the pool, of an action any of its words. An equal name comes first. At most six queries, each on an
    index of names or on a small table."""
    text = text.strip()[:MAX_SEARCH_TEXT]
    if not text:
        return []
    hits = [
        hit
        for found in (
            _find_actions(actor, text.lower()),
            _find_pools(actor, text.lower(), limit),
            _find_workflows(actor, text.lower(), limit),
            _find_users(actor, text, limit),
            _find_nodes(actor, text.lower(), limit),
            _find_namespaces(actor, text.lower(), limit),
            _find_views(actor, text.lower(), limit),
        )
        for hit in found
    ]
    return sorted(hits, key=lambda hit: hit.name != text)


def _find_actions(actor: Actor, text: str) -> Iterator[SearchHit]:
    """The actions with a word that begins with the text, or that begin with it as a whole."""
    for action in SearchAction:
        name = action.lower()
        if f" {text}" in f" {name}" and _may_begin(actor, action):
            yield SearchHit(SearchKind.ACTION, str(action), "action")


def _may_begin(actor: Actor, action: SearchAction) -> bool:
    if action is SearchAction.CREATE_TOKEN:
        return True
    if action is SearchAction.CREATE_POOL:
        return is_allowed(actor, Permission.POOL_CONFIGURE)
    if action in {SearchAction.SUBMIT, SearchAction.IMPORT_QUOTAS}:
        needed = Permission.POOL_SUBMIT if action is SearchAction.SUBMIT else Permission.POOL_PARTITION
        return actor.is_admin or bool(actor.pools_with(needed))
    return is_allowed(actor, Permission.PLATFORM_WRITE)


def _find_pools(actor: Actor, text: str, limit: int) -> Iterator[SearchHit]:
    named = Q(name__startswith=text) | Q(subpool_name__startswith=text)
    rows = Pool.objects.visible_to(actor).not_archived().filter(named).order_by("name")
    for name, short, state, parent in rows.values_list("name", "subpool_name", "subpool_state", "parent__name")[:limit]:
        if short is None:
            yield SearchHit(SearchKind.POOL, name, "pool")
        else:
            yield SearchHit(SearchKind.SUBPOOL, name, f"subpool, {state}", parent)


def _find_workflows(actor: Actor, text: str, limit: int) -> Iterator[SearchHit]:
    # In the order of the index of names PostgreSQL would read all names before it finds that none matches.
    rows = Workflow.objects.visible_to(actor).filter(name__startswith=text).order_by(Collate("name", "C"))
    for name, status, pool in rows.values_list("name", "status", "pool__name")[:limit]:
        yield SearchHit(SearchKind.WORKFLOW, name, f"workflow in {pool}, {status}")


def _find_users(actor: Actor, text: str, limit: int) -> Iterator[SearchHit]:
    rows: QuerySet[User] = User.objects.filter(username__startswith=text).order_by("username")
    if not is_allowed(actor, Permission.PLATFORM_READ):
        rows = rows.filter(username=actor.username)
    for name in rows.values_list("username", flat=True)[:limit]:
        yield SearchHit(SearchKind.USER, name, "user")


def _find_nodes(actor: Actor, text: str, limit: int) -> Iterator[SearchHit]:
    if not is_allowed(actor, Permission.PLATFORM_READ):
        return
    rows = Node.objects.filter(name__startswith=text).order_by("name", "backend__name")
    for name, backend in rows.values_list("name", "backend__name")[:limit]:
        yield SearchHit(SearchKind.NODE, name, f"node of {backend}", backend)


def _find_namespaces(actor: Actor, text: str, limit: int) -> Iterator[SearchHit]:
    rows = GpuQuota.objects.filter(namespace__startswith=text).order_by("namespace")
    allowed = namespaces_for(actor)
    if allowed is not None:
        rows = rows.filter(namespace__in=allowed)
    for name in rows.values_list("namespace", flat=True)[:limit]:
        yield SearchHit(SearchKind.NAMESPACE, name, "GPU quota namespace")


def _find_views(actor: Actor, text: str, limit: int) -> Iterator[SearchHit]:
    views = [view for view in list_views(actor) if view.name.lower().startswith(text)]
    for view in views[:limit]:
        detail = f"saved view of {view.page.replace('_', ' ')}"
        yield SearchHit(SearchKind.VIEW, view.name, detail, view.page, view.query)
