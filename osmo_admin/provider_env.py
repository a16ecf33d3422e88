"""The settings of identity providers and directories: those of `corp` begin with `OSMO_SSO_CORP_` or
`OSMO_LDAP_CORP_`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from environs import Env as Reader
from environs import EnvError, ValidationError, validate

from osmo_admin.settings_sections import SettingsSection
from pools.sign_on.providers import (
    LdapDirectory,
    OpenIdProvider,
    SignOnProvider,
    SyncMode,
    parse_parameters,
    parse_role_map,
)

_OF_BOTH = {
    "TITLE": "its name on the login page; none: NAME",
    "ROLES": "`GROUP=ROLE`, several separated by `;`, several roles of a group by `+`: "
    "`gpu-admins=osmo-admin;team-a=osmo-team-a-user`",
    "GROUPS_ARE_ROLES": "a group that is called `osmo-…` gives the role of this name; only where people cannot make "
    "groups themselves",
    "SYNC": "`force`: a user has exactly the roles of their groups; `import`: roles are added and never removed; "
    "`ignore`: groups change nothing",
    "ALLOWED_GROUPS": "only members of one of these groups (separated by `;`) sign on; none: everybody",
    "SESSION_HOURS": "the hours of the longest session, if the provider does not end it earlier",
}
_DEFAULTS_OF_BOTH = {"GROUPS_ARE_ROLES": "false", "SYNC": "force", "SESSION_HOURS": "12"}
PROVIDERS = SettingsSection(
    "An identity provider",
    "`OSMO_SSO` lists the names of identity providers, in small letters and digits. Each of these begins with "
    "`OSMO_SSO_NAME_` ([sign-on.md](sign-on.md)).",
    {
        "ISSUER": "required: the address of the provider, exactly as in its metadata; `https://`, or `http://` of this "
        "machine without `OSMO_SECURE`",
        "CLIENT_ID": "required: of the registration",
        "CLIENT_SECRET": "none for a public client. It is sent form-encoded, then as HTTP Basic (RFC 6749, 2.3.1); a "
        "provider that does not decode it needs a secret of letters, digits and `-._~`",
        "CLIENT_SECRET_FILE": "the path of a file with the secret",
        "GROUPS_CLAIM": "the claim with the groups; dots lead into objects, as `realm_access.roles`",
        "USERNAME_CLAIM": "the claim with the name of a new account",
        "SCOPES": "the scopes of a sign-on; `openid` is always added",
        "PARAMETERS": "further parameters of the request to the provider, `NAME=VALUE` separated by `;`, as "
        "`acr_values=gold;max_age=3600`. With the scope `offline_access` the request has `prompt=consent`; an empty "
        "value leaves it out (`prompt=`)",
        **_OF_BOTH,
    },
    {
        "GROUPS_CLAIM": "groups",
        "USERNAME_CLAIM": "preferred_username",
        "SCOPES": "profile,email,offline_access",
        **_DEFAULTS_OF_BOTH,
    },
)
DIRECTORIES = SettingsSection(
    "A directory",
    "`OSMO_LDAP` lists the names of directories. Each of these begins with `OSMO_LDAP_NAME_` "
    "([sign-on.md](sign-on.md#a-directory-ldap)).",
    {
        "URLS": "required: `ldaps://HOST` or `ldap://HOST`, with commas between several: the first that answers counts",
        "CA_FILE": "the path of a file with the certificates (PEM) that have signed that of the server",
        "CA": "the text of these certificates; neither: those of the system",
        "UNENCRYPTED": "`ldap://` uses StartTLS, and a server without it gets no password. true allows plain text, "
        "with a warning at start",
        "BIND_DN": "the account of OSMO Admin there, which may read people and groups; none: anonymous searches",
        "BIND_PASSWORD": "its password",
        "BIND_PASSWORD_FILE": "the path of a file with its password",
        "USER_BASE": "required: the entry above the people",
        "USER_FILTER": "who may log in, without the name",
        "LOGIN_ATTRIBUTES": "the attributes that may have the typed name, as `uid,mail`",
        "USERNAME_ATTRIBUTE": "the name of a new account",
        "ID_ATTRIBUTE": "the id of an entry that survives renaming; `objectGUID` in Active Directory",
        "MAIL_ATTRIBUTE": "the mail address; an empty text: none",
        "GROUP_BASE": "the entry above the groups; entries elsewhere are not groups",
        "GROUP_FILTER": "the groups of a person: `{dn}` is the entry, `{username}` the name, as in "
        "`(memberUid={username})`",
        "GROUP_ATTRIBUTE": "the name of a group",
        **_OF_BOTH,
    },
    {
        "UNENCRYPTED": "false",
        "USER_FILTER": "(objectClass=person)",
        "LOGIN_ATTRIBUTES": "uid",
        "USERNAME_ATTRIBUTE": "uid",
        "ID_ATTRIBUTE": "entryUUID",
        "MAIL_ATTRIBUTE": "mail",
        "GROUP_FILTER": "(member={dn})",
        "GROUP_ATTRIBUTE": "cn",
        **_DEFAULTS_OF_BOTH,
    },
)

_PROVIDER_NAME = re.compile("[a-z][a-z0-9]{0,30}")
_ATTRIBUTE = re.compile("[A-Za-z][A-Za-z0-9-]{0,62}")


def read_all_providers(read: Reader) -> tuple[SignOnProvider, ...]:
    """The identity providers of `OSMO_SSO` and the directories of `OSMO_LDAP`. Raises EnvError with the variable's
    name."""
    providers: list[str] = read.list("OSMO_SSO", [], validate=are_provider_names)
    directories: list[str] = read.list("OSMO_LDAP", [], validate=[are_provider_names, _has_ldap])
    if both := sorted(set(providers) & set(directories)):
        raise EnvError(f"OSMO_LDAP: {both[0]} is the name of an identity provider in OSMO_SSO, too; names differ.")
    return (*read_providers(read, providers), *read_directories(read, directories))


def read_providers(read: Reader, names: Sequence[str]) -> tuple[OpenIdProvider, ...]:
    """The providers of these names. Raises EnvError with the variable's name."""
    return tuple(_read_provider(read, name) for name in names)


