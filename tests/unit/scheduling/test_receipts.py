"""What an attempt lost, and why it ended, in the words of a cluster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.domain.receipts.causes import EndCause, cause_by_cluster, cause_of_end, is_by_lowered_quota
from scheduling.domain.receipts.lost import checkpoint_interval, lost_gpu_ms, lost_since
from scheduling.domain.receipts.words import CAUSE_LABELS, EndFacts, end_cause_text
from scheduling.domain.statuses import TaskStatus

START = datetime(2026, 11, 27, 12, tzinfo=UTC)
OURS = UUID("0b6d9bc8-8e0f-4b3f-9a57-2b1b6f0f4a11")
LENGTHS = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=40))


@given(ran=LENGTHS, every=st.timedeltas(min_value=timedelta(seconds=1), max_value=timedelta(days=2)))
def test_at_most_one_interval_is_lost(ran, every):
    since = lost_since(START, START + ran, every)
    assert START <= since <= START + ran
    assert START + ran - since < every
    assert (since - START) % every == timedelta(0)


@given(ran=LENGTHS, gpus=st.integers(0, 512))
def test_without_checkpoints_everything_is_lost(ran, gpus):
    end = START + ran
    assert lost_since(START, end, None) == START
    assert lost_gpu_ms(gpus, START, end) == gpus * (ran // timedelta(milliseconds=1))


def test_an_end_before_the_start_loses_nothing():
    early = START - timedelta(seconds=1)
    assert lost_gpu_ms(8, lost_since(START, early, timedelta(minutes=1)), early) == 0


@pytest.mark.parametrize(("text", "minutes"), [("30m", 30), ("1h30m", 90), ("0", None), ("soon", None), (None, None)])
def test_the_label_of_checkpoints(text, minutes):
    labels = {} if text is None else {"osmo/checkpoint-every": text}
    assert checkpoint_interval(labels) == (None if minutes is None else timedelta(minutes=minutes))


@pytest.mark.parametrize(
    ("words", "cause", "taker"),
    [
        (f"Pod ns/a was preempted by higher priority workload ns/{OURS}", EndCause.PRIORITY, OURS),
        (f"Pod ns/a was preempted by workload ns/{OURS}. a uses <1> with a quota of <2>", EndCause.RECLAIM, OURS),
        (f"Pod ns/a was preempted by workload ns/pg-{OURS}-7.", EndCause.RECLAIM, None),
        ("Workload doesn't have the minimum required number of pods (2)", EndCause.BELOW_MINIMUM, None),
        ("Pod ns/a was preempted and rescheduled due to bin packing consolidation", EndCause.CONSOLIDATION, None),
        ("needed elsewhere", EndCause.NOT_KNOWN, None),
        ("", EndCause.NOT_KNOWN, None),
    ],
)
def test_the_words_of_a_cluster(words, cause, taker):
    assert cause_by_cluster(words) == (cause, taker)


@pytest.mark.parametrize(
    ("status", "code", "cause"),
    [
        ("FAILED_EVICTED", 3004, EndCause.EVICTED),
        ("COMPLETED", 3004, EndCause.EVICTED),
        ("FAILED_BACKEND_ERROR", 3001, EndCause.NODE),
        ("RESCHEDULED", 3001, EndCause.NODE),
        ("FAILED_PREEMPTED", None, EndCause.NOT_KNOWN),
        ("FAILED", 1, None),
    ],
)
def test_the_end_itself_says_the_cause(status, code, cause):
    assert cause_of_end(TaskStatus(status), code) is cause


@pytest.mark.parametrize(
    ("used", "quota", "before", "is_lowered"),
    [(8, 4, 8, True), (8, 4, 4, False), (9, 4, 8, False), (8, 8, 4, False), (8, 4, None, False)],
)
def test_a_lowered_quota(used, quota, before, is_lowered):
    assert is_by_lowered_quota(used, quota, before) is is_lowered


@pytest.mark.parametrize("cause", list(EndCause))
def test_every_cause_has_words_with_its_gpus_and_its_queue(cause):
    text = end_cause_text(EndFacts(cause, "lab--b", 8, quota_at_start=8, quota=4))
    assert "8 GPUs" in text
    assert CAUSE_LABELS[cause]
