"""Texts without secrets, for files that are given to others.

Two ways together: every secret that this installation knows is replaced where it occurs, and so is what looks like one:
the value of a name such as `password` or `token`, the user part of an address, a header that logs in, a key in PEM
form, and any long word of mixed characters that is neither a UUID nor a time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

import yaml
from django.conf import settings
from django.db import Error as DatabaseError

from pools.models import NoticeTarget
from pools.security.sealing import UnreadableSecret, unseal
from pools.services.changes.secret_key import SEALED_FIELDS
from pools.sign_on.providers import LdapDirectory, OpenIdProvider
from scheduling.models import Workflow

HIDDEN = "[hidden]"
# Shorter values are words, such as `true`, which would hide half of a log.
SHORTEST = 6
SHORTEST_OF_WORK = 8
MOST_ROWS = 1000

_NAMES = (
    r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|api_?key|key|credentials?|authorization|cookie|session(?:id)?|dsn)"
)
_PATTERNS = (
    (re.compile(r"-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|\Z)", re.DOTALL), HIDDEN),
    (re.compile(r"(?i)\b(bearer|basic|negotiate)\s+[^\s\"',;]+"), rf"\1 {HIDDEN}"),
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/@\"']+@"), rf"\1{HIDDEN}@"),
    (re.compile(r"\b(?:xox[a-z]-|whsec_|v1[,=]|eyJ|AGE-SECRET-KEY-)[\w./+=-]+"), HIDDEN),
)
_TEXT = r"\"(?:[^\"\\]|\\.)*\"|'[^']*'"
# In JSON a value without quotes ends at a comma; elsewhere a password may have one.
_NAMED_IN_JSON = re.compile(rf"(?i)([\w.-]*{_NAMES}[\"']\s*:\s*)({_TEXT}|[^\s,{{}}\[\]\"']+)")
_NAMED = re.compile(rf"(?i)([\w.-]*{_NAMES}\s*[=:]\s*)({_TEXT}|[^\s\"'\[{{][^\s\"']*)")
_JSON_VALUE = re.compile(r"(?:true|false|null|-?[0-9.]+)\Z")
_ADDRESS = re.compile(r"[a-z]+://[\w.:@%-]+(?:[/?#]\S*)?")
_WORD = re.compile(r"[A-Za-z0-9_+/=-]{20,}")
_UUID = re.compile(r"(?:^|[=/_])[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$")
_MIXED = (re.compile(r"[0-9]"), re.compile(r"[A-Za-z]"))
_ALL_KINDS = (re.compile(r"[0-9]"), re.compile(r"[A-Z]"), re.compile(r"[a-z]"))
# Where small letters, capitals and digits meet: a drawn word has one at every second letter, a name in capitals few.
_BORDER = re.compile(r"(?<=[a-z])[A-Z0-9]|(?<=[A-Z])[a-z0-9]|(?<=[0-9])[A-Za-z]")


class Redactor:
    """Hides secrets. `known` are those of this installation; `missing` says which of them could not be read."""

    def __init__(self, known: Iterable[str], missing: tuple[str, ...] = ()) -> None:
        parts = {part for value in known for part in _parts(value) if len(part) >= SHORTEST}
        self._known = re.compile("|".join(map(re.escape, sorted(parts, key=len, reverse=True)))) if parts else None
        self.missing = missing

    def __call__(self, text: str) -> str:
        """The text without secrets."""
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        for pattern, replacement in _PATTERNS:
            text = pattern.sub(replacement, text)
        text = _NAMED.sub(_hide_named_value, _NAMED_IN_JSON.sub(_hide_named_value, text))
        return _WORD.sub(_hide_random_word, text)


def make_redactor() -> Redactor:
    """A redactor that knows the secrets of the settings and, if the database answers, the stored ones."""
    known: list[str] = [*_secrets_of_settings(), *_kubeconfig_files()]
    missing = []
    try:
        known += _stored_secrets()
    except DatabaseError:
        missing.append("stored secrets, because the database does not answer: only what looks like a secret is hidden")
    return Redactor(known, tuple(missing))


def _secrets_of_settings() -> Iterator[str]:
    env = settings.OSMO
    yield from (env.secret_key, *env.secret_key_fallbacks, settings.SECRET_KEY, env.slack_token)
    yield env.slack_token.partition("-")[2]
    for url in (env.database_url, env.owner_database_url, env.redis_url, env.mail_url, env.traces_url):
        yield from _secrets_of_address(url)
    yield env.mail_url
    for provider in env.sign_on_providers:
        if isinstance(provider, OpenIdProvider):
            yield provider.client_secret
        if isinstance(provider, LdapDirectory):
            yield provider.bind_password


def _secrets_of_address(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    for text in (parts.password, *(value for name, value in parse_qsl(parts.query) if "pass" in name.lower())):
        yield from (text or "", unquote(text or ""))


def _parts_of_address(url: str) -> Iterator[str]:
    """The parts by which an address of a target is a secret: login, path and query."""
    if not _ADDRESS.fullmatch(url):
        return
    yield from _secrets_of_address(url)
    parts = urlsplit(url)
    yield from parts.path.split("/")
    yield from (value for _, value in parse_qsl(parts.query))


def _stored_secrets() -> Iterator[str]:
    """Sealed texts, and the values of the environments of work, which often are passwords."""
    for model, field in SEALED_FIELDS:
        for text in model._default_manager.exclude(**{field: ""}).values_list(field, flat=True)[:MOST_ROWS]:
            try:
                plain = unseal(text)
            except UnreadableSecret:
                continue
            yield plain
            yield from _values_of_kubeconfig(plain)
            yield from _parts_of_address(plain)
    yield from NoticeTarget.objects.values_list("shown_address", flat=True)[:MOST_ROWS]
    rows = Workflow.objects.order_by("-submit_time").values_list("env_vars", "spec", "template_spec")
    for variables, *specs in rows[:MOST_ROWS]:
        values = [*map(str, variables.values()), *(each for spec in specs for each in _values_of_environments(spec))]
        yield from (value for value in values if len(value) >= SHORTEST_OF_WORK)


def _kubeconfig_files() -> Iterator[str]:
    folder = settings.OSMO.kubeconfig_dir
    for path in folder.glob("*") if folder is not None and folder.is_dir() else ():
        try:
            yield from _values_of_kubeconfig(path.read_text())
        except (OSError, UnicodeDecodeError):
            continue


def _values_of_kubeconfig(text: str) -> Iterator[str]:
    names = "token|password|client-key-data|client-certificate-data"
    for match in re.finditer(rf"(?:{names})[\"']?:\s*[\"']?([^\s\"',}}]+)", text):
        yield match[1]


def _values_of_environments(spec: str) -> Iterator[str]:
    """The values of environments in a workflow file or manifest; a file that cannot be read has none."""
    if "env" not in spec:
        return
    try:
        documents = list(yaml.load_all(spec, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except (yaml.YAMLError, ValueError, RecursionError):
        return
    for document in documents:
        yield from _environment_values(document)


def _environment_values(content: Any) -> Iterator[str]:
    if isinstance(content, dict):
        for name, value in content.items():
            if name in ("env", "environment") and isinstance(value, list):  # a list of name and value, as of a pod
                yield from (str(each["value"]) for each in value if isinstance(each, dict) and "value" in each)
            elif name in ("env", "environment") and isinstance(value, dict):
                yield from map(str, value.values())
            else:
                yield from _environment_values(value)
    elif isinstance(content, list):
        for value in content:
            yield from _environment_values(value)


def _parts(value: str) -> Iterator[str]:
    """The text itself, its lines, and how it looks inside JSON and in an address."""
    yield value
    yield quote(value, safe="")
    yield quote_plus(value)
    yield from value.splitlines()
    yield json.dumps(value)[1:-1]


def _hide_named_value(match: re.Match[str]) -> str:
    """The name with a hidden value. JSON stays JSON: its switches and numbers are not secrets, and a text keeps its
    quotes."""
    name, value = match[1], match[2]
    if match.re is _NAMED_IN_JSON and _JSON_VALUE.match(value):
        return match[0]
    mark = value[0] if value[0] in "\"'" else ""
    return f"{name}{mark}{HIDDEN}{mark}"


def _hide_random_word(match: re.Match[str]) -> str:
    word = match[0]
    return word if _UUID.search(word) or not _looks_random(word) else HIDDEN


def _looks_random(word: str) -> bool:
    """Whether it looks drawn, not written. Names of workflows and tests have dashes between words; a secret has letters
    and digits in a row, or changes between small letters, capitals and digits all the time (an access token may have a
    dash between each few letters, and one of a thousand has no digit)."""
    borders = len(_BORDER.findall(word))
    if borders >= 5 and (all(kind.search(word) for kind in _ALL_KINDS) or (len(word) >= 40 and borders >= 12)):
        return True
    longest = max(re.split(r"[-_/=+]", word), key=len)
    return len(longest) >= 12 and all(kind.search(longest) for kind in _MIXED)
