"""What unblocks a gang that dispatch admission keeps, from its stored reason."""

from __future__ import annotations

import pytest

from scheduling.domain.engine.reasons.explain import Reason
from scheduling.domain.judgement.dispatch_admission import BY_PLATFORM
from scheduling.selectors.queue.cluster_reasons import reason_from_cluster


@pytest.mark.parametrize(
    ("idle", "ending"),
    [
        (2, "or owners raise their lending limits."),
        ("unlimited", "or owners raise their lending limits."),
        (1, "higher lending limits alone give too little."),
    ],
)
def test_lending_limits_are_a_remedy_only_if_they_suffice(idle: object, ending: str) -> None:
    stored = {"code": "not_lent", "message": "", "by": BY_PLATFORM, "queue": "org", "limit": "quota"}
    stored |= {"requested": 4, "free": 2, "missing": 2, "idle": idle}
    (line,) = reason_from_cluster(stored, Reason("no_room", "", "org")).unblock
    assert line.endswith(ending)
