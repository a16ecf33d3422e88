"""The pages of replays: what a time of the past would have looked like with other quotas, and which would have been
better."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils import timezone

from pools.admin import forms
from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.configuration.pool_changes import flavor_input, pool_form_values
from pools.admin.configuration.subpools import flavor_field
from pools.domain.errors import DomainError, NotFound
from pools.domain.names import SHARED_QUEUE, split_name
from pools.domain.numbers import GPU_HOURS, REPLAY_NUMBERS
from pools.domain.people.roles import Actor, Permission, is_allowed
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import NO_LIMIT
from pools.domain.values.scalars import typed_number
from pools.models import Backend, Pool
from pools.representations.page_parameters import read_choice
from pools.templatetags.osmo import hours, span
from scheduling.domain.changes.replays import DEFAULT_TRIES
from scheduling.domain.list_columns import CHANGE_COLUMNS, PERSON_COLUMNS, REPLAY_COLUMNS, RIVAL_COLUMNS, TEAM_COLUMNS
from scheduling.history.own.history_replays import find_replay, list_replays
from scheduling.history.own.own_replay import ReplayQuestion, viewpoint, visible_roots
from scheduling.history.own.replays import cancel_replay, request_replay
from scheduling.models import HistoryReplay
from scheduling.selectors.reports.replay_bars import compare_bars, compared_teams
from scheduling.selectors.usage.periods import PERIODS

ROWS = 4
"""The changes that the form has room for; a file of the client may have more."""
ROWS_SHOWN = 8
"""The rows of a table of an answer, the largest change first; the others unfold."""
MAX_NAMES_SUGGESTED = 500
OWN_PERIOD = "own"
ADVISE = "advise"
"""The name of the button that asks for proposals."""
CHANGED = (("quota", "Quota"), ("limit", "Limit"), ("weight", "Weight"))
NO_LIMIT_WORD = "unlimited"
"""What the boxes show and take for no limit: an empty box keeps today's number."""


_SHOWN: Mapping[str, Callable[[Any], str]] = {"s": span, GPU_HOURS: hours, "": str}
"""The text of a number, by its unit."""
TEAM_KEYS = "jobs wait_mean_s wait_p90_s starts reclaims preemptions used_gpu_h"
ADVICE_KEYS = "jobs wait_mean_s waiting_gpu_h lost_gpu_h reclaims"


def _numbered(title: str, number: int) -> str:
    return title if number == 1 else f"{title} {number}"


class ReplayForm(forms.ServiceForm):
    """The window, the cluster and up to four changes."""

    field_by_path = {"changes": "name_1"}
    backend = forms.choice_field("Cluster")
    period = forms.choice_field("Time")
    since = forms.time_field("From", help_text="For a time of your own.")
    until = forms.time_field("To", help_text="For a time of your own; empty is now.")

    def __init__(self, data: Any, *, backends: list[str], initial: dict[str, str]) -> None:
        self.field_by_path = {
            f"changes[{number}]{path}": f"{key}_{number + 1}"
            for number in range(ROWS)
            for path, key in {"": "name", ".set.name": "name", **{f".set.{key}": key for key, _ in CHANGED}}.items()
        }
        super().__init__(data, initial=initial)
        self.fields["backend"].choices = [(name, name) for name in backends]  # type: ignore[attr-defined]
        self.fields["period"].choices = [  # type: ignore[attr-defined]
            *((each.name, f"the last {each.title}") for each in PERIODS if each.length <= timedelta(days=30)),
            (OWN_PERIOD, "from … to …"),
        ]
        for number in range(1, ROWS + 1):
            self.fields[f"name_{number}"] = forms.text_field(_numbered("Pool or subpool", number), list="replay-names")
            for key, title in CHANGED:
                self.fields[f"{key}_{number}"] = forms.text_field(_numbered(title, number), inputmode="numeric")

    def add_errors(self, refusal: DomainError) -> None:
        """As its base; the faults of numbers in the words of the boxes."""
        super().add_errors(refusal)
        for number in range(1, ROWS + 1):
            for key, title in CHANGED:
                if found := self.errors.get(f"{key}_{number}"):
                    limit = "" if key == "weight" else f", or the word {NO_LIMIT_WORD}"
                    found.data[:] = [f"{title} must be a number from 0{limit}. An empty box keeps today's number."]

    @property
    def change_rows(self) -> list[list[Any]]:
        """The fields of each change, for the table."""
        keys = ["name", *(key for key, _ in CHANGED)]
        return [[self[f"{key}_{number}"] for key in keys] for number in range(1, ROWS + 1)]

    @property
    def has_more_changes(self) -> bool:
        """Whether a change after the first one is filled in."""
        return any(field.value() for row in self.change_rows[1:] for field in row)

    def question(self) -> ReplayQuestion:
        """The question in the form of the API. Needs valid input."""
        now, given = timezone.now(), self.cleaned_data
        length = next((each.length for each in PERIODS if each.name == given["period"]), None)
        since = given["since"] or now - timedelta(days=7) if length is None else now - length
        until = (given["until"] or now) if length is None else now
        tries = DEFAULT_TRIES if ADVISE in self.data else None
        return ReplayQuestion(since, until, [{"set": each} for each in self._changes()], given["backend"], tries)

    def _changes(self) -> list[dict[str, Any]]:
        found = []
        for number in range(1, ROWS + 1):
            name = self.cleaned_data[f"name_{number}"].strip()
            texts = {key: self.cleaned_data[f"{key}_{number}"].strip() for key, _ in CHANGED}
            values = {
                key: NO_LIMIT if text.lower() == NO_LIMIT_WORD else typed_number(text)
                for key, text in texts.items()
                if text
            }
            if name or values:
                found.append({"name": name, **values})
        return found


