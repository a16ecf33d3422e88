"""Names of pools, subpools and queues (design, D1, D2).

The queue name is the longest name that is derived from a pool name, and Kubernetes labels end at 63 characters. So the
length is checked as soon as a name is given, never later in a sync.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pools.domain.errors import Fault, Violation

SEPARATOR = "--"
SHARED_QUEUE = "_shared"
REMAINDER_LABEL = "Pool remainder (shared)"
"""The label on pages for the part of a pool's quota that no subpool has; all users of the pool share it."""

LABEL_LIMIT = 63
SHORT_NAME_PATTERN = r"^[a-z]([a-z0-9-]*[a-z0-9])?$"
_SHORT = r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*"
_SHORT_NAME = re.compile(SHORT_NAME_PATTERN.replace("$", r"\Z"))


def is_word(text: str) -> bool:
    """Whether a text is made of letters, digits, `-`, `_` and `.`, with a letter or digit at both ends."""
    is_plain = text.isascii() and all(c.isalnum() or c in "-_." for c in text)
    return bool(text) and is_plain and text[0].isalnum() and text[-1].isalnum()


class PoolPath(NamedTuple):
    """A canonical pool name, taken apart: `team--a` is (`team`, `a`), `team` is (`team`, None)."""

    parent: str
    subpool: str | None


def canonical_name(parent: str, subpool: str) -> str:
    """The one name of a subpool in every list and every command: `{parent}--{subpool}`."""
    return f"{parent}{SEPARATOR}{subpool}"


def split_name(name: str) -> PoolPath:
    """Split a canonical name at its first separator. Short names never contain one, so the result is exact."""
    parent, separator, subpool = name.partition(SEPARATOR)
    return PoolPath(parent, subpool if separator else None)


def readable_name(name: str) -> str:
    """The name of a leaf where its pool does not stand beside it; of the shared queue its label on all pages. A flavor
    of parts at its end stays: `team--_shared/t4`."""
    parent, leaf = split_name(name)
    queue, slash, part = (leaf or "").partition("/")
    return f"{REMAINDER_LABEL} of {parent}{slash}{part}" if queue == SHARED_QUEUE else name


def renamed_leaf(name: str, old: str, new: str) -> str:
    """The canonical name of a pool or subpool after the pool `old` is called `new`; other names stay."""
    parent, subpool = split_name(name)
    if parent != old:
        return name
    return new if subpool is None else canonical_name(new, subpool)


def queue_name(namespace: str, parent: str, leaf: str | None) -> str:
    """The logical queue: `osmo-pool-{ns}-{parent}` (container) or `…--{leaf}`; `leaf` is a short name or `_shared`."""
    container = f"osmo-pool-{namespace}-{parent}"
    return container if leaf is None else f"{container}{SEPARATOR}{leaf}"


def k8s_queue_name(queue: str) -> str:
    """The Kubernetes object of a logical queue: a leading `_` of the last part becomes `-` (no object may hold `_`)."""
    return queue.replace(f"{SEPARATOR}_", f"{SEPARATOR}-")


def with_pool_names(text: str, namespace: str) -> str:
    """The text with the names of pools, subpools and cohorts in place of those of their queues (both forms of
    :func:`queue_name`), for people, who never see a queue."""
    pattern = rf"osmo-(pool|cohort)-{re.escape(namespace)}-({_SHORT})(?:{SEPARATOR}(-shared\b|_shared\b|{_SHORT}))?"

    def readable(found: re.Match[str]) -> str:
        kind, name, leaf = found.groups()
        if kind == "cohort":
            return f"cohort {name}"
        if leaf is None:
            return f"pool {name}"
        return f"the remainder of pool {name}" if leaf[1:] == "shared" else canonical_name(name, leaf)

    return re.sub(pattern, readable, text)


def short_name_violations(name: str, *, namespace: str, parent: str | None, path: str) -> list[Violation]:
    """Every rule that a new pool name (`parent` None) or subpool name breaks.

    A pool name must leave enough characters for the name of its own shared queue, so that every pool can have subpools.
    """
    what = "pool" if parent is None else "subpool"
    found = _form_violations(name, what, path)
    leaf = (name, SHARED_QUEUE) if parent is None else (parent, name)
    derived = k8s_queue_name(queue_name(namespace, *leaf))
    if len(derived) > LABEL_LIMIT:
        over = len(derived) - LABEL_LIMIT
        found.append(
            Violation(
                path,
                Fault.NAME_TOO_LONG,
                f"Its queue would have a name of {len(derived)} characters; Kubernetes allows {LABEL_LIMIT}. "
                f"Shorten the {what} name by {over}.",
                numbers=(("length", len(derived)), ("limit", LABEL_LIMIT)),
            )
        )
    return found


def cohort_name_violations(name: str, path: str) -> list[Violation]:
    """Every rule that a cohort's name breaks: those of a pool's name, and a maximum length."""
    if len(name) <= LABEL_LIMIT:
        return _form_violations(name, "cohort", path)
    sentence = f"A cohort's name has at most {LABEL_LIMIT} characters; this one has {len(name)}."
    return [Violation(path, Fault.NAME_TOO_LONG, sentence, numbers=(("length", len(name)), ("limit", LABEL_LIMIT)))]


def _form_violations(name: str, what: str, path: str) -> list[Violation]:
    found: list[Violation] = []
    if name.startswith("_"):
        found.append(
            Violation(
                path, Fault.RESERVED_NAME, "This name is reserved: names that begin with '_' belong to the system."
            )
        )
    elif SEPARATOR in name:
        found.append(
            Violation(
                path,
                Fault.SEPARATOR_IN_NAME,
                f"The name holds '{SEPARATOR}', which separates a pool from its subpool; use single hyphens.",
            )
        )
    elif not _SHORT_NAME.match(name):
        found.append(
            Violation(
                path,
                Fault.BAD_NAME,
                f"This is not a valid {what} name: lower-case letters, digits and single hyphens, a letter first, "
                "a letter or digit last.",
            )
        )
    return found
