"""The page of a proof: one HTML file without anything from outside, which prints on paper; the same bytes each time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final

from pools.domain.values.counting import counted
from scheduling.history.proof.job_kinds import KindUse
from scheduling.history.proof.jobs_file import moment_text
from scheduling.history.proof.numbers import (
    NONE,
    hours_text,
    later_text,
    pairs,
    verdict_sentence,
    wait_text,
)
from scheduling.history.proof.outcomes import NOBODY, JobOutcome, ShareVerdict, Sums
from scheduling.history.proof.prove import Proof
from scheduling.history.replay.jobs import SECOND

MOST_TEAMS: Final = 100
MOST_PEOPLE: Final = 10
LONGEST_NAME: Final = 60
LONGEST_SENTENCE: Final = 3000
_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1f2937; --soft: #4b5563; --line: #d1d5db; --back: #ffffff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e5e7eb; --soft: #9ca3af; --line: #374151; --back: #111827; }
}
@media print { :root { --ink: #000000; --soft: #333333; --line: #999999; --back: #ffffff; } h2 { break-after: avoid; } }
@page { size: A4; margin: 14mm; }
body { font: 14px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--back); max-width: 68rem;
  margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 1.5rem 0 .5rem; }
p { margin: .25rem 0; } .soft { color: var(--soft); }
.wide { overflow-x: auto; } .wide + .wide { margin-top: 1rem; } .cases tbody { break-inside: avoid; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); } tr { break-inside: avoid; }
th, td { text-align: right; padding: .25rem .5rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; } th:first-child, td:first-child, .text { text-align: left; }
td { white-space: nowrap; } .text { overflow-wrap: anywhere; white-space: normal; min-width: 6rem; }
.case td { border-bottom: 0; } .why td { color: var(--soft); } .less { font-weight: 700; }
@media print {
  :root { font-size: 12px; } body { font-size: 9.5px; max-width: none; padding: 0; } .wide { overflow: visible; }
  th, td { padding: .2rem .25rem; } .text { min-width: 4rem; }
}
"""


def proof_page(proof: Proof) -> str:
    """The whole file."""
    return "\n".join(_parts(proof)) + "\n"


def _parts(proof: Proof) -> Iterator[str]:
    folder, history = map(_text, proof.sources)
    whole = proof.comparison.whole
    since = moment_text(proof.start + proof.begin, is_dated=proof.is_dated)
    until = moment_text(proof.start + proof.horizon, is_dated=proof.is_dated)
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{history} under {folder}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>"
    yield f"<h1>{history} under the quotas of {folder}</h1>"
    yield (
        f'<p class="soft">{since} to {until}. {counted(whole.jobs, "job")} with {hours_text(whole.work)} GPU-hours of '
        f"work, on {counted(proof.nodes, 'node')} with {counted(proof.gpus, 'GPU')}. Before: as recorded. After: the "
        "same jobs, replayed.</p>"
    )
    yield f"<p>{verdict_sentence(whole)}</p>"
    yield "<h2>In sum</h2>"
    sums = ([_text(cell) for cell in pair] for pair in pairs(proof))
    yield from _table(("", "Before", "After", "Difference"), sums)
    if proof.kinds:
        yield "<h2>Kinds of GPU</h2>"
        yield from _table(("Kind", "GPUs", "Used before (GPU-h)", "Used after (GPU-h)"), map(_kind, proof.kinds))
    yield "<h2>Teams: who gets less, who gets more</h2>"
    yield from _shares("Team", list(proof.comparison.teams.values()), MOST_TEAMS)
    people = [each for each in proof.comparison.people.values() if each.name != NOBODY]
    if people:
        yield "<h2>People whose work changes most</h2>"
        yield from _shares("Person", people, MOST_PEOPLE)
    yield "<h2>The worst cases</h2>"
    if proof.comparison.never:
        yield from _never(proof)
    if proof.comparison.worst:
        yield from _worst(proof)
    if not (proof.comparison.never or proof.comparison.worst):
        yield "<p>No job would have ended later.</p>"
    yield "<h2>What the history cannot tell</h2>\n<ul>"
    yield from (f"<li>{_text(sentence, LONGEST_SENTENCE)}</li>" for sentence in proof.untold)
    yield "</ul>\n<h2>How it is counted</h2>"
    yield (
        "<p>The delay of a job is how much later it ends, times its GPUs: a longer wait, and work that is done again "
        "after a preemption. Who has a delay of more than 1 % of the work gets less than before, who is as much "
        "earlier gets more; a job that can never start is less in any case. Waits and delays are those of jobs that "
        "start.</p>"
    )
    yield from (f"<p>{_text(sentence, LONGEST_SENTENCE)}</p>" for sentence in proof.counted)
    yield "</main>\n</body>\n</html>"


def _kind(each: KindUse) -> tuple[str, ...]:
    used = (hours_text(each.before), hours_text(each.after))
    return (_text(each.name), f"{each.gpus:,}", *used) if each.name else ("Nobody can tell", NONE, used[0], NONE)


