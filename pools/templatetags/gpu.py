"""Template tags and filters of GPU quota."""

from __future__ import annotations

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from pools.domain.gpu_quota.workers import GpuAmounts
from pools.models import GpuAllocation
from pools.selectors.gpu_namespace import worker_from_row
from pools.selectors.gpu_usage import GpuMeter
from pools.templatetags.osmo import tone_badge

register = template.Library()

_TONES = {"OK": "good", "ALERT": "warn", "EXCEEDED": "bad", "INVALID": "bad", "UNLIMITED": "off"}
_BAR = '<div class="oa-bar" role="img" aria-label="{}: {} of {} used{}, {} percent available">{}</div>'
_PART = '<span class="oa-part--{}" style="flex-grow:{}"></span>'


@register.simple_tag
def gpu_quota_badge(status: str) -> SafeString:
    """The status of a namespace as a badge."""
    return tone_badge(_TONES[status], status)


@register.simple_tag
def meter_bar(meter: GpuMeter) -> SafeString | str:
    """The used, reserved and free parts of a cap, with a text for screen readers; empty without a cap."""
    if not meter.has_cap:
        return ""
    used = "draining" if meter.is_exceeded else "over" if meter.is_in_alert else "inside"
    parts = [(used, meter.committed), ("spare", meter.assumed), ("free", meter.left)]
    reserved = f", {meter.reserved} reserved" if meter.reserved else ""
    segments = format_html_join("", _PART, [(name, size) for name, size in parts if size])
    return format_html(_BAR, meter.label, meter.used, meter.cap, reserved, meter.available, segments)


@register.simple_tag
def worker_state(worker: GpuAllocation) -> SafeString:
    """The state of a worker as a badge."""
    tones = {"committed": "good", "assumed": "wait", "released": "off"}
    words = {"committed": "RUNNING", "assumed": "RESERVED", "released": "RELEASED"}
    return tone_badge(tones[worker.state], words[worker.state])


@register.filter
def request_of(worker: GpuAllocation) -> str:
    """The request of a worker, per GPU."""
    return _amounts(worker_from_row(worker).request)


@register.filter
def limit_of(worker: GpuAllocation) -> str:
    """The limit of a worker, per GPU."""
    return _amounts(worker_from_row(worker).limit)


def _amounts(amounts: GpuAmounts) -> str:
    texts = [f"{amounts.tflops} TFLOPS"] if amounts.tflops.milli else []
    texts += [str(amounts.vram)] if amounts.vram.milli else []
    return ", ".join(texts) or "–"
