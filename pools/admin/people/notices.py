"""Notices: where they go, which are chosen, and what came of them. The secret of a webhook is shown once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse

from pools.admin import forms
from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.name_fields import MAX_LISTED, NamesField, check_names, visible_pools
from pools.admin.paging import paginate
from pools.admin.shown_secrets import make_secret
from pools.domain.changes.notices import (
    CreateTarget,
    DeleteTarget,
    RenewSecret,
    ReplayDeadNotices,
    ReplayNotice,
    SendTest,
    TargetChange,
    UpdateTarget,
)
from pools.domain.errors import DomainError
from pools.domain.list_columns import NOTICE_COLUMNS, TARGET_COLUMNS
from pools.domain.people.notices import NOTICE_TITLES, PLATFORM_KINDS, POOL_KINDS, Channel, NoticeKind, NoticeStatus
from pools.domain.people.roles import Actor, Permission, is_allowed
from pools.domain.structured_input.declared_values import fields_of
from pools.models import NoticeTarget
from pools.representations.page_parameters import read_choice
from pools.services.people.notice_targets import (
    create_target,
    delete_target,
    get_target,
    list_notices,
    list_targets,
    possible_kinds,
    profile_warnings,
    renew_secret,
    replay_dead_notices,
    replay_notice,
    send_test,
    update_target,
)

CHANNELS = [
    (Channel.WEBHOOK, "Webhook, signed"),
    (Channel.APPRISE, "Slack, Teams or another service of Apprise"),
    (Channel.MAIL, "Mail"),
]
MINE, NAMED, INSTALLATION = "", "/pool", "/installation"
_LIST = "admin:pools_noticetarget_changelist"
_NEW, _UPDATE = fields_of(CreateTarget), fields_of(UpdateTarget)


class ChangeTargetForm(forms.ServiceForm):
    """What a destination takes. An empty address keeps the present one, which is secret."""

    address = forms.text_field(_UPDATE["address"].label, help_text=_UPDATE["address"].help)
    kinds = forms.multiple_choice_field(_NEW["kinds"].label)
    pools = NamesField(_NEW["pools"].label, help_text=_NEW["pools"].help, complete="pools")
    quiet_hours = forms.text_field(_NEW["quiet_hours"].label, help_text=_NEW["quiet_hours"].help, empty="none")
    enabled = forms.checkbox_field(_UPDATE["enabled"].label)

    def __init__(self, *args: Any, actor: Actor, target: NoticeTarget, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _choose(self, "kinds", [(kind, _kind_label(kind)) for kind in possible_kinds(target)])
        self.actor = actor
        if target.pool_id is not None:
            del self.fields["pools"]
        if target.is_profile:
            del self.fields["address"], self.fields["enabled"]

    def clean(self) -> dict[str, Any]:
        data = super().clean()
        _check_pools(self)
        return data


class NewTargetForm(forms.ServiceForm):
    """A new destination."""

    field_by_path = {"pool": "owner", "installation": "owner"}
    name = forms.text_field(_NEW["name"].label, help_text=_NEW["name"].help)
    owner = forms.choice_field("Notices about", required=False)
    pool = forms.text_field(_NEW["pool"].label, help_text=_NEW["pool"].help, data_complete="pools")
    channel = forms.choice_field(_NEW["channel"].label, CHANNELS)
    address = forms.text_field(_NEW["address"].label, help_text=_NEW["address"].help)
    kinds = forms.multiple_choice_field(_NEW["kinds"].label)
    pools = NamesField(_NEW["pools"].label, help_text=_NEW["pools"].help, complete="pools")
    quiet_hours = forms.text_field(_NEW["quiet_hours"].label, help_text=_NEW["quiet_hours"].help, empty="none")

    def __init__(self, *args: Any, actor: Actor, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.actor = actor
        administered = [name for name in visible_pools(actor) if is_allowed(actor, Permission.POOL_PARTITION, name)]
        owners = [(MINE, "My work"), *((name, f"Pool {name}") for name in administered)]
        if len(administered) > MAX_LISTED:
            owners = [(MINE, "My work"), (NAMED, "The pool that is named below")]
        else:
            del self.fields["pool"]
        is_platform = is_allowed(actor, Permission.PLATFORM_WRITE)
        _choose(self, "owner", [*owners, *([(INSTALLATION, "The installation")] if is_platform else [])])
        kinds = (*POOL_KINDS, *(PLATFORM_KINDS if is_platform else ()))
        _choose(self, "kinds", [(kind, _kind_label(kind)) for kind in kinds])

    def clean(self) -> dict[str, Any]:
        data = super().clean()
        _check_pools(self)
        named = str(data.pop("pool", "")).strip()
        if data.get("owner") == NAMED:
            data["owner"] = named
            if not named:
                self.add_error("pool", "Name the pool.")
        return data


def _kind_label(kind: NoticeKind) -> str:
    return NOTICE_TITLES[kind] + (" (installation)" if kind in PLATFORM_KINDS else "")


def _choose(form: forms.ServiceForm, field: str, choices: list[tuple[str, str]]) -> None:
    form.fields[field].choices = choices  # type: ignore[attr-defined]


def _check_pools(form: NewTargetForm | ChangeTargetForm) -> None:
    """Refuse names of pools that the person does not see; only then all names are read."""
    if form.cleaned_data.get("pools"):
        check_names(form, "pools", visible_pools(form.actor))


@admin.register(NoticeTarget)
class NoticeTargetAdmin(PolicyAdmin):
    """Targets, and the notices to them."""

    address = "notices"

    def extra_urls(self) -> list[URLPattern]:
        return [
            path("notices/-/create", self.protect(self._create), name="pools_noticetarget_create"),
            path("notices/-/replay/<str:notice>", self.protect(self._replay), name="pools_noticetarget_replay"),
            path("notices/<int:target>/edit", self.protect(self._edit), name="pools_noticetarget_edit"),
            path("notices/<int:target>/delete", self.protect(self._delete), name="pools_noticetarget_delete"),
            path("notices/<int:target>/test", self.protect(self._test), name="pools_noticetarget_test"),
            path("notices/<int:target>/secret", self.protect(self._secret), name="pools_noticetarget_secret"),
            path("notices/<int:target>/replay", self.protect(self._replay_dead), name="pools_noticetarget_replay_dead"),
        ]

    def show_list(self, request: HttpRequest) -> HttpResponse:
        actor = actor_of(request)
        status = read_choice(request.GET, "status", NoticeStatus)
        dead = Count("notices", filter=Q(notices__status=NoticeStatus.DEAD))
        targets, rows = list_targets(actor).annotate(dead=dead), list_notices(actor)
        if status:
            rows = rows.filter(status=status)
        return self.render_page(
            request,
            "osmo/notices.html",
            title="Notices",
            target_columns=TARGET_COLUMNS,
            notice_columns=NOTICE_COLUMNS,
            targets=[(row, [_kind_label(NoticeKind(kind)) for kind in row.kinds]) for row in targets],
            window=paginate(rows, request.GET.get("page")),
            chosen_status=status,
            statuses=list(NoticeStatus),
            warnings=profile_warnings(request.user),  # type: ignore[arg-type]  # the page needs a login
        )

    def _create(self, request: HttpRequest) -> HttpResponse:
        actor = actor_of(request)
        form = NewTargetForm(forms.submitted_data(request), actor=actor, initial={"kinds": list(POOL_KINDS)})

        def create() -> HttpResponse:
            data = {**form.cleaned_data}
            owner = data.pop("owner")
            pool = owner if owner not in {MINE, INSTALLATION} else None
            command = CreateTarget(pool=pool, installation=owner == INSTALLATION, **data)

            def make() -> tuple[str, str]:
                target, secret = create_target(command, actor=actor)
                return target.name, secret

            name, secret = make_secret(actor, form, repr(command), make)
            if secret == "":
                self.show_success(request, f"Notices go to {name} from now on.")
                return _back()
            return self._secret_page(request, name, secret)

        return self.change_by_form(
            request,
            form,
            create,
            title="Add a destination of notices",
            button="Add the destination",
            crumbs=_crumbs(),
            script=forms.script_media("picker"),
        )

    def _edit(self, request: HttpRequest, target: int) -> HttpResponse:
        actor = actor_of(request)
        row = get_target(actor, target)
        start = {
            "kinds": row.kinds, "pools": row.pools, "quiet_hours": row.quiet_hours, "enabled": row.is_enabled,
        }  # fmt: skip
        form = ChangeTargetForm(forms.submitted_data(request), actor=actor, target=row, initial=start)

        def save() -> HttpResponse:
            address = form.cleaned_data.pop("address", "") or None
            update_target(UpdateTarget(target=target, address=address, **form.cleaned_data), actor=actor)
            self.show_success(request, f"{row.name} was changed.")
            return _back()

        return self.change_by_form(
            request,
            form,
            save,
            title=f"Change {row.name}",
            button="Save",
            crumbs=_crumbs(),
            script=forms.script_media("picker"),
        )

    def _delete(self, request: HttpRequest, target: int) -> HttpResponse:
        row = get_target(actor_of(request), target)
        if request.method == "POST":
            try:
                delete_target(DeleteTarget(target=target), actor=actor_of(request))
            except DomainError as refusal:
                self.show_warning(request, refusal.message)
                return _back()
            return self.show_removed(request, f"{row.name} was deleted.", reverse(_LIST))
        return self.render_form_page(
            request,
            forms.ServiceForm(),
            title=f"Delete {row.name}",
            button="Delete the destination",
            crumbs=_crumbs(),
            danger=True,
            lead=f"Nothing more is sent to {row.name}, and its notices are deleted. This cannot be undone.",
        )

    def _secret(self, request: HttpRequest, target: int) -> HttpResponse:
        actor, form = actor_of(request), forms.ServiceForm(forms.submitted_data(request))
        row = get_target(actor, target)

        def renew() -> HttpResponse:
            def make() -> tuple[str, str]:
                return row.name, renew_secret(RenewSecret(target=target), actor=actor)

            return self._secret_page(request, *make_secret(actor, form, f"secret of {target}", make))

        return self.change_by_form(
            request,
            form,
            renew,
            title=f"Replace the secret of {row.name}",
            button="Replace the secret",
            crumbs=_crumbs(),
            danger=True,
            lead="The receiver refuses notices until it knows the new secret.",
        )

    def _test(self, request: HttpRequest, target: int) -> HttpResponse:
        row = get_target(actor_of(request), target)
        if request.method != "POST":
            return _back()
        words = "gets a test notice within seconds; the list below shows what came of it"
        return self._done(request, send_test, SendTest(target=target), words, row)

    def _replay_dead(self, request: HttpRequest, target: int) -> HttpResponse:
        row = get_target(actor_of(request), target)
        if request.method != "POST":
            return _back()
        words = "gets its failed notices again"
        return self._done(request, replay_dead_notices, ReplayDeadNotices(target=target), words, row)

    def _replay(self, request: HttpRequest, notice: str) -> HttpResponse:
        if request.method == "POST":
            try:
                found = replay_notice(ReplayNotice(notice=notice), actor=actor_of(request))
                self.show_success(request, f"“{found.title}” is sent again.")
            except DomainError as refusal:
                self.show_warning(request, refusal.message)
        return _back()

    def _done(
        self, request: HttpRequest, service: Callable[..., object], command: TargetChange, words: str, row: NoticeTarget
    ) -> HttpResponse:
        try:
            service(command, actor=actor_of(request))
        except DomainError as refusal:
            self.show_warning(request, refusal.message)
        else:
            self.show_success(request, f"{row.name} {words}.")
        return _back()

    def _secret_page(self, request: HttpRequest, name: str, secret: str | None) -> HttpResponse:
        if secret is None:
            self.show_warning(
                request,
                f"The secret of {name} was made when this form was sent first, and it was shown then. If nobody copied "
                "it, replace it.",
            )
            return _back()
        return self.render_page(
            request, "osmo/notice_secret.html", title=f"Destination {name}", crumbs=_crumbs(), secret=secret,
            back=reverse(_LIST),
        )  # fmt: skip


def _back() -> HttpResponseRedirect:
    return HttpResponseRedirect(reverse(_LIST))


def _crumbs() -> list[tuple[str, str]]:
    return [("Notices", reverse(_LIST))]
