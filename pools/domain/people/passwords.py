"""Passwords that follow from the name of their user: the first ones that a guesser tries."""

from __future__ import annotations

import re
import unicodedata

SHORT_NAME = 2
"""A name of so few characters is part of many words; it counts only where nothing else is left."""
_LEAST_REST = 4
_WORD = re.compile(r"[^\W_]+")


def follows_from_name(password: str, name: str) -> bool:
    """Whether the password contains the name or a word of it (of three or more characters), forwards or backwards, or
    the name contains the password; or whether little but the name, digits and signs is left. Case, accents and signs do
    not count: `D.o-r.a 1` is `dora1`."""
    secret, words = _letters(password), [_letters(word) for word in _WORD.findall(name)]
    whole = _letters(name)
    parts = {part for word in {whole, *words} if word for part in (word, word[::-1])}
    if any(len(part) > SHORT_NAME and part in secret for part in parts):
        return True
    if len(secret) > SHORT_NAME and (secret in whole or secret in whole[::-1]):
        return True
    rest = secret
    for part in sorted(parts, key=len, reverse=True):
        rest = rest.replace(part, "")
    return rest != secret and len(re.sub(r"\d", "", rest)) < _LEAST_REST


def _letters(text: str) -> str:
    """Letters and digits only, without case and accents."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    return "".join(character for character in plain if character.isalnum())
