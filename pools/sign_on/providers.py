"""Sign-on through an identity provider (OpenID Connect) or a directory (LDAP): a provider as the operator configures
it, the facts that it states of a person, and the roles that follow from their groups."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pools.domain.errors import Fault, Forbidden, Violation
from pools.domain.people.roles import PREFIX

OFFLINE_SCOPE = "offline_access"
SIGN_ON_ACTOR = "sign-on:"  # how the names of the actors begin whose changes follow from a provider
MAX_GROUPS = 1000
MAX_TEXT = 255  # characters of a subject (OpenID Connect Core, section 2), a name or an address


class SyncMode(StrEnum):
    """How the roles of an account follow its groups: OSMO's three ways.

    `import` adds the roles of the groups and removes none, `force` leaves exactly the roles of the groups, `ignore`
    changes none.
    """

    IMPORT = "import"
    FORCE = "force"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class SignOnProvider:
    """One provider of people and their groups. `issuer` names it for ever, together with the ids of its people.
    `roles_by_group` maps a group to its roles; with `groups_are_roles` a group that is called like a role (osmo-...)
    gives this role, too. Durations are in seconds."""

    name: str
    title: str
    issuer: str
    sync: SyncMode = field(default=SyncMode.FORCE, kw_only=True)
    roles_by_group: Mapping[str, frozenset[str]] = field(default_factory=dict, kw_only=True)
    groups_are_roles: bool = field(default=False, kw_only=True)
    allowed_groups: frozenset[str] = field(default=frozenset(), kw_only=True)
    session_seconds: int = field(default=12 * 3600, kw_only=True)


@dataclass(frozen=True, slots=True)
class OpenIdProvider(SignOnProvider):
    """A provider that speaks OpenID Connect. `parameters` are added to the request for a sign-on."""

    client_id: str
    client_secret: str = field(repr=False)
    scopes: tuple[str, ...] = ("openid", "profile", "email", "offline_access")
    username_claim: str = "preferred_username"
    groups_claim: str = "groups"
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def extra_parameters(self) -> dict[str, str]:
        """Further parameters of the request for a sign-on. A provider may ignore the scope offline_access without the
        consent of the person (OpenID Connect Core, section 11), so it is requested; an empty value leaves a parameter
        out."""
        consent = {"prompt": "consent"} if OFFLINE_SCOPE in self.scopes else {}
        return {name: value for name, value in {**consent, **self.parameters}.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class LdapDirectory(SignOnProvider):
    """A directory that speaks LDAP. `urls` are tried in this order, each `ldaps://`, or `ldap://` with StartTLS unless
    `is_encrypted` is false; authorities are in `ca_file` or `ca_text` (PEM), else those of the system. Without
    `bind_dn` searches are anonymous. A person is one entry below `user_base` that matches `user_filter` and has the
    typed name in one of `login_attributes`; `id_attribute` never changes. Groups are the entries below `group_base`
    that match `group_filter`, in which `{dn}` and `{username}` are the person's."""

    urls: tuple[str, ...]
    user_base: str
    ca_file: str = ""
    ca_text: str = ""
    is_encrypted: bool = True
    bind_dn: str = ""
    bind_password: str = field(default="", repr=False)
    user_filter: str = "(objectClass=person)"
    login_attributes: tuple[str, ...] = ("uid",)
    username_attribute: str = "uid"
    id_attribute: str = "entryUUID"
    mail_attribute: str = "mail"
    group_base: str = ""
    group_filter: str = "(member={dn})"
    group_attribute: str = "cn"


@dataclass(frozen=True, slots=True)
class ProviderFacts:
    """The verified statement of a provider on one person. `subject` is the person's id there, which never changes; the
    other texts may. `is_renewable`: the provider can confirm the sign-on again without the person, by `refresh_token`
    if it is not a directory; `lifetime` is the remaining time of the statement in seconds."""

    issuer: str
    subject: str
    username: str = ""
    email: str = ""
    groups: tuple[str, ...] = ()
    refresh_token: str = field(default="", repr=False)
    id_token: str = field(default="", repr=False)
    session_id: str = ""
    lifetime: float = 0.0
    is_renewable: bool = False


def parse_role_map(entries: Iterable[str]) -> dict[str, frozenset[str]]:
    """`GROUP=ROLE` entries, several roles of a group with `+` between them. Raises ValueError with the number of the
    wrong entry.

    The last `=` separates, because the name of a group may contain one.
    """
    found: dict[str, frozenset[str]] = {}
    for number, entry in enumerate(entries, start=1):
        group, separator, roles = entry.strip().rpartition("=")
        names = frozenset(role.strip() for role in roles.split("+") if role.strip())
        if not separator or not group.strip() or not names:
            raise ValueError(f"entry {number} is not GROUP=ROLE")
        if not all(name.startswith(PREFIX) for name in names):
            raise ValueError(f"entry {number} does not name a role: names of roles begin with {PREFIX}")
        found[group.strip()] = found.get(group.strip(), frozenset()) | names
    return found


