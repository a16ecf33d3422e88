"""GPU quota by namespace: the list with its gauges, one namespace with the workers behind them, and its caps."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse

from pools.admin import forms
from pools.admin.paging import window
from pools.admin.policy import PolicyAdmin, actor_of
from pools.domain.errors import Conflict, DomainError, Stale
from pools.domain.gpu_quota.checks import room_for
from pools.domain.gpu_quota.workers import parse_worker
from pools.models import GpuQuota, GpuUsage, Pool
from pools.permissions import may_allocate, may_write, namespaces_for, require_house, require_namespace, unseen
from pools.selectors.gpu_namespace import Namespace, look_at
from pools.selectors.gpu_usage import (
    conditions_of,
    form_values,
    history,
    namespace_row,
    namespace_rows,
    pools_of,
    workers_in,
)
from pools.services.gpu_allocations import release
from pools.services.gpu_quotas import delete_quota, put_quota

LIST = "GPU quota"
_GROUPS = {
    "total": ("requests", "limits"),
    "single": ("max_requests", "max_limits", "default_requests", "default_limits"),
}
_CAMEL = {
    "max_requests": "maxRequests",
    "max_limits": "maxLimits",
    "default_requests": "defaultRequests",
    "default_limits": "defaultLimits",
}
_NUMBERS = {
    "max_workers": ("total", "maxWorkers"),
    "alert_threshold": ("total", "alertThresholdPercent"),
    "max_gpu_count": ("single", "maxGPUCount"),
}
_QUANTITY = "A quantity, as 100, 0.5 or 16Gi; empty is no cap."


def _paths() -> dict[str, str]:
    found = {f"spec.{part}.{key}": name for name, (part, key) in _NUMBERS.items()}
    for part, groups in _GROUPS.items():
        for group in groups:
            for resource in ("tflops", "vram"):
                found[f"spec.{part}.{_CAMEL.get(group, group)}.{resource}"] = f"{group}_{resource}"
    return found


class QuotaForm(forms.HouseForm):
    """The caps of a namespace; what is empty is not checked."""

    paths = _paths()
    requests_tflops = forms.text("TFLOPS requested, in total", help_text=_QUANTITY)
    requests_vram = forms.text("Memory requested, in total", help_text=_QUANTITY)
    limits_tflops = forms.text("TFLOPS limit, in total", help_text="Not below what may be requested.")
    limits_vram = forms.text("Memory limit, in total", help_text="Not below what may be requested.")
    max_workers = forms.text("Workers", help_text="A worker is one pod, whatever its GPUs.")
    alert_threshold = forms.text("Alert above this percentage of use", help_text="0 to 100.")
    max_requests_tflops = forms.text("TFLOPS requested, per GPU of one worker", help_text="Zero is no cap here.")
    max_requests_vram = forms.text("Memory requested, per GPU of one worker")
    max_limits_tflops = forms.text("TFLOPS limit, per GPU of one worker")
    max_limits_vram = forms.text("Memory limit, per GPU of one worker")
    max_gpu_count = forms.text("GPUs of one worker")
    default_requests_tflops = forms.text("TFLOPS for a worker that requests none")
    default_requests_vram = forms.text("Memory for a worker that requests none")
    default_limits_tflops = forms.text("TFLOPS limit for a worker that names none")
    default_limits_vram = forms.text("Memory limit for a worker that names none")
    description = forms.text("Why", help_text="Optional. Stands in the audit trail beside your name.")
    version = forms.hidden_number()

    def spec(self) -> dict[str, Any]:
        """What the service takes; its rules are the service's."""
        data = self.cleaned_data
        spec: dict[str, Any] = {"total": {}, "single": {}}
        for part, groups in _GROUPS.items():
            for group in groups:
                said = {
                    key: data[f"{group}_{key}"].strip() for key in ("tflops", "vram") if data[f"{group}_{key}"].strip()
                }
                if said:
                    spec[part][_CAMEL.get(group, group)] = said
        for name, (part, key) in _NUMBERS.items():
            if text := data[name].strip():
                spec[part][key] = _number(text)
        return spec


