"""Users and their roles."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db.models.functions import Now

from pools.database.transactions import change
from pools.domain.changes.profiles import UpdateProfile
from pools.domain.changes.users import CreateUser, DeleteUser, GrantRole, RevokeRole, SetPassword
from pools.domain.errors import BadInput, Conflict, Fault, NotFound, Violation
from pools.domain.people.notices import Channel, check_address
from pools.domain.people.roles import (
    PLATFORM_ADMIN,
    PLATFORM_ROLES,
    SYSTEM,
    Actor,
    PoolRoleKind,
    parse_pool_role,
    pool_role,
)
from pools.domain.people.user_names import user_name_violations
from pools.locking import lock_last, lock_role, lock_user
from pools.models import (
    AccessToken,
    ClientLogin,
    IdempotencyRecord,
    InboxNotice,
    InboxRead,
    NoticeTarget,
    Pool,
    RoleAssignment,
    SavedView,
    SignOnIdentity,
    User,
)
from pools.permissions import require_own_account, require_platform
from pools.selectors.profile import submittable_pools

MAX_MAIL_ADDRESS = 254  # as long as the column


def create_user(
    command: CreateUser,
    *,
    actor: Actor,
    password: str | None = None,
    description: str = "",
    skip_password_rules: bool = False,
) -> User:
    """Create a user with roles, or restore a removed one with these roles only. Without a password the user can only
    log in by token. With `skip_password_rules` any password is accepted, for an operator on the server. Raises
    BadInput, Conflict, Throttled."""
    require_platform(actor)
    username, roles = command.username, command.roles
    found = [*_username_violations(username), *role_violations(roles)]
    if not skip_password_rules:
        found += _password_violations(password, username)
    if found:
        raise BadInput.of(found)
    encoded = make_password(password)  # takes most of a second, so no lock is held meanwhile
    with change(actor=actor, description=description):
        user = lock_user(username) or User(username=username, is_active=False)
        if user.is_active:
            raise Conflict(f"User {username} exists already.")
        _require_unlike_others(username)
        if user.pk and not user.is_removed:
            raise Conflict(
                f"User {username} exists already; the account is disabled. Enable it, in the browser or with "
                f"`osmo-admin user enable {username}`."
            )
        # The clock of the audit trail: earlier entries of this name belong to another person.
        user.is_active, user.is_removed = True, False
        user.created_by, user.date_joined = actor.username, Now()
        user.password = encoded
        user.save()
        user.refresh_from_db(fields=["date_joined"])
        _grant(user, roles, actor)
        return user


def delete_user(command: DeleteUser, *, actor: Actor, description: str = "") -> None:
    """Remove a user, also a disabled one, with its roles and tokens. A user with recorded workflows keeps its row, and
    so its name."""
    require_platform(actor)
    username = command.username
    if username == actor.username:
        raise BadInput("You cannot remove yourself; ask another osmo-admin.")
    with change(actor=actor, description=description):
        user = _find_user(username, with_disabled=True, for_deletion=True)  # before the role is held
        require_another_admin(user)
        if user.workflows.exists():  # the scheduling app defines this reverse relation
            user.is_active, user.is_removed = False, True
            user.set_unusable_password()
            # A later person of this name begins anew: nothing of theirs goes to addresses of this one.
            user.email = user.default_pool = ""
            user.email_notification = user.slack_notification = False
            user.save(
                update_fields=[
                    "is_active", "is_removed", "password", "email", "default_pool", "email_notification",
                    "slack_notification",
                ]
            )  # fmt: skip
            NoticeTarget.objects.filter(user=user).delete()
            RoleAssignment.objects.filter(user=user).delete()
            AccessToken.objects.filter(owner=user).delete()
            SignOnIdentity.objects.filter(user=user).delete()
            IdempotencyRecord.objects.filter(user_id=user.pk).delete()
            SavedView.objects.filter(owner=user).delete()
            InboxNotice.objects.filter(owner=user).delete()
            InboxRead._default_manager.filter(person=user).delete()
            ClientLogin.objects.filter(user=user).delete()
            user.replays.all().delete()  # the scheduling app defines this reverse relation, too
        else:
            user.delete()


def set_password(command: SetPassword, *, actor: Actor, description: str = "") -> None:
    """Give a user another password. Allowed for an osmo-admin, and for the users themselves unless they act through a
    token, which may have fewer roles than the account."""
    username = command.username
    if actor.username != username or actor.token is not None:
        require_platform(actor)
    if found := _password_violations(command.password, username):
        raise BadInput.of(found)
    encoded = make_password(command.password)  # as in `create_user`
    with change(actor=actor, description=description):
        user = _find_user(username)
        user.password = encoded
        user.save(update_fields=["password"])


def record_password_login(user: User) -> None:
    """Leave an entry in the audit trail: where there is an identity provider, a login by password is an exception."""
    with change(actor=user.as_actor()):
        User.objects.filter(pk=user.pk).update(password_login_at=Now())


def grant_role(command: GrantRole, *, actor: Actor, description: str = "") -> RoleAssignment:
    """Give a role to a user; a role that the user has already is not an error."""
    require_platform(actor)
    role = command.role_name
    if found := role_violations([role], "role_name"):
        raise BadInput.of(found)
    with change(actor=actor, description=description):
        user = _find_user(command.username)
        _grant(user, [role], actor)
        return RoleAssignment.objects.select_related("group", "user").get(user=user, group__name=role)


def revoke_role(command: RevokeRole, *, actor: Actor, description: str = "") -> None:
    """Remove a role from a user, also a disabled one, and from every token of the user that carries it."""
    require_platform(actor)
    username, role = command.username, command.role_name
    if username == actor.username and role == PLATFORM_ADMIN:
        raise BadInput(f"You cannot take {PLATFORM_ADMIN} from yourself; ask another {PLATFORM_ADMIN}.")
    with change(actor=actor, description=description):
        lock_user(username)  # a token that is made meanwhile has the role in its list, too
        user = _find_user(username, with_disabled=True)
        if role == PLATFORM_ADMIN:
            require_another_admin(user)
        deleted_count, _ = RoleAssignment.objects.filter(user=user, group__name=role).delete()
        if not deleted_count:
            raise NotFound(f"User {username} does not have the role {role}.")
        for token in lock_last(AccessToken.objects.filter(owner=user, roles__contains=[role])):
            token.roles = [held for held in token.roles or () if held != role]
            token.save(update_fields=["roles"])


def require_another_admin(user: User) -> None:
    """Refuse a change after which no open account could run OSMO Admin: `user` is about to lose the role.

    Locks the role until the transaction ends, so that two admins who close each other's account do so one after the
    other.
    Raises Conflict.
    """
    lock_role(PLATFORM_ADMIN)
    if [*User.objects.filter(is_active=True, groups__name=PLATFORM_ADMIN)[:2]] == [user]:
        raise Conflict.of(
            [
                Violation(
                    "roles",
                    Fault.LAST_ADMIN,
                    f"{user.username} has the last open account with the role {PLATFORM_ADMIN}; without it nobody "
                    "could run OSMO Admin. Assign the role to another user first.",
                )
            ]
        )


def list_roles(username: str) -> list[str]:
    """The roles of a user by name, also of a disabled one. Raises NotFound."""
    return sorted(_find_user(username, with_disabled=True).as_actor().roles)


def update_profile(command: UpdateProfile, *, actor: Actor, description: str = "") -> User:
    """Change the actor's own settings; None keeps a setting, an empty `email` removes the address. Raises BadInput for
    a pool to which the actor may not submit and for a text that is not a mail address, Forbidden for the notices of the
    account and a token with fewer roles than its owner, Conflict for the address of an account of an identity provider,
    which states it at each sign-on."""
    pool, email = command.pool, command.email
    if (email, command.email_notification, command.slack_notification) != (None, None, None):
        require_own_account(actor)
    with change(actor=actor, description=description):
        user = _find_user(actor.username)
        if email is not None and email != user.email:
            _check_own_mail_address(user, email)
            user.email = email
        if pool is not None:
            if pool not in submittable_pools(actor):
                # The sentence of OSMO's client, which names the pool (design, O4).
                raise BadInput.of([Violation("pool", Fault.UNKNOWN_POOL, f"Pool {pool} not found.")])
            user.default_pool = pool
        if command.email_notification is not None:
            user.email_notification = command.email_notification
        if command.slack_notification is not None:
            user.slack_notification = command.slack_notification
        user.save(update_fields=["default_pool", "email_notification", "slack_notification", "email"])
        switched_on = [
            channel
            for channel, is_on in (
                (Channel.MAIL, command.email_notification),
                (Channel.SLACK, command.slack_notification),
            )
            if is_on
        ]
        NoticeTarget.objects.filter(user=user, is_profile=True, channel__in=switched_on, is_enabled=False).update(
            is_enabled=True, off_reason="", failures=0, retry_at=None
        )
        return user


def _check_own_mail_address(user: User, email: str) -> None:
    if email and (faults := check_address(Channel.MAIL, email, needs_tls=False).faults):
        raise BadInput.of([replace(fault, path="email") for fault in faults])
    if len(email) > MAX_MAIL_ADDRESS:
        message = f"The mail address has {len(email)} characters; at most {MAX_MAIL_ADDRESS} are possible."
        raise BadInput.of([Violation("email", Fault.BAD_ADDRESS, message)])
    identity = SignOnIdentity.objects.filter(user=user).first()
    if identity is not None:
        message = (
            f"The mail address of {user.username} comes from the identity provider {identity.provider}: change it "
            "there. The next sign-on brings it here."
        )
        raise Conflict(message, [Violation("email", Fault.ADDRESS_OF_PROVIDER, message)])


def create_pool_roles(*pools: str) -> None:
    """Create the two roles of each new top-level pool; they stay when the pool is archived."""
    roles = [Group(name=pool_role(pool, kind)) for pool in pools for kind in PoolRoleKind]
    Group.objects.bulk_create(roles, ignore_conflicts=True)


def delete_pool_roles(pool: str) -> None:
    """Remove the roles of a deleted pool, so that its former users have no role on a later pool of that name."""
    Group.objects.filter(name__in=[pool_role(pool, kind) for kind in PoolRoleKind]).delete()


def rename_default_pool(old: str, new: str) -> None:
    """Update the profiles whose default pool was renamed."""
    User.objects.filter(default_pool=old).update(default_pool=new)


def rename_pool_roles(old: str, new: str) -> None:
    """Rename the roles of a renamed pool; their users and tokens keep them."""
    for kind in PoolRoleKind:
        was, becomes = pool_role(old, kind), pool_role(new, kind)
        Group.objects.filter(name=becomes).exclude(users__isnull=False).delete()
        Group.objects.filter(name=was).update(name=becomes)
        for token in lock_last(AccessToken.objects.filter(roles__contains=[was])):
            token.roles = [becomes if held == was else held for held in token.roles or ()]
            token.save(update_fields=["roles"])


def _find_user(username: str, *, with_disabled: bool = False, for_deletion: bool = False) -> User:
    user = lock_user(username, for_deletion=True) if for_deletion else User.objects.filter(username=username).first()
    if user is None or user.is_removed or not (user.is_active or with_disabled):
        raise NotFound(f"User {username} does not exist{'' if with_disabled else ', or the account is disabled'}.")
    return user


def _grant(user: User, roles: Collection[str], actor: Actor) -> None:
    for role in roles:
        group, _ = Group.objects.get_or_create(name=role)
        RoleAssignment.objects.get_or_create(user=user, group=group, defaults={"assigned_by": actor.username})


def _username_violations(username: str) -> list[Violation]:
    if found := user_name_violations(username):
        return found
    if username == SYSTEM.username:
        return [Violation("id", Fault.RESERVED_USERNAME, "This is the name of the system in the audit trail.")]
    return []


def _require_unlike_others(username: str) -> None:
    """Refuse a name that differs from that of an account in capitals only. Raises Conflict."""
    other = User.objects.filter(username__iexact=username, is_active=True).exclude(username=username).first()
    if other is not None:
        message = f"User {other.username} exists already, and the names differ in capitals only. Choose another name."
        raise Conflict.of([Violation("id", Fault.USERNAME_DIFFERS_IN_CAPITALS, message)])


def role_violations(roles: Collection[str], path: str = "roles", *, held: Collection[str] = ()) -> list[Violation]:
    """The violation of unknown roles, which it names by their numbers. The two platform roles always exist, and those
    that are `held`; the roles of a pool exist as long as the pool."""
    exist = {*PLATFORM_ROLES, *held}
    of_pools = {number: parse_pool_role(role) for number, role in enumerate(roles, 1) if role not in exist}
    unknown = [
        str(number)
        for number, parsed in of_pools.items()
        if not (parsed and Pool.objects.roots().filter(name=parsed[0]).exists())
    ]
    if not unknown:
        return []
    which = f": number {', '.join(unknown)} of those given" if len(roles) > 1 else ""
    known = f"{', '.join(PLATFORM_ROLES)}, and osmo-POOL-admin and osmo-POOL-user of each pool"
    return [Violation(path, Fault.UNKNOWN_ROLE, f"There is no such role{which}. Roles are {known}.")]


def _password_violations(password: str | None, username: str) -> list[Violation]:
    if password is None:
        return []
    try:
        validate_password(password, User(username=username))
    except ValidationError as error:
        return [Violation("password", Fault.WEAK_PASSWORD, message) for message in error.messages]
    return []