_OWN_PARAMETERS = frozenset(
    {
        "response_type", "response_mode", "client_id", "redirect_uri", "scope", "state", "nonce", "code_challenge",
        "code_challenge_method", "request", "request_uri",
    }
)  # fmt: skip
_PARAMETER_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


def parse_parameters(entries: Iterable[str]) -> dict[str, str]:
    """`NAME=VALUE` entries for the request for a sign-on. Raises ValueError with the number of the wrong entry."""
    found: dict[str, str] = {}
    for number, entry in enumerate(entries, start=1):
        name, separator, value = (part.strip() for part in entry.partition("="))
        if not separator or not _PARAMETER_NAME.fullmatch(name):
            raise ValueError(f"entry {number} is not NAME=VALUE")
        if name in _OWN_PARAMETERS:
            raise ValueError(f"{name} is set by OSMO Admin itself")
        if name in found:
            raise ValueError(f"{name} is given twice")
        if name == "max_age" and value and not (value.isascii() and value.isdigit() and len(value) < 10):
            raise ValueError("max_age is a number of seconds")
        found[name] = value
    return found


def not_renewable_message(title: str) -> str:
    """What follows where a provider has given no refresh token, for the person."""
    return (
        f"{title} gave no refresh token, so it cannot confirm you again: a change of your groups there counts "
        "at your next sign-on, and this one ends when the statement of the provider does."
    )


def roles_of_groups(provider: SignOnProvider, groups: Collection[str]) -> frozenset[str]:
    """The roles that these groups give, some of which may not exist (yet)."""
    found: set[str] = set()
    for group in groups:
        found |= provider.roles_by_group.get(group, frozenset())
        if provider.groups_are_roles and group.startswith(PREFIX):
            found.add(group)
    return frozenset(found)


def roles_after_sync(held: Collection[str], given: Iterable[tuple[SyncMode, Collection[str]]]) -> frozenset[str]:
    """The roles of an account after a sync, from the roles that it holds and those that each of its providers gives.

    An account with several providers has the roles of all of them; if one of them is `force`, it has no others.
    """
    synced = [(mode, frozenset(roles)) for mode, roles in given if mode is not SyncMode.IGNORE]
    wanted = frozenset().union(*(roles for _, roles in synced))
    is_exact = any(mode is SyncMode.FORCE for mode, _ in synced)
    return wanted if is_exact else frozenset(held) | wanted


def require_admitted(provider: SignOnProvider, groups: Collection[str]) -> None:
    """Refuse a person without any of the groups that may sign on. Raises Forbidden."""
    if provider.allowed_groups and provider.allowed_groups.isdisjoint(groups):
        allowed = ", ".join(sorted(provider.allowed_groups))
        message = f"Your account at {provider.title} is in none of the groups that may sign on here ({allowed})."
        raise Forbidden.of([Violation("groups", Fault.NOT_ADMITTED, message)])


def claim_value(claims: Mapping[str, Any], path: str) -> Any:
    """The value of a claim; dots lead into objects (`realm_access.roles`), unless a claim has the whole name."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for part in path.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return found


def facts_of_claims(provider: OpenIdProvider, claims: Mapping[str, Any]) -> ProviderFacts:
    """The facts in verified claims. Absent groups mean none. Raises Forbidden with what is missing or too much."""
    subject, username = claims.get("sub"), claim_value(claims, provider.username_claim)
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_TEXT:
        raise _unusable(provider, "sub", f"a subject (claim sub) of 1 to {MAX_TEXT} characters")
    if not isinstance(username, str) or not 0 < len(username) <= MAX_TEXT:
        raise _unusable(provider, provider.username_claim, f"a name (claim {provider.username_claim})")
    email = claims.get("email") if claims.get("email_verified") is True else ""
    return ProviderFacts(
        issuer=provider.issuer,
        subject=subject,
        username=username,
        email=email if isinstance(email, str) and len(email) <= MAX_TEXT else "",
        groups=_groups_of(provider, claims),
        session_id=sid if isinstance(sid := claims.get("sid"), str) else "",
    )


def _groups_of(provider: OpenIdProvider, claims: Mapping[str, Any]) -> tuple[str, ...]:
    elsewhere = claims.get("_claim_names")
    if isinstance(elsewhere, Mapping) and provider.groups_claim in elsewhere:
        raise _unusable(provider, provider.groups_claim, "the groups themselves; it names another place for them")
    groups = claim_value(claims, provider.groups_claim)
    listed = [groups] if isinstance(groups, str) else groups or []
    if not isinstance(listed, list) or len(listed) > MAX_GROUPS or not all(isinstance(each, str) for each in listed):
        raise _unusable(provider, provider.groups_claim, f"a list of at most {MAX_GROUPS:,} groups")
    return tuple(sorted({group.removeprefix("/") for group in listed if 0 < len(group) <= MAX_TEXT}))


def _unusable(provider: SignOnProvider, claim: str, expected: str) -> Forbidden:
    message = f"{provider.title} does not send {expected}. Ask the people who run it, or an osmo-admin."
    return Forbidden(message, [Violation(claim, Fault.UNUSABLE_CLAIM, message)])