def read_directories(read: Reader, names: Sequence[str]) -> tuple[LdapDirectory, ...]:
    """The directories of these names. Raises EnvError with the variable's name."""
    return tuple(_read_directory(read, name) for name in names)


def setting_prefix(provider: SignOnProvider) -> str:
    """The beginning of the names of a provider's settings."""
    return f"OSMO_{'LDAP' if isinstance(provider, LdapDirectory) else 'SSO'}_{provider.name.upper()}_"


def _read_provider(read: Reader, name: str) -> OpenIdProvider:
    prefix = f"OSMO_SSO_{name.upper()}_"
    with read.prefixed(prefix):
        return OpenIdProvider(
            name=name,
            title=read.str("TITLE", name),
            issuer=read.str("ISSUER"),
            client_id=read.str("CLIENT_ID"),
            client_secret=_read_secret(read, prefix, "CLIENT_SECRET"),
            scopes=tuple(dict.fromkeys(["openid", *read.list("SCOPES", ["profile", "email", "offline_access"])])),
            username_claim=read.str("USERNAME_CLAIM", "preferred_username"),
            groups_claim=read.str("GROUPS_CLAIM", "groups"),
            parameters=parse_parameters(read.list("PARAMETERS", [], delimiter=";", validate=_are_parameters)),
            **_read_common(read),
        )


