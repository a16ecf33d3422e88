"""System checks of the settings of directories (LDAP): what would send passwords astray, or give everybody a role."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as Caution

from osmo_admin.provider_env import setting_prefix
from pools.sign_on.directories import authorities
from pools.sign_on.providers import LdapDirectory, SyncMode

LOOPBACK = {"localhost", "127.0.0.1", "::1"}


@register(Tags.security)
def check_directories(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """The settings of each directory."""
    directories = [each for each in settings.OSMO.sign_on_providers if isinstance(each, LdapDirectory)]
    return [message for directory in directories for message in _faults(directory, setting_prefix(directory))]


def _faults(directory: LdapDirectory, prefix: str) -> Iterator[CheckMessage]:
    yield from _address_faults(directory, prefix)
    if bool(directory.bind_dn) != bool(directory.bind_password):
        yield Error(
            f"{prefix}BIND_DN and {prefix}BIND_PASSWORD belong together: a directory takes a bind without a password "
            "as anonymous.",
            hint="Set both, or neither for anonymous searches.",
            id="osmo.E018",
        )
    yield from _syntax_faults(directory, prefix)
    uses_groups = directory.sync is not SyncMode.IGNORE or directory.allowed_groups
    if uses_groups and not directory.group_base:
        yield Error(
            f"{prefix}GROUP_BASE is not set, so nobody would have a group.",
            hint=f"Name the entry above the groups, or set {prefix}SYNC to ignore, without {prefix}ALLOWED_GROUPS.",
            id="osmo.E020",
        )


def _address_faults(directory: LdapDirectory, prefix: str) -> Iterator[CheckMessage]:
    parsed = []
    for url in directory.urls:
        try:
            parts = urlsplit(url)
            is_right = parts.scheme in {"ldap", "ldaps"} and bool(parts.hostname) and (parts.port or 1) > 0
            is_right = is_right and not (parts.path.strip("/") or parts.query or parts.username)
        except ValueError:
            is_right = False
        if is_right:
            parsed.append(parts)
        else:
            yield Error(
                f"{prefix}URLS has an address that is not ldaps://HOST, ldaps://HOST:PORT or ldap://HOST.",
                hint="Several are separated by commas.",
                id="osmo.E016",
            )
    if not directory.urls:
        yield Error(f"{prefix}URLS names no server.", hint="Set it to ldaps://HOST.", id="osmo.E016")
    if not directory.is_encrypted and any(
        parts.scheme == "ldap" and parts.hostname not in LOOPBACK for parts in parsed
    ):
        yield Caution(
            f"{prefix}UNENCRYPTED is on: passwords cross the network in plain text.",
            hint=f"Remove {prefix}UNENCRYPTED; ldap:// then uses StartTLS.",
            id="osmo.W017",
        )
    if directory.ca_file or directory.ca_text:
        try:
            authorities(directory)
        except OSError as error:
            name = f"CA_FILE: the file {directory.ca_file}" if directory.ca_file else "CA: the text"
            yield Error(
                f"{prefix}{name} has no certificates that can be read ({error}).",
                hint="Certificates are in PEM form; without them those of the system count.",
                id="osmo.E021",
            )


def _syntax_faults(directory: LdapDirectory, prefix: str) -> Iterator[CheckMessage]:
    from ldap3.core.exceptions import LDAPException  # noqa: PLC0415  # only where a directory is configured
    from ldap3.operation.search import parse_filter  # noqa: PLC0415
    from ldap3.utils.dn import parse_dn  # noqa: PLC0415

    for name, text in (("USER_FILTER", directory.user_filter), ("GROUP_FILTER", directory.group_filter)):
        sample = text.replace("{dn}", "cn=x").replace("{username}", "x")
        try:
            parse_filter(sample, None, auto_escape=True, auto_encode=False, validator=None, check_names=False)
            is_filter = sample.startswith("(") and "{" not in sample
        except (LDAPException, IndexError):
            is_filter = False
        if not is_filter:
            yield Error(
                f"{prefix}{name} is not a filter of LDAP.",
                hint="A filter is in parentheses, as (objectClass=person) (RFC 4515).",
                id="osmo.E019",
            )
    if not any(name in directory.group_filter for name in ("{dn}", "{username}")):
        yield Error(
            f"{prefix}GROUP_FILTER has neither {{dn}} nor {{username}}: everybody would be in every group.",
            hint="Set it to (member={dn}), or (memberUid={username}) for groups of POSIX.",
            id="osmo.E022",
        )
    for name, text in (
        ("USER_BASE", directory.user_base),
        ("GROUP_BASE", directory.group_base),
        ("BIND_DN", directory.bind_dn if "=" in directory.bind_dn else ""),  # Active Directory takes name@domain, too
    ):
        try:
            parse_dn(text) if text else None
        except LDAPException:
            yield Error(
                f"{prefix}{name} is not a distinguished name.",
                hint="It looks like ou=people,dc=example,dc=com.",
                id="osmo.E019",
            )
