"""Django system checks of the configuration, with our own ids.

Errors that make serving unsafe also end the process (`refuse_unsafe_settings`), because servers do not run checks.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as Caution
from django.core.exceptions import ImproperlyConfigured

from osmo_admin.access.directory_checks import check_directories
from osmo_admin.env import RUNTIME_FILE, Env, PasswordLogin
from osmo_admin.provider_env import setting_prefix
from osmo_admin.variables import unknown_variables
from pools.domain.values.counting import counted
from pools.domain.values.urls import split_url
from pools.sign_on.providers import OpenIdProvider, SyncMode

INSECURE_KEY_PREFIX = "insecure-"
SHORTEST_KEY = 32
FEWEST_KEY_CHARACTERS = 5
LOOPBACK = {"localhost", "127.0.0.1", "[::1]", "::1"}
# Clients time out after about this time; a longer wait for a lock is useless.
MAX_LOCK_WAIT_MS = 30_000


@register(Tags.security, deploy=True)
def check_secret_key(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """The secret key signs sessions and tokens and encrypts kubeconfigs."""
    key = settings.SECRET_KEY
    if key.startswith(INSECURE_KEY_PREFIX):
        return [
            Error(
                "OSMO_SECRET_KEY is not set.",
                hint="Set it to 50 or more random characters, the same for web, worker and beat; "
                "`osmo-admin up` generates one.",
                id="osmo.E001",
            )
        ]
    if len(key) < SHORTEST_KEY or len(set(key)) < FEWEST_KEY_CHARACTERS:
        return [
            Error(
                f"OSMO_SECRET_KEY can be guessed: it has {len(key)} characters, {len(set(key))} of them different.",
                hint=f"Set it to 50 or more random characters (at least {SHORTEST_KEY}, and {FEWEST_KEY_CHARACTERS} "
                "different ones). Logins end; put the former key into OSMO_SECRET_KEY_FALLBACKS once, so that the "
                "kubeconfigs can still be read, and store them again.",
                id="osmo.E008",
            )
        ]
    weak = [old for old in settings.SECRET_KEY_FALLBACKS if len(old) < SHORTEST_KEY]
    if weak:
        return [
            Caution(
                f"OSMO_SECRET_KEY_FALLBACKS has {counted(len(weak), 'key')} of less than {SHORTEST_KEY} characters, "
                "and logins that they signed are still accepted.",
                hint="Store the kubeconfigs of the backends again, then remove the former keys.",
                id="osmo.W008",
            )
        ]
    return []


@register(Tags.security)
def check_dev_login(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """Dev login trusts the user name in a header."""
    env: Env = settings.OSMO
    if not env.dev_login:
        return []
    if env.secure:
        return [
            Error(
                "OSMO_DEV_LOGIN and OSMO_SECURE are both on: everyone could log in under any name.",
                hint="Turn OSMO_DEV_LOGIN off.",
                id="osmo.E002",
            )
        ]
    foreign = _foreign_hosts()
    if foreign:
        return [
            Error(
                f"OSMO_DEV_LOGIN is on and OSMO_ALLOWED_HOSTS names {', '.join(foreign)}: "
                "everyone who reaches this address could log in under any name.",
                hint="Turn OSMO_DEV_LOGIN off, or allow only hosts of this machine (localhost,127.0.0.1,[::1]).",
                id="osmo.E009",
            )
        ]
    return []


@register(Tags.security)
def check_debug(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """Error pages of the debug mode show settings, queries and variables."""
    env: Env = settings.OSMO
    if not env.debug:
        return []
    foreign = _foreign_hosts()
    if not env.secure and not foreign:
        return []
    other = "OSMO_SECURE is on" if env.secure else f"OSMO_ALLOWED_HOSTS names {', '.join(foreign)}"
    return [
        Error(
            f"OSMO_DEBUG is on and {other}: error pages would show settings and data to everyone.",
            hint="Turn OSMO_DEBUG off; the log has the same facts.",
            id="osmo.E010",
        )
    ]


def _foreign_hosts() -> list[str]:
    """The allowed hosts that are not this machine."""
    return sorted(set(settings.ALLOWED_HOSTS) - LOOPBACK)


@register()
def check_addresses(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """A wrong address would fail late and far from its cause."""
    env: Env = settings.OSMO
    messages: list[CheckMessage] = []
    if env.secure and not env.public_url:
        messages.append(
            Error(
                "OSMO_SECURE is on and OSMO_PUBLIC_URL is not set: forms and links would have the wrong scheme.",
                hint="Name the https:// address of the users.",
                id="osmo.E011",
            )
        )
    if env.public_url:
        public = split_url(env.public_url)
        if public is None or public.scheme not in {"http", "https"} or not public.netloc:
            messages.append(
                Error(
                    "OSMO_PUBLIC_URL must be an http:// or https:// address.",
                    id="osmo.E003",
                )
            )
        elif env.secure and public.scheme == "http":
            messages.append(
                Error(
                    "OSMO_SECURE is on and OSMO_PUBLIC_URL begins with http://: browsers would never send the login.",
                    hint="Name the https:// address of the users.",
                    id="osmo.E004",
                )
            )
        elif public.scheme == "https" and not env.secure:
            messages.append(
                Caution(
                    "OSMO_PUBLIC_URL begins with https:// and OSMO_SECURE is off: browsers would send the login over "
                    "http:// too.",
                    hint="Turn OSMO_SECURE on.",
                    id="osmo.W009",
                )
            )
    broker = split_url(settings.REDIS_URL)
    scheme = broker.scheme if broker else ""
    if scheme not in {"redis", "rediss", "unix"}:
        messages.append(
            Error(
                "REDIS_URL must begin with redis://, rediss:// or unix://.",
                id="osmo.E005",
            )
        )
    if env.secure and "*" in settings.ALLOWED_HOSTS:
        messages.append(
            Caution(
                "OSMO_ALLOWED_HOSTS is *: an attacker can make links point at another host.",
                hint="Name the hosts of the users.",
                id="osmo.W005",
            )
        )
    return messages


@register(Tags.security)
def check_sign_on(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """Whom an identity provider lets in depends on how it is reached, and on the roles of its groups."""
    env: Env = settings.OSMO
    messages: list[CheckMessage] = []
    for provider in env.sign_on_providers:
        prefix, parts = setting_prefix(provider), split_url(provider.issuer) or urlsplit("")
        is_local = f"[{parts.hostname}]" in LOOPBACK or parts.hostname in LOOPBACK
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_local and not env.secure)
        if isinstance(provider, OpenIdProvider) and not is_safe:
            messages.append(
                Error(
                    f"{prefix}ISSUER must be an https:// address: a forger on the way could log in under any name.",
                    hint="http:// is for a provider on this machine, without OSMO_SECURE.",
                    id="osmo.E012",
                )
            )
        if provider.sync is SyncMode.FORCE and not provider.roles_by_group and not provider.groups_are_roles:
            messages.append(
                Error(
                    f"{prefix}SYNC is force and no group has a role: each sign-on would remove all roles of its user.",
                    hint=f"Set {prefix}ROLES (GROUP=ROLE;GROUP=ROLE) or {prefix}GROUPS_ARE_ROLES, or {prefix}SYNC to "
                    "import or ignore.",
                    id="osmo.E013",
                )
            )
    if env.password_login is PasswordLogin.ADMINS and not env.sign_on_providers:
        messages.append(
            Error(
                "OSMO_PASSWORD_LOGIN is admins, and neither OSMO_SSO nor OSMO_LDAP names a provider: nobody else "
                "could log in.",
                hint="Name a provider, or set OSMO_PASSWORD_LOGIN to all.",
                id="osmo.E014",
            )
        )
    return messages


@register()
def check_durations(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """Durations that are valid but make no sense."""
    env: Env = settings.OSMO
    found: list[CheckMessage] = []
    if 0 < env.audit_retention_days <= env.usage_retention_days:
        found.append(
            Caution(
                f"OSMO_AUDIT_RETENTION_DAYS is {env.audit_retention_days}, and the record of use of the last "
                f"{env.usage_retention_days} days follows from the audit trail: that many days are kept.",
                hint="Set it above OSMO_USAGE_RETENTION_DAYS, or to 0 to keep the trail for ever.",
                id="osmo.W015",
            )
        )
    if env.lock_timeout_ms > MAX_LOCK_WAIT_MS:
        found.append(
            Caution(
                f"OSMO_LOCK_TIMEOUT_MS is {env.lock_timeout_ms}: clients time out before the lock does.",
                hint=f"Stay at or below {MAX_LOCK_WAIT_MS}.",
                id="osmo.W006",
            )
        )
    return found


@register()
def check_variables(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """A mistyped variable leaves its setting at the default, without a word."""
    env: Env = settings.OSMO
    return [Caution(sentence, id="osmo.W020") for sentence in unknown_variables(env.read_variables, os.environ)]


@register(Tags.security)
def check_private_files(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """`runtime.json` holds the secret key, so other users must not read it."""
    env: Env = settings.OSMO
    path = env.data_dir / RUNTIME_FILE if env.data_dir else None
    if path is not None and path.exists() and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return [
            Error(
                f"{path} can be read by others and holds the secret key.",
                hint=f"chmod 600 {path}, then change OSMO_SECRET_KEY.",
                id="osmo.E007",
            )
        ]
    return []


def refuse_unsafe_settings() -> None:
    """Called when a server, or the preparation of the database, starts. Raises ImproperlyConfigured with all errors
    that make serving unsafe."""
    messages = [
        *check_secret_key(None),
        *check_dev_login(None),
        *check_debug(None),
        *check_addresses(None),
        *check_sign_on(None),
        *check_directories(None),
        *check_private_files(None),
    ]
    errors = [message for message in messages if message.is_serious()]
    if errors:
        raise ImproperlyConfigured(" ".join(f"{message.msg} {message.hint or ''}".strip() for message in errors))