def _read_directory(read: Reader, name: str) -> LdapDirectory:
    prefix = f"OSMO_LDAP_{name.upper()}_"
    with read.prefixed(prefix):
        return LdapDirectory(
            name=name,
            title=read.str("TITLE", name),
            issuer=f"ldap:{name}",
            urls=_read_texts(read, "URLS"),
            ca_file=read.str("CA_FILE", ""),
            ca_text=read.str("CA", ""),
            is_encrypted=not read.bool("UNENCRYPTED", False),
            bind_dn=read.str("BIND_DN", ""),
            bind_password=_read_secret(read, prefix, "BIND_PASSWORD"),
            user_base=read.str("USER_BASE"),
            user_filter=read.str("USER_FILTER", "(objectClass=person)"),
            login_attributes=tuple(read.list("LOGIN_ATTRIBUTES", ["uid"], validate=_are_attributes)),
            username_attribute=read.str("USERNAME_ATTRIBUTE", "uid", validate=_is_attribute),
            id_attribute=read.str("ID_ATTRIBUTE", "entryUUID", validate=_is_attribute),
            mail_attribute=read.str("MAIL_ATTRIBUTE", "mail", validate=_is_attribute_or_none),
            group_base=read.str("GROUP_BASE", ""),
            group_filter=read.str("GROUP_FILTER", "(member={dn})"),
            group_attribute=read.str("GROUP_ATTRIBUTE", "cn", validate=_is_attribute),
            **_read_common(read),
        )


def _read_texts(read: Reader, name: str) -> tuple[str, ...]:
    found: list[str] = read.list(name)
    return tuple(each.strip() for each in found)


def _read_common(read: Reader) -> dict[str, Any]:
    """The settings of both kinds."""
    return {
        "sync": SyncMode(read.str("SYNC", SyncMode.FORCE.value, validate=validate.OneOf([*SyncMode]))),
        "roles_by_group": parse_role_map(read.list("ROLES", [], delimiter=";", validate=_is_role_map)),
        "groups_are_roles": read.bool("GROUPS_ARE_ROLES", False),
        "allowed_groups": frozenset(read.list("ALLOWED_GROUPS", [], delimiter=";")),
        "session_seconds": round(
            3600 * read.float("SESSION_HOURS", 12.0, validate=validate.Range(min=0.1, max=24 * 31))
        ),
    }


def _read_secret(read: Reader, prefix: str, name: str) -> str:
    file, text = read.path(f"{name}_FILE", None), str(read.str(name, ""))
    if file is None:
        return text
    try:
        return str(file.read_text(encoding="utf-8").strip())
    except (OSError, UnicodeDecodeError) as error:
        raise EnvError(f"{prefix}{name}_FILE: the file {file} cannot be read: {error}.") from error


def are_provider_names(names: list[str]) -> None:
    """Raises ValidationError."""
    wrong = [name for name in names if not _PROVIDER_NAME.fullmatch(name)]
    if wrong or len(set(names)) < len(names):
        raise ValidationError("Different names are expected, separated by commas: small letters and digits, as corp.")


def _has_ldap(names: list[str]) -> None:
    if names and find_spec("ldap3") is None:
        raise ValidationError("Directories need the extra ldap: pip install 'osmo-admin[ldap]'.")


def _is_attribute(text: str) -> None:
    if not _ATTRIBUTE.fullmatch(text):
        raise ValidationError("The name of an attribute is expected, as uid.")


def _is_attribute_or_none(text: str) -> None:
    if text:
        _is_attribute(text)


def _are_attributes(names: list[str]) -> None:
    if not names:
        raise ValidationError("At least one attribute is expected, as uid.")
    for name in names:
        _is_attribute(name)


def _are_parameters(entries: list[str]) -> None:
    try:
        parse_parameters(entries)
    except ValueError as error:
        raise ValidationError(f"NAME=VALUE, separated by ';', is expected: {error}.") from error


def _is_role_map(entries: list[str]) -> None:
    try:
        parse_role_map(entries)
    except ValueError as error:
        raise ValidationError(f"GROUP=ROLE, separated by ';', is expected: {error}.") from error
