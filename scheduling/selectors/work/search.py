"""Search by words of names: pools, subpools, cohorts, workflows, users, clusters, nodes, GPU quota namespaces, the
person's own saved views, pages, and what the person may do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from operator import and_, or_
from typing import Any

from django.db.models import Case, Q, QuerySet, When
from django.db.models.functions import Collate

from pools.domain.people.roles import Actor, Permission, is_allowed
from pools.models import Backend, GpuQuota, Node, Pool, User
from pools.permissions import namespaces_for
from pools.selectors.quotas.quota_facts import visible_cohorts
from pools.selectors.saved_views import list_views
from scheduling.domain.search.name_match import LEAST_WITH_MISTAKE, Fit, mistyped_fit, name_fit, words_of
from scheduling.domain.search.pages import OF_THE_PLATFORM, OTHER_WORDS, SearchAction, SearchPage
from scheduling.domain.statuses import ACTIVE_WORKFLOW_STATUSES
from scheduling.models import Workflow

MAX_SEARCH_TEXT = 100
LEAST_OF_A_PART = 2  # letters: one letter is in nearly every name
PARTS_AMONG = 20_000  # of the newest workflows
MISTYPED_AMONG = 2_000


class SearchKind(StrEnum):
    """What was found."""

    POOL = "pool"
    SUBPOOL = "subpool"
    COHORT = "cohort"
    WORKFLOW = "workflow"
    USER = "user"
    CLUSTER = "cluster"
    NODE = "node"
    NAMESPACE = "namespace"
    VIEW = "view"
    PAGE = "page"
    ACTION = "action"


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One object. `detail` tells objects with similar names apart; `place` is the pool of a subpool, the backend of a
    node or the list of a saved view, and `filters` the query of a saved view."""

    kind: SearchKind
    name: str
    detail: str
    place: str = ""
    filters: str = ""


class _SearchText:
    """The words of one search and how names are compared with them."""

    def __init__(self, actor: Actor, text: str, limit: int) -> None:
        self.actor, self.limit = actor, limit
        self.words = words_of(text[:MAX_SEARCH_TEXT])
        self.text = " ".join(self.words)
        self.is_mistyped = False

    def fit(self, name: str, place: str = "") -> Fit | None:
        """How well a name fits, if need be with that of its place; None: it does not."""
        return (mistyped_fit if self.is_mistyped else name_fit)(name, self.words, place)

    def select(self, rows: QuerySet[Any], field: str, *more: str, place: str = "") -> list[tuple[Any, ...]]:
        """The fields of the rows whose names fit, the best first, with the field of the place after that of the name.
        `rows` are few: a table of names is read as a whole where a word may be mistyped."""
        if not self.is_mistyped:
            starts = [self.text, *(self.words if place else ())]
            equal, begun = (
                reduce(or_, (Q(**{f"{field}__{look}": start}) for start in starts))
                for look in ("iexact", "istartswith")
            )
            fits = Case(When(equal, then=0), When(begun, then=1), default=2)
            rows = rows.filter(self.containing(field, place)).order_by(fits, field)[: self.limit]
        return self.sort(rows.values_list(field, *([place] if place else []), *more), named_by=2 if place else 1)

    def containing(self, field: str, place: str = "") -> Q:
        """The condition that all words are in the name, or one is and the others are in that of the place."""
        named = [Q(**{f"{field}__icontains": word}) for word in self.words]
        if not place:
            return reduce(and_, named)
        both = [each | Q(**{f"{place}__icontains": word}) for each, word in zip(named, self.words, strict=True)]
        return reduce(or_, named) & reduce(and_, both)

    def sort(self, rows: Iterable[tuple[Any, ...]], *, named_by: int = 1) -> list[tuple[Any, ...]]:
        """The rows whose first values fit, a name and perhaps its place, the best first, else in their order."""
        fits = [(fit, row) for row in dict.fromkeys(rows) if (fit := self.fit(*row[:named_by])) is not None]
        return [row for _, row in sorted(fits, key=lambda pair: pair[0])][: self.limit]


def search(actor: Actor, text: str, *, limit: int) -> list[SearchHit]:
    """At most `limit` objects of each kind that `actor` may see, with all words of the text in their names, in any
    order; of a node, some may be in that of its cluster. The best come first: an equal name, its beginning, the
    beginning of a part, then the rest. Where no object has them, a word may have one mistake. At most nine queries,
    and as many for mistakes."""
    question = _SearchText(actor, text, limit)
    if not question.words:
        return []
    places = [*_find_places(question)]
    objects = _find_objects(question)
    if not objects and max(map(len, question.words)) >= LEAST_WITH_MISTAKE:
        question.is_mistyped = True
        objects = _find_objects(question)
    clusters = {hit: hit.place for hit in objects if hit.kind is SearchKind.NODE}
    ranked = [(question.fit(hit.name, clusters.get(hit, "")), hit) for hit in objects] + places
    return [hit for _, hit in sorted(ranked, key=lambda pair: Fit.INSIDE if pair[0] is None else pair[0])]


def _find_objects(question: _SearchText) -> list[SearchHit]:
    kinds = (
        _find_pools,
        _find_cohorts,
        _find_workflows,
        _find_users,
        _find_clusters,
        _find_nodes,
        _find_namespaces,
        _find_views,
    )
    return [hit for find in kinds for hit in find(question)]


