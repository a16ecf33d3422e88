"""Users and their roles, for the platform's admins and viewers; for everybody, their own account."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse

from pools.admin import forms
from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.confirm_flow import (
    REASON_HELP,
    Change,
    ChangeForm,
    ConfirmFlow,
    change_paths,
    typed_input,
)
from pools.admin.filters import UserPageFilterSet
from pools.admin.forms import script_media
from pools.admin.object_preview import CONFIGS, ObjectPreview
from pools.admin.paging import paginate
from pools.domain.changes.command import fields_of
from pools.domain.changes.users import CreateUser, SetRoles, UnlinkUser
from pools.domain.errors import DomainError, NotFound
from pools.domain.role_changes import right_changes
from pools.domain.roles import PLATFORM_ROLES, Actor, Permission, PoolRoleKind, is_allowed, parse_pool_role, pool_role
from pools.models import AccessToken, Pool, Reservation, RoleAssignment, User
from pools.permissions import require_platform
from pools.selectors.sign_on import identity_rows, linkable_providers, roles_kept_from_groups
from pools.selectors.users import list_accounts
from pools.services.accounts import set_active, set_roles
from pools.services.sign_on import unlink
from pools.services.users import create_user, set_password

if TYPE_CHECKING:
    from django.http import QueryDict

_NAME = fields_of(CreateUser)["id"]
MAX_POOLS_LISTED = 10  # the roles of more pools are typed or completed


class RolesForm(forms.ServiceForm):
    """Roles as check boxes: those of the platform and those that are chosen, and with few pools all roles. The service
    judges each."""

    roles = forms.multiple_choice_field("Roles")
    more_roles = forms.text_field(
        "Further roles",
        help_text="osmo-POOL-admin divides a pool into subpools; osmo-POOL-user submits to it. Several with a space "
        "between them.",
        data_complete="roles",
        data_into="id_roles",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        chosen = cast("QueryDict", self.data).getlist("roles") if self.is_bound else self.initial.get("roles", ())
        pools = list(Pool.objects.roots().order_by("name").values_list("name", flat=True)[: MAX_POOLS_LISTED + 1])
        listed = pools if len(pools) <= MAX_POOLS_LISTED else []
        roles = [*PLATFORM_ROLES, *(pool_role(pool, kind) for pool in listed for kind in PoolRoleKind), *chosen]
        self.fields["roles"].choices = [(role, role) for role in dict.fromkeys(roles)]  # type: ignore[attr-defined]

    @property
    def all_roles(self) -> list[str]:
        """The checked and the typed roles."""
        typed = self.cleaned_data["more_roles"].replace(",", " ").split()
        return list(dict.fromkeys([*self.cleaned_data["roles"], *typed]))


class UserRolesForm(RolesForm, ChangeForm):
    """The desired roles of a user."""

    description = forms.text_field("Reason", help_text=REASON_HELP)


class CreateUserForm(RolesForm, ChangeForm):
    """A new user."""

    field_by_path = {"id": "username"}
    username = forms.text_field(_NAME.label, help_text=_NAME.help, required=True)
    password = forms.password_field(
        "Password", help_text="Leave it empty for a user who signs in by access token only.", required=False
    )
    description = forms.text_field("Reason", help_text=REASON_HELP)
    field_order = ("username", "password", "roles", "more_roles", "description")


PASSWORD_RULES = "At least 8 characters; not a common one, and without the user's name."  # noqa: S105  # a help text


class UserPasswordForm(forms.ServiceForm):
    """A new password for a user who lost the old one."""

    password = forms.password_field("New password", help_text=PASSWORD_RULES)


@admin.register(User)
class UserAdmin(PolicyAdmin):
    """The list is for the platform's admins and viewers; everybody may open their own page."""

    def extra_urls(self) -> list[URLPattern]:
        def protect_user_view(view: Callable[[HttpRequest, User], HttpResponse]) -> Any:
            def user_view(request: HttpRequest, username: str) -> HttpResponse:
                require_platform(actor_of(request))
                return view(request, _find_user(username))

            return self.protect(user_view)

        return [
            *change_paths("create/", self.protect(self._create_page), name="pools_user_create"),
            *change_paths("<str:username>/roles/", protect_user_view(self._roles_page), name="pools_user_roles"),
            path("<str:username>/password/", protect_user_view(self._password_page), name="pools_user_password"),
            path("<str:username>/unlink/<str:provider>/", self.protect(self._unlink_page), name="pools_user_unlink"),
            path("<str:username>/close/", protect_user_view(self._enable_or_disable_page), name="pools_user_close"),
        ]

    def show_list(self, request: HttpRequest) -> HttpResponse:
        actor = actor_of(request)
        require_platform(actor, Permission.PLATFORM_READ)
        filters = UserPageFilterSet(request, list_accounts())
        return self.render_page(
            request,
            "osmo/users.html",
            title="Users and roles",
            filters=filters,
            window=paginate(filters.qs, request.GET.get("page")),
            may_write=is_allowed(actor, Permission.PLATFORM_WRITE),
        )

    def show_object(self, request: HttpRequest, object_id: str) -> HttpResponse:
        actor = actor_of(request)
        is_self = object_id == actor.username
        if not is_self:
            require_platform(actor, Permission.PLATFORM_READ)
        user = _find_user(object_id)
        crumbs = [("Users and roles", reverse("admin:pools_user_changelist"))]
        return self.render_page(
            request,
            "osmo/user.html",
            title=user.username,
            crumbs=crumbs if is_allowed(actor, Permission.PLATFORM_READ) else [],
            person=user,
            is_self=is_self,
            roles=RoleAssignment.objects.filter(user=user).select_related("group").order_by("group__name"),
            tokens=user.tokens.order_by("name"),
            identities=identity_rows(user),
            kept_from_groups=roles_kept_from_groups(user),
            linkable=linkable_providers(user) if is_self else [],
            may_write=is_allowed(actor, Permission.PLATFORM_WRITE),
        )

    def _create_page(self, request: HttpRequest) -> HttpResponse:
        actor = actor_of(request)
        require_platform(actor)
        typed = typed_input(request)
        username = typed.get("username", "").strip()

        def create(command: CreateUser, **note: Any) -> User:
            return create_user(command, password=typed.get("password") or None, **note)

        change = Change(
            title="Create a user",
            button="Create the user",
            breadcrumbs=[("Users and roles", reverse("admin:pools_user_changelist"))],
            form_class=CreateUserForm,
            preview=_creation_preview(actor, username),
            command=lambda form: CreateUser(id=username, roles=form.all_roles),
            service=create,
            success_message=f"User {username} was created.",
            success_url=lambda _: reverse("admin:pools_user_change", args=[username]),
        )
        return ConfirmFlow(self, request, change).respond()

    def _roles_page(self, request: HttpRequest, user: User) -> HttpResponse:
        actor = actor_of(request)

        seen = typed_input(request).get("seen", "")

        def save(command: SetRoles, **note: Any) -> None:
            set_roles(command, expected_roles=seen.split()[1:] if seen else None, **note)

        change = Change(
            title=f"Roles of {user.username}",
            button="Save the roles",
            breadcrumbs=[("Users and roles", reverse("admin:pools_user_changelist")), (user.username, _user_url(user))],
            form_class=UserRolesForm,
            initial={"roles": sorted(user.as_actor().roles)},
            preview=_roles_preview(actor, user),
            command=lambda form: SetRoles(username=user.username, roles=form.all_roles),
            service=save,
            success_message=f"The roles of {user.username} were changed; the change applies from the next request.",
            success_url=_user_url(user),
        )
        return ConfirmFlow(self, request, change).respond()

    def _password_page(self, request: HttpRequest, user: User) -> HttpResponse:
        form = UserPasswordForm(forms.submitted_data(request))
        if request.method == "POST" and form.is_valid():
            try:
                set_password(actor=actor_of(request), username=user.username, password=form.cleaned_data["password"])
            except DomainError as refusal:
                form.add_errors(refusal)
            else:
                self.show_success(request, f"{user.username} has a new password; open sessions were ended.")
                return HttpResponseRedirect(_user_url(user))
        return self._form_page(request, form, user, title=f"Password of {user.username}", button="Set the password")

    def _enable_or_disable_page(self, request: HttpRequest, user: User) -> HttpResponse:
        action = request.POST.get(
            "action"
        )  # the page may be older than another change, so the button sends the action that it shows
        enabling = action == "enable" if action else not user.is_active
        form = forms.ServiceForm(forms.submitted_data(request))
        if request.method == "POST":
            try:
                set_active(actor=actor_of(request), username=user.username, active=enabling)
            except DomainError as refusal:
                form.add_errors(refusal)
            else:
                self.show_success(
                    request, f"The account of {user.username} is {'enabled' if enabling else 'disabled'}."
                )
                return HttpResponseRedirect(_user_url(user))
        lead = (
            f"{user.username} can sign in again, with the same roles and tokens as before."
            if enabling
            else f"{user.username} can no longer sign in, with a password or a token. Running work continues; roles, "
            "tokens and history stay, and the account can be enabled again."
        )
        verb = "Enable" if enabling else "Disable"
        title, button = f"{verb} the account of {user.username}", f"{verb} the account"
        extra = {"action": "enable" if enabling else "disable"}
        return self._form_page(
            request, form, user, title=title, button=button, lead=lead, danger=not enabling, extra=extra
        )

    def _unlink_page(self, request: HttpRequest, username: str, provider: str) -> HttpResponse:
        require_platform(actor_of(request))
        user = _find_user(username)
        form = forms.ServiceForm(forms.submitted_data(request))
        if request.method == "POST":
            try:
                unlink(UnlinkUser(username=username, provider=provider), actor=actor_of(request))
            except DomainError as refusal:
                form.add_errors(refusal)
            else:
                self.show_success(request, f"{username} is no longer linked with {provider}.")
                return HttpResponseRedirect(_user_url(user))
        lead = (
            f"Sessions and client logins of {username} that began at {provider} end. Roles, tokens and work stay; "
            f"without a password nobody can log in as {username} then."
        )
        title = f"Unlink {username} from {provider}"
        return self._form_page(request, form, user, title=title, button="Unlink the account", lead=lead, danger=True)

    def _form_page(self, request: HttpRequest, form: Any, user: User | None = None, **words: Any) -> HttpResponse:
        crumbs = [("Users and roles", reverse("admin:pools_user_changelist"))]
        if user is not None:
            crumbs.append((user.username, _user_url(user)))
        return self.render_form_page(request, form, crumbs=crumbs, script=script_media("picker"), **words)


