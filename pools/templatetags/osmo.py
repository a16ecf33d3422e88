"""Template tags and filters that write numbers, times and states."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django import template
from django.forms import BoundField, CheckboxInput
from django.templatetags.static import static
from django.urls import reverse
from django.utils import timezone
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from pools.domain import audit_actions
from pools.domain.configuration.pool_fields import POOL_FIELDS
from pools.domain.names import readable_name
from pools.domain.numbers import NUMBERS, POOL_NUMBERS, TREE_NUMBERS, NamedNumber
from pools.domain.people.notices import first_sentence
from pools.domain.quota import forest
from pools.domain.quota.stored_quotas import StoredFlavors
from pools.domain.quota.usage_bar import BAR_PARTS, FlavorUse, UsageBar
from pools.domain.structured_input.faults import join_words
from pools.domain.values.amounts import (
    NO_LIMIT,
    UNLIMITED,
    Amount,
    Gpus,
    amount_text,
    flavor_of,
    gpu_words,
    gpus_text,
    is_gpu,
    resource_key,
)
from pools.domain.values.byte_sizes import size_text
from pools.domain.values.durations import span_text
from pools.models import AuditEntry, Reservation
from pools.selectors.leaf_holders import LeafHolder
from pools.selectors.quotas.pool_tree import PoolTreeRow
from pools.selectors.quotas.quota_pages import QuotaTreeRow, kind_segment_of

register = template.Library()

_USAGE_BAR = (
    '<div class="oa-usage" role="group" aria-label="{}" title="{}"><div class="oa-bar{}" aria-hidden="true">{}</div>'
    '<span class="oa-usage__text">{}</span></div>'
)
_PART = '<span class="oa-part--{}" style="flex-grow:{}"></span>'
_EMPTY: tuple[object, ...] = (None, "", [], {})
MINUS = "\N{MINUS SIGN}"
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))
_TONES = {
    "ONLINE": "good",
    "ACTIVE": "good",
    "RUNNING": "good",
    "COMPLETED": "done",
    "PENDING": "wait",
    "SCHEDULING": "wait",
    "WAITING": "wait",
    "MAINTENANCE": "warn",
    "DELETING": "warn",
    "FAILED_CANCELED": "off",
    "OFFLINE": "bad",
    "LATE": "bad",
    "ARCHIVED": "off",
}
QUIET_TONES = frozenset({"good", "done", "off", "wait"})
"""Of normal states: a dot and a grey word. Colour is for what differs."""
_STATE_LABELS = {"FAILED_CANCELED": "CANCELLED", "CANCELED": "CANCELLED"}


register.filter(first_sentence)


@register.filter
def object_words(subject: str) -> str:
    """An object of the audit trail as a person calls it: `vision` for `pool/vision`, `request 1` for `approval/1`."""
    kind, _, name = subject.partition("/")
    return f"request {name}" if kind == "approval" else name or kind


@register.filter
def counting(number: Amount | None, words: str) -> str:
    """`1 node`, `2 nodes`: a number with its word, or with the second of two words that a comma divides."""
    one, _, many = words.partition(",")
    text = signed(number) if isinstance(number, int) else number or 0
    return f"{text} {one if number == 1 else many or one + 's'}"


@register.filter
def gpus(value: Gpus | None) -> str:
    """A number of GPUs: thousands apart, a true minus sign, `unlimited` (quotas only; see `signed`)."""
    if value is None:
        return "–"
    return "unlimited" if value in {UNLIMITED, NO_LIMIT} else signed(int(value))


@register.filter
def limit_by_flavor(flavors: StoredFlavors, limit: str) -> str:
    """The limit of each flavor that has one: `24 h100 and 8 a100`."""
    return join_words([f"{signed(each[limit])} {each['flavor']}" for each in flavors if each.get(limit, -1) >= 0])


@register.filter
def signed(value: int) -> str:
    """A whole number with thousands apart and a true minus sign; -1 is -1."""
    return f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}").replace("-", MINUS)


@register.filter
def amount(value: Amount | None) -> str:
    """An exact amount of any resource: thousands apart, a true minus sign, `unlimited`."""
    if value is None:
        return "–"
    return signed(value) if isinstance(value, int) else amount_text(value).replace("-", MINUS)


@register.filter
def number(value: Any) -> str:
    """A number as the API shows it: whole with thousands apart, -1 and None as words, a fraction as it is."""
    if value is None:
        return "–"
    if isinstance(value, int):
        return "unlimited" if value == NO_LIMIT else signed(value)
    return str(value)


@register.filter
def memory(value: int) -> str:
    """Bytes of a node, as the client writes them: `1024Gi`."""
    return size_text(value, round_up=False)


@register.filter
def size(value: Amount) -> str:
    """An amount without its sign, which the page writes apart."""
    return amount(-value if value < 0 else value)


@register.filter
def node_address(key: str) -> str:
    """The page of a node of the quota tree, by the node's key."""
    return reverse("admin:pools_quota_node", args=[kind_segment_of(key), forest.display_name(key)])