class NewQuotaForm(QuotaForm):
    """The caps of a namespace that has none yet."""

    field_order = ("namespace",)
    namespace = forms.text("Namespace", help_text="1 to 63 lower-case letters, digits and hyphens.", required=True)


class SizeForm(forms.FilterForm):
    """The size of a worker to ask for."""

    request_tflops = forms.text("TFLOPS requested, per GPU")
    request_vram = forms.text("Memory requested, per GPU")
    limit_tflops = forms.text("TFLOPS limit, per GPU")
    limit_vram = forms.text("Memory limit, per GPU")
    count = forms.text("GPUs of one worker", placeholder="1", inputmode="numeric")


class DeleteForm(forms.HouseForm):
    """Why."""

    description = forms.text("Why", help_text="Optional. Stands in the audit trail beside your name.")


def _number(text: str) -> int | str:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 12 else text


@admin.register(GpuQuota)
class GpuQuotaAdmin(PolicyAdmin):
    """Looked at by whoever has a role on a pool that uses the namespace, changed by osmo-admin."""

    def extra_urls(self) -> list[URLPattern]:
        return [
            path("create/", self.door(self._create), name="pools_gpuquota_create"),
            path("<str:namespace>/configuration/", self.door(self._configure), name="pools_gpuquota_configure"),
            path("<str:namespace>/delete/", self.door(self._delete), name="pools_gpuquota_delete"),
            path("<str:namespace>/release/<str:worker>/", self.door(self._release), name="pools_gpuquota_release"),
        ]

    def show_list(self, request: HttpRequest) -> HttpResponse:
        actor = actor_of(request)
        return self.page(
            request,
            "osmo/gpu_quotas.html",
            title=LIST,
            rows=namespace_rows(namespaces_for(actor)),
            may_write=may_write(actor),
        )

    def show_one(self, request: HttpRequest, object_id: str) -> HttpResponse:
        actor, facts = actor_of(request), self._seen(request, object_id)
        size = SizeForm(request.GET)
        released = request.GET.get("released") == "on"
        return self.page(
            request,
            "osmo/gpu_quota.html",
            title=facts.name,
            crumbs=[(LIST, reverse("admin:pools_gpuquota_changelist"))],
            row=namespace_row(facts),
            quota=facts.quota,
            spec=facts.spec,
            conditions=conditions_of(facts),
            window=window(workers_in(facts.name, released=released), request.GET.get("page")),
            released=released,
            lines=history(facts),
            size=size,
            room=_room(facts, {name: str(size.value(name) or "").strip() for name in size.fields}),
            pools=pools_of(facts.name, Pool.objects.visible_to(actor)),
            may_write=may_write(actor) and (facts.quota is None or facts.quota.source == "api"),
            may_release=may_allocate(actor, facts.name),
        )

    def _seen(self, request: HttpRequest, namespace: str) -> Namespace:
        """A namespace with a quota or with use, if the reader may see it."""
        require_namespace(actor_of(request), namespace)
        facts = look_at([namespace])[namespace]
        if facts.quota is None and not GpuUsage.objects.filter(pk=namespace).exists():
            raise unseen(namespace)
        return facts

    def _create(self, request: HttpRequest) -> HttpResponse:
        require_house(actor_of(request))
        form = NewQuotaForm(
            forms.sent(request), initial={"alert_threshold": 95, "namespace": request.GET.get("namespace", "")}
        )
        if request.method == "POST" and form.is_valid():
            namespace = form.cleaned_data["namespace"].strip()
            if GpuQuota.objects.filter(namespace=namespace).exists():
                form.blame(Conflict(f"Namespace {namespace} has a quota already; edit it on its own page."))
            elif answer := self._put(request, form, namespace, None):
                return answer
        return self._form(request, form, "Limit a namespace", "Set the quota", None)

    def _configure(self, request: HttpRequest, namespace: str) -> HttpResponse:
        require_house(actor_of(request))
        facts = look_at([namespace])[namespace]
        if facts.quota is None:
            raise unseen(namespace)
        form = QuotaForm(forms.sent(request), initial=form_values(facts.spec) | {"version": facts.quota.version})
        if request.method == "POST" and form.is_valid():
            answer = self._put(request, form, namespace, form.cleaned_data["version"])
            if answer is not None:
                return answer
        return self._form(request, form, f"GPU quota of {namespace}", "Save the quota", namespace)

    def _put(self, request: HttpRequest, form: QuotaForm, namespace: str, version: int | None) -> HttpResponse | None:
        """Save and go to its page; None if it was refused, which the form then says."""
        try:
            put_quota(
                actor=actor_of(request),
                namespace=namespace,
                spec=form.spec(),
                description=form.cleaned_data["description"],
                expected_version=version,
            )
        except Stale as refusal:
            now = GpuQuota.objects.filter(namespace=namespace).first()
            form.outdated(refusal, "version", "" if now is None else str(now.version))
            return None
        except DomainError as refusal:
            form.blame(refusal)
            return None
        self.say(request, f"The quota of namespace {namespace} was saved.")
        return HttpResponseRedirect(reverse("admin:pools_gpuquota_change", args=[namespace]))

    def _delete(self, request: HttpRequest, namespace: str) -> HttpResponse:
        require_house(actor_of(request))
        facts = look_at([namespace])[namespace]
        if facts.quota is None:
            raise unseen(namespace)
        form = DeleteForm(forms.sent(request))
        if request.method == "POST" and form.is_valid():
            try:
                delete_quota(actor=actor_of(request), namespace=namespace, description=form.cleaned_data["description"])
            except DomainError as refusal:
                form.blame(refusal)
            else:
                self.say(request, f"Nothing limits the workers of namespace {namespace} any more.")
                return HttpResponseRedirect(reverse("admin:pools_gpuquota_changelist"))
        workers = facts.committed.workers
        lead = (
            f"Its {workers} worker{'s' if workers != 1 else ''} stay and go on being counted; new ones are not "
            "limited. "
            "A quota that is made again later counts them at once."
        )
        return self._form(
            request, form, f"Delete the quota of {namespace}", "Delete the quota", namespace, lead=lead, danger=True
        )

    def _release(self, request: HttpRequest, namespace: str, worker: str) -> HttpResponse:
        facts = self._seen(request, namespace)
        form = DeleteForm(forms.sent(request))
        page = reverse("admin:pools_gpuquota_change", args=[namespace])
        if request.method == "POST" and form.is_valid():
            try:
                release(
                    actor=actor_of(request),
                    namespace=namespace,
                    name=worker,
                    description=form.cleaned_data["description"],
                )
            except DomainError as refusal:
                form.blame(refusal)
            else:
                self.say(request, f"Worker {worker} was released.")
                return HttpResponseRedirect(page)
        lead = "What it holds is given back at once. This ends no pod: release what is not there any more."
        return self._form(request, form, f"Release {worker}", "Release the worker", facts.name, lead=lead, danger=True)

    def _form(
        self, request: HttpRequest, form: Any, title: str, button: str, namespace: str | None, **more: Any
    ) -> HttpResponse:
        crumbs = [(LIST, reverse("admin:pools_gpuquota_changelist"))]
        if namespace is not None:
            crumbs.append((namespace, reverse("admin:pools_gpuquota_change", args=[namespace])))
        return self.form_page(request, form, title=title, button=button, crumbs=crumbs, **more)


def _room(facts: Namespace, asked: dict[str, str]) -> dict[str, Any] | None:
    """How many more workers of the size asked for fit; None when nobody asked."""
    if not any(asked.values()):
        return None
    worker, faults = parse_worker({name: value or None for name, value in asked.items()})
    if faults:
        return {"faults": [fault.message for fault in faults]}
    fits, stopped_by = room_for(facts.spec, facts.reserved, facts.spec.filled(worker))
    return {"fits": fits, "stopped_by": [broken.explained(facts.name) for broken in stopped_by]}