def _find_places(question: _SearchText) -> Iterator[tuple[Fit, SearchHit]]:
    """Pages and actions of which each word begins a word, or one of the other words for them."""
    for place in (*SearchAction, *SearchPage):
        named, other = f" {place.lower()}", f" {OTHER_WORDS.get(place, '')}"
        if not _may_open(question.actor, place):
            continue
        kind = SearchKind.ACTION if isinstance(place, SearchAction) else SearchKind.PAGE
        hit = SearchHit(kind, str(place), str(kind))
        if f" {question.text}" in named:
            yield (Fit.EXACT if named[1:] == question.text else Fit.BEGINS), hit
        elif all(f" {word}" in named or f" {word}" in other for word in question.words):
            yield Fit.PART_BEGINS, hit


def _may_open(actor: Actor, place: SearchAction | SearchPage) -> bool:
    if isinstance(place, SearchAction):
        return _may_begin(actor, place)
    if place is SearchPage.REPLAY:
        return actor.can_read_all or bool(actor.pools_with(Permission.POOL_PARTITION))
    return place not in OF_THE_PLATFORM or is_allowed(actor, Permission.PLATFORM_READ)


def _may_begin(actor: Actor, action: SearchAction) -> bool:
    if action in {SearchAction.CREATE_TOKEN, SearchAction.LOG_OUT}:
        return True
    if action is SearchAction.CREATE_POOL:
        return is_allowed(actor, Permission.POOL_CONFIGURE)
    if action in {SearchAction.SUBMIT, SearchAction.IMPORT_QUOTAS}:
        needed = Permission.POOL_SUBMIT if action is SearchAction.SUBMIT else Permission.POOL_PARTITION
        return actor.is_admin or bool(actor.pools_with(needed))
    return is_allowed(actor, Permission.PLATFORM_WRITE)


def _find_pools(question: _SearchText) -> Iterator[SearchHit]:
    rows = Pool.objects.visible_to(question.actor).not_archived()
    found = question.select(rows, "name", "subpool_name", "subpool_state", "parent__name")
    for name, short, state, parent in found:
        if short is None:
            yield SearchHit(SearchKind.POOL, name, "pool")
        else:
            yield SearchHit(SearchKind.SUBPOOL, name, f"subpool, {state}", parent)


def _find_cohorts(question: _SearchText) -> Iterator[SearchHit]:
    for (name,) in question.select(visible_cohorts(question.actor), "name"):
        yield SearchHit(SearchKind.COHORT, name, "cohort")


def _find_workflows(question: _SearchText) -> Iterator[SearchHit]:
    """By the beginning of the name among all, on the index of names; by a part of it among the newest. A table of all
    names would be read as a whole, and it grows for ever. Of those that fit alike active work comes first."""
    visible = Workflow.objects.visible_to(question.actor)
    newest = visible.order_by("-submit_time", "-name")
    fields = ("name", "status", "pool__name")
    if question.is_mistyped:
        rows: QuerySet[Any, tuple[Any, ...]] = newest.values_list(*fields)[:MISTYPED_AMONG]
    else:
        # In the order of the index of names PostgreSQL would read all names before it finds that none matches.
        beginning = visible.filter(question.containing("name"), name__startswith=question.words[0])
        rows = beginning.order_by(Collate("name", "C")).values_list(*fields)[: question.limit]
        if len(question.text) >= LEAST_OF_A_PART:
            recent = Workflow.objects.filter(pk__in=newest.values("pk")[:PARTS_AMONG])
            inside = recent.filter(question.containing("name")).order_by("-submit_time", "-name")
            rows = rows.union(inside.values_list(*fields)[: question.limit], all=True)
    for name, status, pool in question.sort(sorted(rows, key=lambda row: row[1] not in ACTIVE_WORKFLOW_STATUSES)):
        yield SearchHit(SearchKind.WORKFLOW, name, f"workflow in {pool}, {status}")


def _find_users(question: _SearchText) -> Iterator[SearchHit]:
    rows: QuerySet[User] = User.objects.all()
    if not is_allowed(question.actor, Permission.PLATFORM_READ):
        rows = rows.filter(username=question.actor.username)
    for (name,) in question.select(rows, "username"):
        yield SearchHit(SearchKind.USER, name, "user")


def _find_clusters(question: _SearchText) -> Iterator[SearchHit]:
    if not is_allowed(question.actor, Permission.PLATFORM_READ):
        return
    for (name,) in question.select(Backend.objects.all(), "name"):
        yield SearchHit(SearchKind.CLUSTER, name, "cluster")


def _find_nodes(question: _SearchText) -> Iterator[SearchHit]:
    if not is_allowed(question.actor, Permission.PLATFORM_READ):
        return
    for name, backend in question.select(Node.objects.all(), "name", place="backend__name"):
        yield SearchHit(SearchKind.NODE, name, f"node of {backend}", backend)


def _find_namespaces(question: _SearchText) -> Iterator[SearchHit]:
    rows = GpuQuota.objects.all()
    allowed = namespaces_for(question.actor)
    if allowed is not None:
        rows = rows.filter(namespace__in=allowed)
    for (name,) in question.select(rows, "namespace"):
        yield SearchHit(SearchKind.NAMESPACE, name, "GPU quota namespace")


def _find_views(question: _SearchText) -> Iterator[SearchHit]:
    views = [view for view in list_views(question.actor) if question.fit(view.name) is not None]
    for view in views[: question.limit]:
        detail = f"saved view of {view.page.replace('_', ' ')}"
        yield SearchHit(SearchKind.VIEW, view.name, detail, view.page, view.query)