register.filter("readable", readable_name)


@register.filter
def node_name(key: str) -> str:
    """The name of a node of the quota tree, by the node's key."""
    return readable_name(forest.display_name(key))


@register.simple_tag
def number_heads(*terms: str, extra: str = "") -> SafeString:
    """The headings of columns of numbers, by their terms (`pools.domain.numbers`), each with its meaning. `extra`
    columns are left out at first (`columns.js`): "narrow" where the window is narrow, "always" in each."""
    return heads_of((NUMBERS[term] for term in terms), f'data-extra="{extra}" ' if extra else "")


def heads_of(numbers: Iterable[NamedNumber], mark: str = "") -> SafeString:
    """The headings of columns of numbers; `mark` is an attribute of each."""
    rows = ((SafeString(mark), with_meaning(number.label, number.meaning)) for number in numbers)
    return format_html_join("", '<th {}scope="col" class="oa-right">{}</th>', rows)


def with_meaning(label: str, meaning: str) -> SafeString | str:
    """A label with its meaning, if it has one, as its tooltip."""
    return format_html('<abbr title="{}">{}</abbr>', meaning, label) if meaning else label


@register.filter
def cell(text: str, term: str) -> SafeString:
    """The text of a number as a cell of a table; the term of the number says the name that narrow windows show. A 0 is
    quiet, and phones leave it out of the rows of lists."""
    quiet = " oa-zero" if text == "0" else ""
    return format_html('<td data-label="{}" class="oa-right{}">{}</td>', NUMBERS[term].label, quiet, text)


@register.filter
def label(term: str) -> str:
    """The name of a number, by its term."""
    return NUMBERS[term].label


@register.filter
def ago(time: datetime | None) -> SafeString | str:
    """A time relative to now, with the exact time (UTC) as its tooltip. `times.js` keeps it current, and shows the
    exact time in UTC or in the zone of the browser if the person chooses that."""
    if time is None:
        return "–"
    seconds = (timezone.now() - time).total_seconds()
    words = "just now" if abs(seconds) < 10 else f"{_age(seconds)} ago" if seconds > 0 else f"in {_age(-seconds)}"
    return format_html(
        '<time datetime="{}" title="{}" data-age>{}</time>',
        time.astimezone(UTC).isoformat(timespec="seconds"),
        _utc(time),
        words,
    )


def _age(seconds: float) -> str:
    """A length of time in one unit, because the tooltip has the exact time; the same as `age` in `times.js`."""
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= size), (1, "s"))
    return f"{int(seconds // size)} {unit}"


def _utc(time: datetime) -> str:
    return f"{time.astimezone(UTC).isoformat(' ')[:19]} UTC"


@register.filter
def lasting(time: datetime | None) -> SafeString | str:
    """The time since a moment, as a length: `47 min`, `1 h 5 min`. `times.js` keeps it current; a person who chose
    exact times reads `since` and the time."""
    if time is None:
        return "–"
    seconds = max((timezone.now() - time).total_seconds(), 1)
    words = _age(seconds) if seconds < _UNITS[1][0] else span(seconds)
    return format_html(
        '<time datetime="{}" title="since {}" data-age="length">{}</time>',
        time.astimezone(UTC).isoformat(timespec="seconds"),
        _utc(time),
        words,
    )


