"""Names of other software as names that are valid here: always the same one for the same source."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Final

from pools.domain.names import LABEL_LIMIT, SHARED_QUEUE, k8s_queue_name, queue_name
from scheduling.moving_in.result import ImportResult, SourcePlace

_OTHERS: Final = re.compile(r"[^a-z0-9]+")
_MARK: Final = 6  # characters of a checksum that keep two long names apart


@dataclass(slots=True)
class NameRegister:
    """The names of one kind (pool, cohort, node), each given once. `longest` is the most characters."""

    what: str
    longest: int
    result: ImportResult
    taken: set[str] = field(default_factory=set)
    numbers: dict[str, int] = field(default_factory=dict)

    def claim(self, foreign: str, place: SourcePlace) -> str:
        """The name here of an object with this name there. A changed name is in the report."""
        name = base = valid_name(foreign, self.longest)
        number = self.numbers.get(base, 1)
        while name in self.taken:
            number += 1
            name = f"{valid_name(foreign, self.longest - len(str(number)) - 1)}-{number}"
        self.numbers[base] = number
        self.taken.add(name)
        if name != base:
            self.result.decide(
                place, f"the name {foreign} is taken by another {self.what}, so this one is {name}: choose a name."
            )
        elif name != foreign:
            self.result.became(
                place,
                f"{self.what} {foreign} is named {name}: names have lower-case letters, digits and single hyphens, at "
                f"most {self.longest} characters.",
            )
        return name


def longest_pool_name(namespace: str) -> int:
    """The most characters of a pool on a cluster with this namespace: the name of its queue must fit into a label."""
    return LABEL_LIMIT - len(k8s_queue_name(queue_name(namespace, "", SHARED_QUEUE)))


def longest_subpool_name(namespace: str, pool: str) -> int:
    """The most characters of a subpool."""
    return LABEL_LIMIT - len(queue_name(namespace, pool, ""))


def valid_name(foreign: str, longest: int) -> str:
    """The nearest valid name; a long one ends with a checksum of the whole."""
    name = _OTHERS.sub("-", foreign.lower()).strip("-")
    if not name[:1].isalpha():
        name = f"x-{name}".rstrip("-")
    if len(name) > longest:
        mark = hashlib.sha256(foreign.encode()).hexdigest()[:_MARK]
        name = f"{name[: longest - _MARK - 1].rstrip('-')}-{mark}"
    return name
