"""Users and their roles, for the platform's admins and viewers; for everybody, their own account."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from django.contrib import admin
from django.forms import Field
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse

from pools.admin import forms
from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.command_forms import CommandForm, reason_field
from pools.admin.confirm_flow import Change, ConfirmFlow, FieldGroup, change_paths, typed_input
from pools.admin.filters import UserPageFilterSet
from pools.admin.forms import script_media
from pools.admin.object_preview import CONFIGS, ObjectPreview
from pools.admin.paging import paginate
from pools.domain.changes.command import ChangeCommand
from pools.domain.changes.users import CreateUser, SetActive, SetPassword, SetRoles, UnlinkUser
from pools.domain.list_columns import IDENTITY_COLUMNS, ROLE_COLUMNS, TOKEN_COLUMNS, USER_COLUMNS
from pools.domain.people.role_changes import right_changes
from pools.domain.people.roles import (
    PLATFORM_ROLES,
    Actor,
    Permission,
    PoolRoleKind,
    is_allowed,
    parse_pool_role,
    pool_role,
)
from pools.domain.structured_input.declared_values import fields_of
from pools.domain.values.counting import counted
from pools.models import AccessToken, Pool, Reservation, RoleAssignment, User
from pools.permissions import require_platform
from pools.representations.csv_files import MAX_CSV_ROWS, is_csv_request, list_csv
from pools.selectors.users import list_accounts, read_user
from pools.services.people.accounts import set_active, set_roles
from pools.services.people.users import create_user, set_password
from pools.sign_on.accounts import unlink
from pools.sign_on.identities import identity_rows, linkable_providers, roles_kept_from_groups

if TYPE_CHECKING:
    from django.http import QueryDict

_NAME, _ROLES, _PASSWORD = (
    fields_of(kind)[name] for kind, name in ((CreateUser, "id"), (SetRoles, "roles"), (SetPassword, "password"))
)
MAX_POOLS_LISTED = 10  # the roles of more pools are typed or completed


class UserRolesForm(CommandForm):
    """Roles as check boxes: those of the platform and those that are chosen, and with few pools all roles. The service
    judges each."""

    field_order: Sequence[str] = ("roles", "more_roles", "description")
    groups: ClassVar[Sequence[FieldGroup]] = (
        FieldGroup("Roles", ("roles", "more_roles")),
        FieldGroup("Why", ("description",)),
    )
    roles = forms.multiple_choice_field(_ROLES.label)
    more_roles = forms.text_field(
        "Further roles",
        help_text="osmo-POOL-admin divides a pool into subpools; osmo-POOL-user submits to it. Several with a space "
        "between them.",
        data_complete="roles",
        data_into="id_roles",
        data_boxes="roles",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        chosen = cast("QueryDict", self.data).getlist("roles") if self.is_bound else self.initial.get("roles", ())
        pools = list(Pool.objects.roots().order_by("name").values_list("name", flat=True)[: MAX_POOLS_LISTED + 1])
        listed = pools if len(pools) <= MAX_POOLS_LISTED else []
        roles = [*PLATFORM_ROLES, *(pool_role(pool, kind) for pool in listed for kind in PoolRoleKind), *chosen]
        self.fields["roles"].choices = [(role, role) for role in dict.fromkeys(roles)]  # type: ignore[attr-defined]

    def own_fields(self) -> dict[str, Field]:
        """The reason."""
        return {"description": reason_field()}

    def add_error(self, field: str | None, error: Any) -> None:
        """A role that does not exist was typed: the others are chosen among those that do."""
        super().add_error("more_roles" if field == "roles" and self.cleaned_data.get("more_roles") else field, error)

    def command(self) -> ChangeCommand:
        """The change, with the checked and the typed roles."""
        typed = self.cleaned_data["more_roles"].replace(",", " ").split()
        values = {**self.given, "roles": list(dict.fromkeys([*self.cleaned_data["roles"], *typed]))}
        return self.kind(**values)


class CreateUserForm(UserRolesForm):
    """A new user."""

    field_by_path = {"id": "username"}
    field_order = ("username", "password", *UserRolesForm.field_order)
    groups = (FieldGroup("User", ("username", "password")), *UserRolesForm.groups)
    username = forms.text_field(_NAME.label, help_text=_NAME.help, required=True)
    password = forms.password_field(
        "Password", help_text="Leave it empty for a user who signs in by access token only.", required=False
    )


class UserPasswordForm(forms.ServiceForm):
    """A new password for a user who lost the old one."""

    password = forms.password_field(_PASSWORD.label, help_text=_PASSWORD.help)


@admin.register(User)
class UserAdmin(PolicyAdmin):
    """The list is for the platform's admins and viewers; everybody may open their own page."""

    address = "users"

    def extra_urls(self) -> list[URLPattern]:
        def protect_user_view(view: Callable[..., HttpResponse]) -> Any:
            def user_view(request: HttpRequest, username: str, **place: str) -> HttpResponse:
                require_platform(actor_of(request))
                return view(request, read_user(actor_of(request), username), **place)

            return self.protect(user_view)

        return [
            *change_paths("users/-/create", self.protect(self._create_page), name="pools_user_create"),
            *change_paths("users/<str:username>/roles", protect_user_view(self._roles_page), name="pools_user_roles"),
            path("users/<str:username>/password", protect_user_view(self._password_page), name="pools_user_password"),
            path(
                "users/<str:username>/unlink/<str:provider>",
                protect_user_view(self._unlink_page),
                name="pools_user_unlink",
            ),
            path(
                "users/<str:username>/close", protect_user_view(self._enable_or_disable_page), name="pools_user_close"
            ),
        ]

    def show_list(self, request: HttpRequest) -> HttpResponse:
        actor = actor_of(request)
        filters = UserPageFilterSet(request, list_accounts(actor))
        if is_csv_request(request):
            return list_csv("users", USER_COLUMNS, filters.qs[:MAX_CSV_ROWS])
        return self.render_page(
            request,
            "osmo/users.html",
            title="Users",
            columns=USER_COLUMNS,
            filters=filters,
            window=paginate(filters.qs, request.GET.get("page")),
            may_write=is_allowed(actor, Permission.PLATFORM_WRITE),
        )

    def show_object(self, request: HttpRequest, object_id: str) -> HttpResponse:
        actor = actor_of(request)
        is_self = object_id == actor.username
        user = read_user(actor, object_id)
        return self.render_page(
            request,
            "osmo/user.html",
            title=user.username,
            crumbs=_crumbs() if is_allowed(actor, Permission.PLATFORM_READ) else [],
            person=user,
            is_self=is_self,
            role_columns=ROLE_COLUMNS,
            roles=RoleAssignment.objects.filter(user=user).select_related("group").order_by("group__name"),
            token_columns=TOKEN_COLUMNS,
            tokens=user.tokens.order_by("name"),
            identity_columns=IDENTITY_COLUMNS,
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

        change = Change(
            title="Create a user",
            button="Create the user",
            breadcrumbs=_crumbs(),
            form_class=partial(CreateUserForm, CreateUser, {"id": username}),
            preview=_preview(actor, partial(_new_user_state, username)),
            service=partial(create_user, password=typed.get("password") or None),
            success_message=f"User {username} was created.",
            success_url=_user_url,
        )
        return ConfirmFlow(self, request, change).respond()

    def _roles_page(self, request: HttpRequest, user: User) -> HttpResponse:
        change = Change(
            title=f"Roles of {user.username}",
            button="Save the roles",
            breadcrumbs=_crumbs(user),
            form_class=partial(UserRolesForm, SetRoles, {"username": user.username}),
            initial={"roles": sorted(user.as_actor().roles)},
            preview=_preview(actor_of(request), partial(_roles_state, user.username)),
            service=set_roles,
            success_message=f"The roles of {user.username} were changed; the change applies from the next request.",
            success_url=_user_url(user),
        )
        return ConfirmFlow(self, request, change).respond()

    def _password_page(self, request: HttpRequest, user: User) -> HttpResponse:
        form = UserPasswordForm(forms.submitted_data(request))

        def save() -> HttpResponse:
            command = SetPassword(username=user.username, password=form.cleaned_data["password"])
            set_password(command, actor=actor_of(request))
            return self._saved(request, user, f"{user.username} has a new password; open sessions were ended.")

        title = f"Password of {user.username}"
        return self.change_by_form(request, form, save, title=title, button="Set the password", crumbs=_crumbs(user))

    def _enable_or_disable_page(self, request: HttpRequest, user: User) -> HttpResponse:
        action = request.POST.get(
            "action"
        )  # the page may be older than another change, so the button sends the action that it shows
        enabling = action == "enable" if action else not user.is_active
        verb = "enable" if enabling else "disable"

        def save() -> HttpResponse:
            set_active(SetActive(username=user.username, active=enabling), actor=actor_of(request))
            return self._saved(request, user, f"The account of {user.username} is {verb}d.")

        lead = (
            f"{user.username} can sign in again, with the same roles and tokens as before."
            if enabling
            else f"{user.username} can no longer sign in, with a password or a token. Running work continues; roles, "
            "tokens and history stay, and the account can be enabled again."
        )
        return self.change_by_form(
            request,
            forms.ServiceForm(forms.submitted_data(request)),
            save,
            title=f"{verb.capitalize()} the account of {user.username}",
            button=f"{verb.capitalize()} the account",
            crumbs=_crumbs(user),
            lead=lead,
            danger=not enabling,
            extra={"action": verb},
        )

    def _unlink_page(self, request: HttpRequest, user: User, provider: str) -> HttpResponse:
        def save() -> HttpResponse:
            unlink(UnlinkUser(username=user.username, provider=provider), actor=actor_of(request))
            return self._saved(request, user, f"{user.username} is no longer linked with {provider}.")

        return self.change_by_form(
            request,
            forms.ServiceForm(forms.submitted_data(request)),
            save,
            title=f"Unlink {user.username} from {provider}",
            button="Unlink the account",
            crumbs=_crumbs(user),
            lead=f"Sessions and client logins of {user.username} that began at {provider} end. Roles, tokens and work "
            f"stay; without a password nobody can log in as {user.username} then.",
            danger=True,
        )

    def _saved(self, request: HttpRequest, user: User, message: str) -> HttpResponse:
        self.show_success(request, message)
        return HttpResponseRedirect(_user_url(user))


def _preview(actor: Actor, read_state: Callable[[], dict[str, Any]]) -> ObjectPreview[Any]:
    return ObjectPreview(
        actor=actor,
        read_state=read_state,
        label_of="Role {}".format,
        messages=_messages,
        warnings=partial(_warnings, actor.username),
        tables=_tables,
        form_words={"script": script_media("picker")},
    )


def _new_user_state(username: str) -> dict[str, Any]:
    user = User.objects.filter(username=username, is_active=True).first()
    if user is None:
        return {CONFIGS: None}
    return {**_roles_state(username), "has_password": user.has_usable_password()}


def _roles_state(username: str) -> dict[str, Any]:
    roles = sorted(User.objects.get(username=username).as_actor().roles)
    return {CONFIGS: dict.fromkeys(roles, "held"), "username": username}


def _tables(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    if before[CONFIGS] is None:
        return {"rights": right_changes((), after[CONFIGS]), "is_unchanged": False}
    return {"rights": right_changes(before[CONFIGS], after[CONFIGS])}


def _messages(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    username = after["username"]
    if before[CONFIGS] is None:
        others = "with an access token or a sign-on only: without a password"
        yield f"User {username} is added, and can log in {'with the password' if after['has_password'] else others}."
        return
    old, new = set(before[CONFIGS]), set(after[CONFIGS])
    if old == new:
        return
    changes = right_changes(old, new)
    if not changes:
        yield f"No right of {username} changes: other roles give the same rights."
    for each in changes:
        if each.gained:
            yield f"{username} gains in {each.place}: {', '.join(each.gained)}."
        if each.lost:
            yield f"{username} loses in {each.place}: {', '.join(each.lost)}."
    for token in AccessToken.objects.filter(owner__username=username).order_by("name"):
        if lost := sorted(set(token.roles or ()) & (old - new)):
            yield f"The access token {token.name} loses {', '.join(lost)}, too."
    lost_pools = [parsed[0] for role in old - new if (parsed := parse_pool_role(role))]
    held = Reservation.objects.filter(owner=username, pool__name__in=lost_pools)
    held |= Reservation.objects.filter(owner=username, pool__parent__name__in=lost_pools)
    if count := held.count():
        yield f"{username} has {counted(count, 'workflow')} in these pools; running and waiting work continues."


def _warnings(actor_name: str, before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    if not after[CONFIGS]:
        yield f"{after['username']} has no role then, and sees no pool."
    if after["username"] == actor_name and before[CONFIGS] != after[CONFIGS]:
        yield "These are your own roles."


def _crumbs(user: User | None = None) -> list[tuple[str, str]]:
    top = ("Users", reverse("admin:pools_user_changelist"))
    return [top] if user is None else [top, (user.username, _user_url(user))]


def _user_url(user: User) -> str:
    return reverse("admin:pools_user_change", args=[user.username])