@register.filter
def exact(time: datetime | None) -> SafeString | str:
    """The exact time in UTC, or in the zone of the browser if the person chooses that."""
    if time is None:
        return "–"
    return format_html(
        '<time datetime="{}" data-exact>{}</time>', time.astimezone(UTC).isoformat(timespec="seconds"), _utc(time)
    )


@register.filter
def span(length: float | timedelta | None) -> str:
    """A length of time as `span_text` writes it; an en dash where there is none."""
    if length is None:
        return "–"
    return span_text(length.total_seconds() if isinstance(length, timedelta) else length)


@register.filter
def hours(amount: float | None) -> str:
    """GPU-hours, from 100 on without decimals; an en dash where there is no such amount."""
    if amount is None:
        return "–"
    return f"{amount:,.{0 if abs(amount) >= 100 else 1}f}".replace(",", "\N{NARROW NO-BREAK SPACE}") if amount else "0"


@register.filter
def absolute(value: float) -> float:
    """A number without its sign."""
    return abs(value)


@register.filter
def tone(state: str) -> str:
    """The colour of a state's badge; the badge names the state too."""
    return _TONES.get(state) or ("bad" if state.startswith("FAILED") else "off")


@register.simple_tag
def badge(state: str) -> SafeString:
    """A state as a badge: a dot and its word, on a colour where it is not a normal state."""
    return tone_badge(tone(state), state_label(state)) if state else SafeString("")


@register.simple_tag
def tone_badge(tone: str, words: str) -> SafeString:
    """These words as a badge of the tone."""
    quiet = " oa-badge--quiet" if tone in QUIET_TONES else ""
    return format_html('<span class="oa-badge oa-badge--{}{}">{}</span>', tone, quiet, words)


@register.filter
def resource_name(key: str, parts: Collection[str] = ()) -> str:
    """What people call a resource of quotas; GPUs without a flavor are just GPUs, and those of `parts`, the flavors
    that count parts of shared GPUs, are parts."""
    whole = resource_key(key)
    return gpu_words(flavor_of(whole), parts)[1] if is_gpu(whole) else key


@register.filter
def held_text(row: Reservation | LeafHolder, parts: Collection[str] = ()) -> str:
    """The GPUs that work holds; those of `parts`, the flavors that count parts of shared GPUs, are parts."""
    return gpus_text(row.held_gpus, row.held_by_flavor, parts)


def state_label(state: str) -> str:
    """The word of pages for a state."""
    return _STATE_LABELS.get(state, state)


@register.simple_tag
def icon(name: str) -> SafeString:
    """A picture of `static/osmo/icons.svg` for people who see; the text next to it or the label is for everybody."""
    address = static("osmo/icons.svg")
    return format_html('<svg class="oa-icon" aria-hidden="true"><use href="{}#{}"></use></svg>', address, name)


@register.simple_tag
def usage_bar(bar: UsageBar, label: str) -> SafeString:
    """The bar of a leaf, pool or cohort, the same on every page, with its numbers as text. Built in Python because a
    page has hundreds."""
    parts = [(part.key, size, part.word) for part, size in bar.parts() if size]
    if not parts:
        return format_html(_USAGE_BAR, label, "no quota, no use", " oa-bar--empty", "", "no quota, no use")
    segments = format_html_join("", _PART, [(key, size) for key, size, _ in parts])
    texts = ", ".join(f"{signed(size)} {word}" for _, size, word in parts)
    return format_html(_USAGE_BAR, label, texts, "", segments, texts)


_FLAVOR = '<span class="oa-nowrap{}">{} {} of {}{}</span>'