@admin.register(HistoryReplay)
class HistoryReplayAdmin(PolicyAdmin):
    """Each person sees their own replays; admins of pools and readers of the platform may request them."""

    address = "replay"
    roles_that_see = "osmo-admin, osmo-viewer or osmo-POOL-admin"

    def may_see(self, actor: Actor) -> bool:
        return actor.can_read_all or bool(actor.pools_with(Permission.POOL_PARTITION))

    def extra_urls(self) -> list[URLPattern]:
        return [
            path("replay/<str:object_id>/cancel", self.protect(self._cancel), name="scheduling_historyreplay_cancel")
        ]

    def show_list(self, request: HttpRequest) -> HttpResponse:
        actor = actor_of(request)
        backends = _replayed_backends(actor)
        initial = {
            "period": "7d",
            "name_1": request.GET.get("name", ""),
            "backend": read_choice(request.GET, "backend", backends),
        }
        form = ReplayForm(forms.submitted_data(request), backends=backends, initial=initial)
        if request.method == "POST" and form.is_valid():
            try:
                row = request_replay(actor=actor, question=form.question())
            except DomainError as refusal:
                form.add_errors(refusal)
            else:
                return HttpResponseRedirect(_address(row.pk))
        return self.render_page(
            request,
            "osmo/history_replays.html",
            title="Replay",
            form=form,
            backends=backends,
            names=_suggested_names(actor, backends),
            columns=REPLAY_COLUMNS,
            replays=(replays := list_replays(actor)),
            is_live=any(each.ended_at is None for each in replays),
            status=400 if form.errors else 200,
        )

    def show_object(self, request: HttpRequest, object_id: str) -> HttpResponse:
        row = _find(actor_of(request), object_id)
        answer = row.answer
        rows = [] if answer is None else _team_rows(answer)
        is_compared = answer is not None and (answer["against"] is not None or answer.get("advice") is not None)
        return self.render_page(
            request,
            "osmo/history_replay.html",
            title=f"Replay of {row.question['backend']}",
            crumbs=[("Replay", reverse("admin:scheduling_historyreplay_changelist"))],
            row=row,
            percent=int(row.progress * 100),
            is_live=row.ended_at is None,
            answer=answer,
            changes=[entry["set"] for entry in row.question["changes"]],
            bars=[] if answer is None else compare_bars(answer),
            compared=None if answer is None else compared_teams(answer),
            teams=(shown := [row for row in rows if row["changes"] or not is_compared])[:ROWS_SHOWN],
            more_teams=shown[ROWS_SHOWN:],
            people=([] if answer is None else answer["people"])[:ROWS_SHOWN],
            more_people=([] if answer is None else answer["people"])[ROWS_SHOWN:],
            other_teams=[row for row in rows if is_compared and not row["changes"]],
            advice=None if answer is None else _advice(actor_of(request), answer.get("advice")),
            person_columns=PERSON_COLUMNS,
            change_columns=CHANGE_COLUMNS,
            rival_columns=RIVAL_COLUMNS,
            team_columns=TEAM_COLUMNS,
            team_keys=f"team {TEAM_KEYS}",
            advice_keys=f"team {ADVICE_KEYS}",
        )

    def _cancel(self, request: HttpRequest, object_id: str) -> HttpResponse:
        if request.method != "POST":
            return HttpResponseRedirect(_address(object_id))
        actor = actor_of(request)
        cancel_replay(actor=actor, replay_id=_find(actor, object_id).pk)
        self.show_success(request, "The replay was cancelled.")
        return HttpResponseRedirect(_address(object_id))


def _address(pk: UUID | str) -> str:
    return reverse("admin:scheduling_historyreplay_change", args=[pk])


def _find(actor: Actor, text: str) -> HistoryReplay:
    try:
        return find_replay(actor, UUID(text))
    except (ValueError, NotFound):
        raise Http404 from None


