"""Numbers of a proof as people read them, the same in the terminal and on the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pools.domain.numbers import REPLAY_NUMBERS
from pools.domain.values.counting import counted
from pools.domain.values.durations import span_text
from scheduling.history.proof.outcomes import JobVerdict, Sums
from scheduling.history.proof.prove import Proof
from scheduling.history.replay.jobs import SECOND
from scheduling.history.replay.measures import HOUR

NONE = "–"


class Pair(NamedTuple):
    """One number before and after, and their difference."""

    label: str
    before: str
    after: str
    difference: str


def wait_text(seconds: float | None, *, is_signed: bool = False) -> str:
    """A time, or a dash where there is none."""
    return NONE if seconds is None else span_text(round(seconds), is_signed=is_signed)


def hours_text(gpu_microseconds: float, *, signed: bool = False) -> str:
    """GPU-hours."""
    text = f"{abs(gpu_microseconds) / HOUR:,.0f}"
    if text == "0":
        return text
    return ("−" if gpu_microseconds < 0 else "+" if signed else "") + text


def share_text(part: float, whole: float) -> str:
    """A percentage."""
    return f"{part / whole:.1%}" if whole else NONE


def verdict_sentence(sums: Sums) -> str:
    """What became of all jobs, in one sentence."""
    counts = sums.verdicts
    return (
        f"Of {counted(sums.jobs, 'job')}, {counts[JobVerdict.SAME]:,} would have ended at the same time (within a "
        "minute), "
        f"{counts[JobVerdict.SOONER]:,} sooner, {counts[JobVerdict.LATER]:,} later, and {counts[JobVerdict.NEVER]:,} "
        "would never have started."
    )


def pairs(proof: Proof) -> Iterator[Pair]:
    """The numbers of all jobs before and after."""
    whole = proof.comparison.whole
    for key, share in (("wait_p50_s", 0.5), ("wait_p90_s", 0.9), ("wait_p99_s", 0.99)):
        yield _times(REPLAY_NUMBERS[key].label, whole.wait(share, after=False), whole.wait(share, after=True))
    yield _times(REPLAY_NUMBERS["wait_mean_s"].label, whole.mean_wait(after=False), whole.mean_wait(after=True))
    yield _hours(REPLAY_NUMBERS["waiting_gpu_h"].heading, whole.waited_before, whole.waited_after)
    stops = whole.stops_after - whole.stops_before
    difference = f"{stops:+,}".replace("-", "−") if stops else "0"
    yield Pair("Preemptions and requeues", f"{whole.stops_before:,}", f"{whole.stops_after:,}", difference)
    yield _hours(REPLAY_NUMBERS["lost_gpu_h"].heading, whole.lost_before, whole.lost_after)
    yield _hours("Used up to the last recorded end (GPU-hours)", proof.before_use, proof.after_use)
    whole_use = proof.capacity
    points = (proof.after_use - proof.before_use) / whole_use * 100 if whole_use else 0.0
    shares = (share_text(proof.before_use, whole_use), share_text(proof.after_use, whole_use))
    yield Pair("Utilisation in that time", *shares, f"{points:+.1f} points".replace("-", "−"))


def _times(label: str, before: float | None, after: float | None) -> Pair:
    difference = NONE if before is None or after is None else wait_text(after - before, is_signed=True)
    return Pair(label, wait_text(before), wait_text(after), difference)


def _hours(label: str, before: int, after: int) -> Pair:
    return Pair(label, hours_text(before), hours_text(after), hours_text(after - before, signed=True))


def later_text(microseconds: int | None) -> str:
    """How much later a job ends."""
    return "never starts" if microseconds is None else wait_text(microseconds / SECOND, is_signed=True)