def _creation_preview(actor: Actor, username: str) -> ObjectPreview[Any]:
    return ObjectPreview(
        actor=actor,
        read_state=lambda: _new_user_state(username),
        label_of=lambda role: f"Role {role}",
        messages=lambda _, after: _creation_messages(username, after),
        warnings=lambda _, after: () if after[CONFIGS] else (f"{username} has no role then, and sees no pool.",),
        tables=lambda _, after: {"rights": right_changes((), after[CONFIGS]), "is_unchanged": False},
        form_words={"script": script_media("picker")},
    )


def _new_user_state(username: str) -> dict[str, Any]:
    user = User.objects.filter(username=username, is_active=True).first()
    if user is None:
        return {CONFIGS: None, "has_password": False}
    return {**_roles_state(user.pk), "has_password": user.has_usable_password()}


def _creation_messages(username: str, after: dict[str, Any]) -> Iterator[str]:
    way = "with the password" if after["has_password"] else "with an access token or a sign-on only: without a password"
    yield f"User {username} is added, and can log in {way}."


def _roles_preview(actor: Actor, user: User) -> ObjectPreview[Any]:
    return ObjectPreview(
        actor=actor,
        read_state=lambda: _roles_state(user.pk),
        label_of=lambda role: f"Role {role}",
        messages=lambda before, after: _role_messages(user, before, after),
        warnings=lambda before, after: _role_warnings(actor, user, before, after),
        tables=lambda before, after: {"rights": right_changes(before[CONFIGS], after[CONFIGS])},
        mark_of=lambda state: " ".join(["roles", *sorted(state[CONFIGS])]),
        form_words={"script": script_media("picker")},
    )