def _shares(title: str, sums: Sequence[Sums], most: int) -> Iterator[str]:
    """A row for each, those who lose most first; of many those who lose and gain most."""
    ordered = sorted(sums, key=lambda each: (each.verdict is not ShareVerdict.LESS, -each.delay, each.name))
    shown = ordered
    if len(ordered) > most:
        first = (most + 1) // 2
        shown = [*ordered[:first], *ordered[len(ordered) - (most - first) :]]
    columns = (
        title, "Jobs", "Work (GPU-h)", "Mean wait before", "after", "Wait of 90 % before", "after", "Stopped before",
        "after", "Never start", "Delay (GPU-h)", "Gets",
    )  # fmt: skip
    yield from _table(columns, (_share(each) for each in shown))
    if len(shown) < len(ordered):
        left_out = len(ordered) - len(shown)
        yield f'<p class="soft">{left_out:,} between them are left out here; the file of jobs has all.</p>'


def _share(sums: Sums) -> tuple[str, ...]:
    never = sums.jobs - len(sums.waits_after)
    verdict = str(sums.verdict)
    return (
        _text(sums.name), f"{sums.jobs:,}", hours_text(sums.work),
        wait_text(sums.mean_wait(after=False)), wait_text(sums.mean_wait(after=True)),
        wait_text(sums.wait(0.9, after=False)), wait_text(sums.wait(0.9, after=True)),
        f"{sums.stops_before:,}", f"{sums.stops_after:,}", f"{never:,}", hours_text(sums.delay, signed=True),
        f'<span class="less">{verdict}</span>' if sums.verdict is ShareVerdict.LESS else verdict,
    )  # fmt: skip


def _never(proof: Proof) -> Iterator[str]:
    columns = ("Jobs that never start", "Team", "Priority", "GPUs", "Work (GPU-h)", "First submitted")
    rows = []
    for group in proof.comparison.never:
        case, job = group.first, group.first.job
        cells = (
            f"{counted(group.jobs, 'job')}, first {_job_name(case)}", _text(job.team), job.priority.value,
            f"{job.gpus:,}", hours_text(group.work), _submitted(proof, case),
        )  # fmt: skip
        rows.append((cells, proof.reasons.get(job.id, "")))
    yield from _reasoned_table(columns, rows)


def _worst(proof: Proof) -> Iterator[str]:
    columns = ("Job", "Person", "Team", "GPUs", "Submitted", "Wait before", "after", "Stopped after", "Ends later")
    rows = []
    for case in proof.comparison.worst:
        job = case.job
        after = None if case.wait_after is None else case.wait_after / SECOND
        cells = (
            _job_name(case), _text(job.user or "–"), _text(job.team), f"{job.gpus:,}", _submitted(proof, case),
            wait_text(case.wait_before / SECOND), wait_text(after), f"{case.stops_after:,}", later_text(case.later),
        )  # fmt: skip
        rows.append((cells, proof.reasons.get(job.id, "")))
    yield from _reasoned_table(columns, rows)


def _submitted(proof: Proof, case: JobOutcome) -> str:
    return moment_text(proof.start + case.job.submit, is_dated=proof.is_dated).replace("T", " ")


def _job_name(case: JobOutcome) -> str:
    line = f"line {case.record.line:,}"
    return f"{_text(case.job.name)} ({line})" if case.job.name else line


def _reasoned_table(columns: Sequence[str], rows: Sequence[tuple[Sequence[str], str]]) -> Iterator[str]:
    """Each row has its reason below it."""
    yield f'<div class="wide cases"><table>\n{_head(columns, (1, 2))}'
    for cells, reason in rows:
        yield f'<tbody><tr class="case">{_cells(cells, (1, 2))}</tr>'
        yield f'<tr class="why"><td class="text" colspan="{len(columns)}">{_text(reason, 400)}</td></tr></tbody>'
    yield "</table></div>"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Cells are HTML already."""
    yield f'<div class="wide"><table>\n{_head(columns)}\n<tbody>'
    for row in rows:
        yield f"<tr>{_cells(row)}</tr>"
    yield "</tbody></table></div>"


def _head(columns: Sequence[str], texts: Sequence[int] = ()) -> str:
    heads = "".join(f'<th scope="col"{_class(at, texts)}>{escape(name)}</th>' for at, name in enumerate(columns))
    return f"<thead><tr>{heads}</tr></thead>"


def _cells(cells: Sequence[str], texts: Sequence[int] = ()) -> str:
    return "".join(f"<td{_class(at, texts)}>{cell}</td>" for at, cell in enumerate(cells))


def _class(at: int, texts: Sequence[int]) -> str:
    return ' class="text"' if at in texts or at == 0 else ""


def _text(text: str, longest: int = LONGEST_NAME) -> str:
    """A text from a file, short and without a character that is markup or invisible."""
    plain = "".join(letter if letter.isprintable() else "�" for letter in text)
    return escape(plain if len(plain) <= longest else f"{plain[: longest - 1]}…")
