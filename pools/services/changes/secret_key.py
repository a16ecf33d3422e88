"""The secret key of the database: which one it is, and its rotation, in which everything is sealed with a new one."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from django.db import models

from pools.database.transactions import change
from pools.domain.errors import Conflict
from pools.domain.people.roles import SYSTEM, Actor
from pools.locking import lock_configuration
from pools.models import KubernetesSettings, NoticeTarget, SecretKeyCheck, SignOnIdentity
from pools.permissions import require_platform
from pools.security.sealing import (
    OTHER_KEY,
    UnreadableSecret,
    find_reading_key,
    fingerprint,
    is_sealed_with_present_key,
    seal,
    unseal,
)

SEALED_FIELDS: tuple[tuple[type[models.Model], str], ...] = (
    (SecretKeyCheck, "sealed"),
    (KubernetesSettings, "sealed_kubeconfig"),
    (SignOnIdentity, "refresh_token"),
    (SignOnIdentity, "id_token"),
    (NoticeTarget, "sealed_address"),
    (NoticeTarget, "sealed_secret"),
)
"""Every column with a sealed text."""


@dataclass(frozen=True, slots=True)
class SealedAgain:
    """The number of texts that were sealed again, of those that had the present key already, and the rows whose text no
    configured key reads."""

    sealed: int
    present: int
    unreadable: tuple[str, ...]


def seal_again(*, actor: Actor) -> SealedAgain:
    """Seal every stored secret with `OSMO_SECRET_KEY`; safe to repeat. `osmo-admin` only. Raises Forbidden."""
    require_platform(actor)
    sealed, present, unreadable = 0, 0, []
    with change(actor=actor, description="sealed with the new secret key"):
        lock_configuration()
        for model, field in SEALED_FIELDS:
            for pk, text in model._default_manager.exclude(**{field: ""}).order_by("pk").values_list("pk", field):
                if is_sealed_with_present_key(text):
                    present += 1
                    continue
                try:
                    plain = unseal(text)
                except UnreadableSecret:
                    unreadable.append(f"{model._meta.verbose_name} {pk}")
                    continue
                values = {field: seal(plain)}
                if model is KubernetesSettings:
                    values["credential_mark"] = fingerprint(plain)  # it depends on the key too
                # A text that was replaced meanwhile was sealed with the present key.
                sealed += model._default_manager.filter(pk=pk, **{field: text}).update(**values)
    return SealedAgain(sealed, present, tuple(unreadable))


def claim_database() -> None:
    """Store the check value of the present key, if the database has none; safe to repeat. Raises Conflict if the
    database belongs to another key: its check value, or without one everything that is sealed in it, says so."""
    with change(actor=SYSTEM, description="the first secret key"):
        lock_configuration()
        stored = SecretKeyCheck.objects.filter(pk=1).values_list("sealed", flat=True).first()
        known = [text for _, text in _sealed_rows()] if stored is None else [stored]
        if known and not any(map(find_reading_key, known)):
            raise Conflict(OTHER_KEY)
        if stored is None:
            _store_check()


def adopt_present_key(*, actor: Actor) -> list[str]:
    """Make the present key that of the database, although a former one is lost; returns the rows whose stored secret no
    configured key reads. `osmo-admin` only. Raises Forbidden."""
    require_platform(actor)
    with change(actor=actor, description="a secret key was adopted"):
        lock_configuration()
        _store_check()
        return [name for name, text in _sealed_rows() if find_reading_key(text) is None]


def _store_check() -> None:
    SecretKeyCheck.objects.update_or_create(pk=1, defaults={"sealed": seal(secrets.token_urlsafe(16))})


def _sealed_rows() -> list[tuple[str, str]]:
    """The name of each row with a sealed text, and the text."""
    return [
        (f"{model._meta.verbose_name} {pk}", text)
        for model, field in SEALED_FIELDS
        for pk, text in model._default_manager.exclude(**{field: ""}).order_by("pk").values_list("pk", field)
    ]


def list_sealed_with_former_keys() -> list[str]:
    """The rows whose stored secret the present key does not read."""
    return [name for name, text in _sealed_rows() if not is_sealed_with_present_key(text)]


def list_unreadable() -> list[str]:
    """The rows whose stored secret no configured key reads."""
    return [name for name, text in _sealed_rows() if find_reading_key(text) is None]