@register.simple_tag
def flavor_line(flavors: Sequence[FlavorUse]) -> SafeString:
    """What is in use of the quota of each flavor, the full ones in bold; nothing without flavors."""
    if not flavors:
        return SafeString("")
    found = format_html_join(
        ", ",
        _FLAVOR,
        (
            (
                " oa-strong" if each.is_full else "",
                each.flavor,
                signed(each.used),
                amount(each.quota),
                " parts of GPUs" if each.is_of_parts else "",
            )
            for each in flavors
        ),
    )
    return format_html('<small class="oa-quiet oa-flavors">{}</small>', found)


@register.simple_tag
def bar_legend() -> SafeString:
    """The parts of the bars of this page: their colours and words."""
    lines = format_html_join(
        "", '<li><i class="oa-part--{}" aria-hidden="true"></i>{}</li>', ((part.key, part.legend) for part in BAR_PARTS)
    )
    return format_html('<ul class="oa-legend" aria-label="Legend of the bars">{}</ul>', lines)


_BRIEF = ' <abbr class="oa-quiet" title="{}">({})</abbr>'
_ON_PHONES = ("quota", "can_start_now")
_TREE_CELLS = '<td data-label="GPUs" class="oa-wide">{}</td>' + "".join(
    f'\n<td data-label="{POOL_NUMBERS[key].label}" class="oa-right{"" if key in _ON_PHONES else " oa-aside"}">'
    f"{'{}{}{}' if key == 'quota' else '{}'}</td>"
    for key in ("quota", "total_usage", "used", "available", "can_start_now", "live_workflows")
)


@register.simple_tag
def tree_cells(row: PoolTreeRow) -> SafeString:
    """The numbers of a pool or one of its leaves, as cells of a table. Built in Python because a page has hundreds.
    Each row is one line: of a quota that changes later, the tooltip says when."""
    later: SafeString | str = ""
    if row.kind == "shared" and row.quota_now != row.quota:
        until_drained = f"{gpus(row.quota_now)} until the drain ends"
        later = format_html(_BRIEF, until_drained, f"now {gpus(row.quota_now)}")
    temporary: SafeString | str = ""
    if row.until:
        after = gpus(row.quota_after)
        temporary = format_html(
            _BRIEF, f"temporary; {row.after_text or after} again {_utc(row.until)}", f"then {after}"
        )
    return format_html(
        _TREE_CELLS,
        usage_bar(row.bar, row.name) + flavor_line(row.flavors),
        gpus(row.quota),
        later,
        temporary,
        signed(row.total_usage),
        signed(row.used),
        guaranteed_free(row),
        can_start(row),
        signed(row.live_workflows),
    )


_QUOTA_CELL = '<td data-label="{}" class="oa-right{}"><a tabindex="-1" href="{}#{}">{}</a></td>'


@register.simple_tag
def quota_cells(row: QuotaTreeRow, address: str) -> SafeString:
    """The numbers of a node of the quota tree, as cells that link to their explanations on the page of the node."""
    texts: dict[str, SafeString | str] = {key: amount(value) for key, value in row.amounts.items()}
    texts["weighted_share"] = row.share
    if row.debt:
        texts["debt"] = format_html('<span class="oa-negative">{}</span>', amount(row.debt))
    return format_html_join(
        "\n",
        _QUOTA_CELL,
        (
            (TREE_NUMBERS[key].label, " oa-zero" if text == "0" else "", address, key, text)
            for key, text in texts.items()
        ),
    )


@register.simple_tag
def guaranteed_free(row: PoolTreeRow) -> SafeString | str:
    """Quota minus guaranteed use (HIGH and NORMAL); below zero, that much has to drain first."""
    if row.quota == UNLIMITED:
        return "unlimited"
    text = signed(int(row.available))
    return format_html('<span class="oa-negative">{}</span>', text) if row.available < 0 else text


def can_start(row: PoolTreeRow) -> SafeString:
    """What HIGH and NORMAL work may start now, and beside it what LOW work may; one quiet 0 if nothing may start."""
    if not row.can_start_now and not row.low_can_start_now:
        return mark_safe('<span class="oa-zero">0</span>')
    return format_html(
        '{} <span class="oa-quiet" title="{}">· {} LOW</span>',
        amount(row.can_start_now),
        POOL_NUMBERS["low_can_start_now"].meaning,
        amount(row.low_can_start_now),
    )