def _replayed_backends(actor: Actor) -> list[str]:
    """The simulated clusters of which the person may replay something, those with pools of theirs first."""
    own = Pool.objects.roots().not_archived()
    if not actor.can_read_all:
        own = own.filter(name__in=actor.pools_with(Permission.POOL_PARTITION))
    rows = Backend.objects.filter(kind=Backend.Kind.SIMULATED, pools__in=own).distinct().order_by("name")
    return list(rows.values_list("name", flat=True))


def _suggested_names(actor: Actor, backends: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """The names that a change may have, each with the numbers of today that it would replace."""
    found: list[str] = []
    for backend in Backend.objects.filter(name__in=backends[:MAX_NAMES_SUGGESTED]).order_by("name"):
        found += viewpoint(backend, visible_roots(actor, backend), reads_all=actor.can_read_all).names
        if len(found) >= MAX_NAMES_SUGGESTED:
            break
    names = found[:MAX_NAMES_SUGGESTED]
    today = {
        pool.name: {"quota": _shown(pool.guarantee), "limit": _shown(pool.maximum), "weight": pool.weight}
        if pool.parent_id is None
        else {"quota": pool.last_quota}
        for pool in Pool.objects.visible_to(actor).not_archived().filter(name__in=names)
    }
    return [(name, today.get(name, {})) for name in names]


def _shown(limit: int | None) -> int | str:
    return NO_LIMIT_WORD if limit in {None, NO_LIMIT} else limit


def _advice(actor: Actor, advice: dict[str, Any] | None) -> dict[str, Any] | None:
    """The proposals of the answer, each change with the address of its preview, for those who may make it."""
    if advice is None:
        return None
    pools = []
    for pool in advice["pools"]:
        proposal, today = pool["proposal"], advice["today"]["teams"]
        changes = (
            [] if proposal is None else [{**each, "preview": _preview(actor, each)} for each in proposal["changes"]]
        )
        effect = {} if proposal is None else proposal["effect"]["teams"]
        rows = [(name, _effect_cells(today[name], change)) for name, change in sorted(effect.items())]
        teams = [(name, cells) for name, cells in rows if any(would is not None for _, _, would in cells)]
        rivals = [{**rival, "leaves": dict(sorted(rival["leaves"].items()))} for rival in pool["rivals"]]
        pools.append({**pool, "changes": changes, "teams": teams, "rivals": rivals})
    return {**advice, "pools": pools}


def _effect_cells(today: dict[str, Any], change: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    """The columns of a team: title, today's number, and the one of the proposal where it reads differently."""
    cells = []
    for key in ADVICE_KEYS.split():
        before = today[key]
        after = None if before is None or change[key] is None else before + change[key]
        cells.append(_cell(key, before, after))
    return cells


def _cell(key: str, before: Any, after: Any) -> tuple[str, str, str | None]:
    number = REPLAY_NUMBERS[key]
    was, would = (_SHOWN[number.unit](value) for value in (before, after))
    return number.heading, was, None if was == would else would


def _preview(actor: Actor, change: dict[str, Any]) -> str | None:
    """The address of the usual preview of a change; None where there is none: the shared quota of a pool follows from
    its subpools, and the person may not change everything."""
    root, subpool = split_name(change["name"])
    pool = Pool.objects.roots().not_archived().filter(name=root).select_related("cohort", "backend").first()
    permission = Permission.POOL_CONFIGURE if subpool is None else Permission.POOL_PARTITION
    if pool is None or subpool == SHARED_QUEUE or not is_allowed(actor, permission, root):
        return None
    values: dict[str, Any]
    if subpool is None:
        address = reverse("admin:pools_pool_configure_preview", args=[root])
        key = flavor_input(change["flavor"], change["key"]) if "flavor" in change else change["key"]
        values = pool_form_values(pool) | {key: change["to"]}
    elif pool.subpools.filter(subpool_name=subpool, subpool_state=SubpoolState.ACTIVE).exists():
        address = reverse("admin:pools_subpool_resize_preview", args=[root, subpool])
        key = flavor_field(change["flavor"]) if "flavor" in change and len(pool.flavors) > 1 else "quota"
        values = {key: change["to"]}
    else:
        return None
    return f"{address}?{urlencode({key: value for key, value in values.items() if value not in (None, False)})}"


def _team_rows(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """One row for each team, those that change first, by their waits. A cell is (title, before, after), the last one
    None where it reads the same."""
    compared = compared_teams(answer)
    after = compared.before if compared.after is None else compared.after
    rows = []
    by_wait = {
        name: abs((after[name]["wait_mean_s"] or 0) - (0 if after is compared.before else before["wait_mean_s"] or 0))
        for name, before in compared.before.items()
    }
    for name in sorted(by_wait, key=lambda name: (-by_wait[name], name)):
        before = compared.before[name]
        cells = [_cell(key, before[key], after[name][key]) for key in TEAM_KEYS.split()]
        rows.append({"name": name, "cells": cells, "changes": any(would is not None for _, _, would in cells)})
    return [*(row for row in rows if row["changes"]), *(row for row in rows if not row["changes"])]
