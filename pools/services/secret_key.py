"""The rotation of the secret key: what was sealed with a former key is sealed with the present one."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import models

from pools.domain.roles import Actor
from pools.locking import lock_configuration
from pools.models import KubernetesSettings, NoticeTarget, SignOnIdentity
from pools.permissions import require_platform
from pools.security.sealing import UnreadableSecret, fingerprint, is_sealed_with_present_key, seal, unseal
from pools.transactions import change

SEALED_FIELDS: tuple[tuple[type[models.Model], str], ...] = (
    (KubernetesSettings, "sealed_kubeconfig"),
    (SignOnIdentity, "refresh_token"),
    (SignOnIdentity, "id_token"),
    (NoticeTarget, "sealed_address"),
    (NoticeTarget, "sealed_secret"),
)
"""Every column with a sealed text."""


@dataclass(frozen=True, slots=True)
class SealedAgain:
    """How many texts were sealed again, how many were sealed with the present key already, and the rows whose text no
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


def list_sealed_with_former_keys() -> list[str]:
    """The rows whose stored secret the present key does not read."""
    return [
        f"{model._meta.verbose_name} {pk}"
        for model, field in SEALED_FIELDS
        for pk, text in model._default_manager.exclude(**{field: ""}).order_by("pk").values_list("pk", field)
        if not is_sealed_with_present_key(text)
    ]