@register.filter
def minute(time: datetime | None) -> SafeString | str:
    """A time to the minute, as `Fri 27 Nov 18:00 UTC`; `times.js` shows it in the zone of the reader."""
    if time is None:
        return "–"
    utc = time.astimezone(UTC)
    year = f" {utc:%Y}" if utc.year != timezone.now().year else ""
    return format_html(
        '<time datetime="{}" data-minute>{}</time>',
        utc.isoformat(timespec="seconds"),
        f"{utc:%a} {utc.day} {utc:%b}{year} {utc:%H:%M} UTC",
    )


def _with_moments(text: str) -> str:
    """The minutes of :func:`pools.domain.values.durations.minute_text` in a text, each as a time."""
    return _MINUTE.sub(
        lambda found: minute(datetime.strptime(found[0], "%Y-%m-%d %H:%M UTC").replace(tzinfo=UTC)), text
    )


_HYPHENED = re.compile(r"(?<!\S)(\S*\w-\S*\w\S*)")  # from the start of a word alone: else slow for a long one
_MINUTE = re.compile(r"\b(\d{4}-\d\d-\d\d \d\d:\d\d) UTC\b")


@register.filter
def marked(message: Any) -> SafeString:
    """A message as a page writes it: what stands between back ticks is code, and minutes follow the reader's zone."""
    parts = conditional_escape(message).split("`")
    if len(parts) % 2 == 0:  # a single tick is a tick
        return mark_safe(_with_moments("`".join(parts)))  # noqa: S308  escaped above
    texts = (
        f'<code class="oa-mono">{part}</code>' if index % 2 else _with_moments(part) for index, part in enumerate(parts)
    )
    return mark_safe("".join(texts))  # noqa: S308  escaped above


@register.filter
def is_checkbox(field: BoundField) -> bool:
    """Whether a form's field is a single checkbox, whose label follows it."""
    return isinstance(field.field.widget, CheckboxInput)


@register.filter
def short_label(field: BoundField) -> str:
    """The label of a form's field without the unit, which stands inside the input."""
    unit = getattr(field.field, "unit", "")
    return str(field.label).removesuffix(f" in {unit}") if unit else str(field.label)


@register.filter
def is_forgotten_secret(field: BoundField) -> bool:
    """Whether a refused form dropped an optional secret, which would count as empty when the form is sent again."""
    was_dropped = getattr(field.field, "is_secret", False) and field.form.errors and field.data
    return bool(was_dropped) and not field.field.required


@register.filter
def audit_message(entry: AuditEntry) -> str:
    """The message of an audit entry, the same on pages, in the API and in the client."""
    return audit_actions.audit_message(
        entry.action, entry.object, entry.actor, entry.before, entry.after, entry.description
    )


@register.filter
def whole_names(message: str) -> SafeString:
    """A sentence whose names no line breaks at a hyphen."""
    words = enumerate(_HYPHENED.split(message))
    return format_html_join(
        "", "{}", ((format_html('<span class="oa-whole">{}</span>', word) if at % 2 else word,) for at, word in words)
    )


@register.filter
def pretty(value: Any) -> str:
    """A stored value: an en dash for nothing, texts as they are, the rest as indented JSON."""
    if value in _EMPTY:
        return "–"
    return value if isinstance(value, str) else json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)


@register.filter
def stored_settings(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The keys of a pool that are stored as they are, by their labels: a text, or indented JSON."""
    found = ((field, config[field.key]) for field in POOL_FIELDS if config.get(field.key) not in _EMPTY)
    return [(field.label, field.value_text(value) if field.unit else pretty(value)) for field, value in found]


@register.simple_tag(takes_context=True)
def query(context: dict[str, Any], **changes: Any) -> str:
    """The page's own query string with some keys changed (empty ones dropped)."""
    params = context["request"].GET.copy()
    for key, value in changes.items():
        if value in {None, ""}:
            params.pop(key, None)
        else:
            params[key] = value
    return f"?{params.urlencode()}"
