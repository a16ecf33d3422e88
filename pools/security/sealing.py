"""Secrets that the server must read again, such as the credentials of a cluster. They are encrypted with a key derived
from `OSMO_SECRET_KEY`, so the database or a dump alone reveals nothing."""

from __future__ import annotations

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

OTHER_KEY = (
    "OSMO_SECRET_KEY is not the key of this database, so nothing that is stored sealed could be read: set the key that "
    "the other processes have, or put the former key into OSMO_SECRET_KEY_FALLBACKS; if it is lost, run: "
    "osmo-admin key adopt"
)


class UnreadableSecret(Exception):
    """A stored secret that this process cannot read: it has not the key with which it was sealed. Another process may
    have it, and so may this one after a restart: what needs the secret is tried again."""


def seal(text: str) -> str:
    """The text, encrypted and signed."""
    return _box().encrypt(text.encode()).decode()


def unseal(sealed: str) -> str:
    """The decrypted text. Raises UnreadableSecret."""
    try:
        return _box().decrypt(sealed.encode()).decode()
    except InvalidToken as error:
        raise UnreadableSecret("It was sealed with another OSMO_SECRET_KEY, so this process cannot read it.") from error


def is_sealed_with_present_key(sealed: str) -> bool:
    """Whether the text can be read without the replaced keys."""
    try:
        _present_box().decrypt(sealed.encode())
    except InvalidToken:
        return False
    return True


def key_marks() -> list[str]:
    """A mark of each key that this process reads with, 16 hexadecimal digits, the present one first. Processes that
    print the same mark have the same key, and no key can be computed from it."""
    return [_mark_key(key) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)]


def find_reading_key(sealed: str) -> str | None:
    """The mark of the key that reads a sealed text; None if no configured key does."""
    for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        try:
            _one_box(key).decrypt(sealed.encode())
        except InvalidToken:
            continue
        return _mark_key(key)
    return None


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


def _mark_key(secret: str | bytes) -> str:
    return hashlib.blake2b(b"osmo key mark", key=_key(secret), digest_size=8).hexdigest()


def _key(secret: str | bytes) -> bytes:
    plain = secret.encode() if isinstance(secret, str) else secret
    return hashlib.sha256(b"osmo sealed secret:" + plain).digest()