def _roles_state(user_id: int) -> dict[str, Any]:
    return {CONFIGS: dict.fromkeys(sorted(User.objects.get(pk=user_id).as_actor().roles), "held")}


def _role_messages(user: User, before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    old, new = set(before[CONFIGS]), set(after[CONFIGS])
    if old == new:
        return
    changes = right_changes(old, new)
    if not changes:
        yield f"No right of {user.username} changes: other roles give the same rights."
    for each in changes:
        if each.gained:
            yield f"{user.username} gains in {each.place}: {', '.join(each.gained)}."
        if each.lost:
            yield f"{user.username} loses in {each.place}: {', '.join(each.lost)}."
    for token in AccessToken.objects.filter(owner=user).order_by("name"):
        if lost := sorted(set(token.roles or ()) & (old - new)):
            yield f"The access token {token.name} loses {', '.join(lost)}, too."
    lost_pools = [parsed[0] for role in old - new if (parsed := parse_pool_role(role))]
    held = Reservation.objects.filter(owner=user.username, pool__name__in=lost_pools)
    held |= Reservation.objects.filter(owner=user.username, pool__parent__name__in=lost_pools)
    if count := held.count():
        works = "workflow" if count == 1 else "workflows"
        yield f"{user.username} has {count} {works} in these pools; running and waiting work continues."


def _role_warnings(actor: Actor, user: User, before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    if not after[CONFIGS]:
        yield f"{user.username} has no role then, and sees no pool."
    if user.username == actor.username and set(before[CONFIGS]) != set(after[CONFIGS]):
        yield "These are your own roles."


def _find_user(username: str) -> User:
    user = User.objects.filter(username=username).first()
    if user is None:
        raise NotFound(f"User {username} does not exist.")
    return user


def _user_url(user: User) -> str:
    return reverse("admin:pools_user_change", args=[user.username])
