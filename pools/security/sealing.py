"""Secrets that the server must read again, such as the credentials of a cluster. They are encrypted with a key derived
from `OSMO_SECRET_KEY`, so the database or a dump alone reveals nothing."""

from __future__ import annotations

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings


class UnreadableSecret(Exception):
    """The secret was encrypted with a key that is no longer configured."""


def seal(text: str) -> str:
    """The text, encrypted and signed."""
    return _box().encrypt(text.encode()).decode()


def unseal(sealed: str) -> str:
    """The decrypted text. Raises UnreadableSecret."""
    try:
        return _box().decrypt(sealed.encode()).decode()
    except InvalidToken as error:
        raise UnreadableSecret("It was sealed with another OSMO_SECRET_KEY.") from error


def is_sealed_with_present_key(sealed: str) -> bool:
    """Whether the text can be read without the replaced keys."""
    try:
        _present_box().decrypt(sealed.encode())
    except InvalidToken:
        return False
    return True


def fingerprint(text: str) -> str:
    """A short text that identifies a secret and from which the secret cannot be computed."""
    return hashlib.blake2b(text.encode(), key=_key(settings.SECRET_KEY), digest_size=8).hexdigest()


def _box() -> MultiFernet:
    """Encrypts with the present key; decrypts with replaced keys, too."""
    return MultiFernet([_present_box(), *map(_one_box, settings.SECRET_KEY_FALLBACKS)])


def _present_box() -> Fernet:
    return _one_box(settings.SECRET_KEY)


def _one_box(secret: str | bytes) -> Fernet:
    return Fernet(base64.urlsafe_b64encode(_key(secret)))


def _key(secret: str | bytes) -> bytes:
    plain = secret.encode() if isinstance(secret, str) else secret
    return hashlib.sha256(b"osmo sealed secret:" + plain).digest()
