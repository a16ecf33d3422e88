"""GPU quota by namespace: the list, one namespace with its workers, and its caps."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse

from pools.admin import forms
from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.confirm_flow import REASON_HELP
from pools.admin.paging import paginate
from pools.domain.errors import Conflict, DomainError, Stale
from pools.domain.gpu_quota.checks import headroom_for
from pools.domain.gpu_quota.workers import parse_worker
from pools.domain.ownership import OwnedKind
from pools.models import GpuQuota, GpuUsage, Pool
from pools.permissions import (
    may_allocate,
    may_write_gpu_quota,
    namespaces_for,
    require_namespace,
    require_platform,
    unknown_namespace,
)
from pools.selectors.gpu_namespace import GpuNamespace, read_namespaces
from pools.selectors.gpu_usage import (
    allocations_in,
    current_conditions,
    namespace_row,
    namespace_rows,
    pools_using_namespace,
    spec_form_values,
    usage_history,
)
from pools.services.gpu_allocations import release
from pools.services.gpu_quotas import delete_gpu_quota, put_gpu_quota
from pools.services.ownership import find_owner

LIST_TITLE = "GPU quota"
_AMOUNT_GROUPS = {
    "total": ("requests", "limits"),
    "single": ("max_requests", "max_limits", "default_requests", "default_limits"),
}
_SPEC_KEYS = {
    "max_requests": "maxRequests",
    "max_limits": "maxLimits",
    "default_requests": "defaultRequests",
    "default_limits": "defaultLimits",
}
_NUMBER_FIELDS = {
    "max_workers": ("total", "maxWorkers"),
    "alert_threshold": ("total", "alertThresholdPercent"),
    "max_gpu_count": ("single", "maxGPUCount"),
}
_QUANTITY_HELP = "A quantity such as 100, 0.5 or 16Gi; empty: no cap."


def _field_by_path() -> dict[str, str]:
    found = {f"spec.{part}.{key}": name for name, (part, key) in _NUMBER_FIELDS.items()}
    for part, groups in _AMOUNT_GROUPS.items():
        for group in groups:
            for resource in ("tflops", "vram"):
                found[f"spec.{part}.{_SPEC_KEYS.get(group, group)}.{resource}"] = f"{group}_{resource}"
    return found


class GpuQuotaForm(forms.ServiceForm):
    """The caps of a namespace; an empty cap is not checked."""

    field_by_path = _field_by_path()
    requests_tflops = forms.text_field("TFLOPS requested, in total", help_text=_QUANTITY_HELP)
    requests_vram = forms.text_field("Memory requested, in total", help_text=_QUANTITY_HELP)
    limits_tflops = forms.text_field("TFLOPS limit, in total", help_text="Not below the cap of requests.")
    limits_vram = forms.text_field("Memory limit, in total", help_text="Not below the cap of requests.")
    max_workers = forms.text_field("Workers", help_text="A worker is one pod, with any number of GPUs.")
    alert_threshold = forms.text_field("Alert above this percentage of usage", help_text="0 to 100.")
    max_requests_tflops = forms.text_field("TFLOPS requested, per GPU of one worker", help_text="Zero: no cap.")
    max_requests_vram = forms.text_field("Memory requested, per GPU of one worker")
    max_limits_tflops = forms.text_field("TFLOPS limit, per GPU of one worker")
    max_limits_vram = forms.text_field("Memory limit, per GPU of one worker")
    max_gpu_count = forms.text_field("GPUs of one worker")
    default_requests_tflops = forms.text_field("TFLOPS for a worker that requests none")
    default_requests_vram = forms.text_field("Memory for a worker that requests none")
    default_limits_tflops = forms.text_field("TFLOPS limit for a worker that names none")
    default_limits_vram = forms.text_field("Memory limit for a worker that names none")
    description = forms.text_field("Reason", help_text=REASON_HELP)
    version = forms.hidden_number_field()

    def spec(self) -> dict[str, Any]:
        """The spec for the service, which checks it."""
        data = self.cleaned_data
        spec: dict[str, Any] = {"total": {}, "single": {}}
        for part, groups in _AMOUNT_GROUPS.items():
            for group in groups:
                amounts = {
                    key: data[f"{group}_{key}"].strip() for key in ("tflops", "vram") if data[f"{group}_{key}"].strip()
                }
                if amounts:
                    spec[part][_SPEC_KEYS.get(group, group)] = amounts
        for name, (part, key) in _NUMBER_FIELDS.items():
            if text := data[name].strip():
                spec[part][key] = _parse_number(text)
        return spec


class CreateGpuQuotaForm(GpuQuotaForm):
    """The caps of a namespace that has none yet."""

    field_order = ("namespace",)
    namespace = forms.text_field(
        "Namespace", help_text="1 to 63 lower-case letters, digits and hyphens.", required=True
    )


class WorkerSizeForm(forms.ServiceForm):
    """The size of a worker whose free capacity is calculated."""

    request_tflops = forms.text_field("TFLOPS requested, per GPU")
    request_vram = forms.text_field("Memory requested, per GPU")
    limit_tflops = forms.text_field("TFLOPS limit, per GPU")
    limit_vram = forms.text_field("Memory limit, per GPU")
    count = forms.text_field("GPUs of one worker", placeholder="1", inputmode="numeric")

    def size(self) -> dict[str, str]:
        """The valid inputs by field; empty texts for the others."""
        self.is_valid()
        return {name: str(self.cleaned_data.get(name, "")).strip() for name in self.fields}


class ReasonForm(forms.ServiceForm):
    """The reason of a change."""

    description = forms.text_field("Reason", help_text=REASON_HELP)


def _parse_number(text: str) -> int | str:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 12 else text


@admin.register(GpuQuota)
class GpuQuotaAdmin(PolicyAdmin):
    """Read by everybody with a role on a pool that uses the namespace, changed by osmo-admin."""

    def extra_urls(self) -> list[URLPattern]:
        return [
            path("create/", self.protect(self._create), name="pools_gpuquota_create"),
            path("<str:namespace>/configuration/", self.protect(self._configure), name="pools_gpuquota_configure"),
            path("<str:namespace>/delete/", self.protect(self._delete), name="pools_gpuquota_delete"),
            path("<str:namespace>/release/<str:worker>/", self.protect(self._release), name="pools_gpuquota_release"),
        ]

    def show_list(self, request: HttpRequest) -> HttpResponse:
        actor = actor_of(request)
        return self.render_page(
            request,
            "osmo/gpu_quotas.html",
            title=LIST_TITLE,
            rows=namespace_rows(namespaces_for(actor)),
            may_write=may_write_gpu_quota(actor),
        )

    def show_object(self, request: HttpRequest, object_id: str) -> HttpResponse:
        actor, facts = actor_of(request), self._visible_namespace(request, object_id)
        size = WorkerSizeForm(request.GET)
        released = request.GET.get("released") == "on"
        owner = find_owner(OwnedKind.GPU_QUOTA, facts.name)
        return self.render_page(
            request,
            "osmo/gpu_quota.html",
            title=facts.name,
            crumbs=[(LIST_TITLE, reverse("admin:pools_gpuquota_changelist"))],
            row=namespace_row(facts),
            quota=facts.quota,
            spec=facts.spec,
            conditions=current_conditions(facts),
            window=paginate(allocations_in(facts.name, include_released=released), request.GET.get("page")),
            released=released,
            charts=usage_history(facts),
            size=size,
            capacity=_free_capacity(facts, size.size()),
            pools=pools_using_namespace(facts.name, Pool.objects.visible_to(actor)),
            git_owner=owner,
            git_owner_note="Change it in that file; it is read-only here.",
            may_write=may_write_gpu_quota(actor)
            and owner is None
            and (facts.quota is None or facts.quota.source == "api"),
            may_release=may_allocate(actor, facts.name),
        )

    def _visible_namespace(self, request: HttpRequest, namespace: str) -> GpuNamespace:
        """A namespace with a quota or with workers, if the reader may see it."""
        require_namespace(actor_of(request), namespace)
        facts = read_namespaces([namespace])[namespace]
        if facts.quota is None and not GpuUsage.objects.filter(pk=namespace).exists():
            raise unknown_namespace(namespace)
        return facts

    def _create(self, request: HttpRequest) -> HttpResponse:
        require_platform(actor_of(request))
        present = {"alert_threshold": 95, "namespace": request.GET.get("namespace", "")}
        initial = forms.initial_values(request, CreateGpuQuotaForm, present)
        form = CreateGpuQuotaForm(forms.submitted_data(request), initial=initial)
        if request.method == "POST" and form.is_valid():
            namespace = form.cleaned_data["namespace"].strip()
            if GpuQuota.objects.filter(namespace=namespace).exists():
                form.add_errors(Conflict(f"Namespace {namespace} has a quota already; edit it on its own page."))
            elif answer := self._put(request, form, namespace, None):
                return answer
        return self._form(request, form, "Limit a namespace", "Set the quota", None)

    def _configure(self, request: HttpRequest, namespace: str) -> HttpResponse:
        require_platform(actor_of(request))
        facts = read_namespaces([namespace])[namespace]
        if facts.quota is None:
            raise unknown_namespace(namespace)
        present = spec_form_values(facts.spec) | {"version": facts.quota.version}
        initial = forms.initial_values(request, GpuQuotaForm, present)
        form = GpuQuotaForm(forms.submitted_data(request), initial=initial)
        if request.method == "POST" and form.is_valid():
            answer = self._put(request, form, namespace, form.cleaned_data["version"])
            if answer is not None:
                return answer
        return self._form(request, form, f"GPU quota of {namespace}", "Save the quota", namespace)

    def _put(
        self, request: HttpRequest, form: GpuQuotaForm, namespace: str, version: int | None
    ) -> HttpResponse | None:
        """Save and redirect to the namespace's page; None if the service refused, which the form then shows."""
        try:
            put_gpu_quota(
                actor=actor_of(request),
                namespace=namespace,
                spec=form.spec(),
                description=form.cleaned_data["description"],
                expected_version=version,
            )
        except Stale as refusal:
            now = GpuQuota.objects.filter(namespace=namespace).first()
            form.add_stale_error(refusal, "version", "" if now is None else str(now.version))
            return None
        except DomainError as refusal:
            form.add_errors(refusal)
            return None
        self.show_success(request, f"The quota of namespace {namespace} was saved.")
        return HttpResponseRedirect(reverse("admin:pools_gpuquota_change", args=[namespace]))

    def _delete(self, request: HttpRequest, namespace: str) -> HttpResponse:
        require_platform(actor_of(request))
        facts = read_namespaces([namespace])[namespace]
        if facts.quota is None:
            raise unknown_namespace(namespace)
        form = ReasonForm(forms.submitted_data(request), initial=forms.initial_values(request, ReasonForm, {}))
        if request.method == "POST" and form.is_valid():
            try:
                delete_gpu_quota(
                    actor=actor_of(request), namespace=namespace, description=form.cleaned_data["description"]
                )
            except DomainError as refusal:
                form.add_errors(refusal)
            else:
                self.show_success(request, f"The workers of namespace {namespace} are no longer limited.")
                return HttpResponseRedirect(reverse("admin:pools_gpuquota_changelist"))
        workers = facts.committed.workers
        lead = (
            f"Its {workers} worker{'s' if workers != 1 else ''} stay and are still counted; new workers are not "
            "limited. A quota that is created again later counts them at once."
        )
        return self._form(
            request, form, f"Delete the quota of {namespace}", "Delete the quota", namespace, lead=lead, danger=True
        )

    def _release(self, request: HttpRequest, namespace: str, worker: str) -> HttpResponse:
        facts = self._visible_namespace(request, namespace)
        form = ReasonForm(forms.submitted_data(request))
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
                form.add_errors(refusal)
            else:
                self.show_success(request, f"Worker {worker} was released.")
                return HttpResponseRedirect(page)
        lead = (
            "The quota of this worker becomes free at once. This ends no pod: release only workers whose pod no "
            "longer exists."
        )
        return self._form(request, form, f"Release {worker}", "Release the worker", facts.name, lead=lead, danger=True)

    def _form(
        self, request: HttpRequest, form: Any, title: str, button: str, namespace: str | None, **more: Any
    ) -> HttpResponse:
        crumbs = [(LIST_TITLE, reverse("admin:pools_gpuquota_changelist"))]
        if namespace is not None:
            crumbs.append((namespace, reverse("admin:pools_gpuquota_change", args=[namespace])))
        return self.render_form_page(request, form, title=title, button=button, crumbs=crumbs, **more)


def _free_capacity(facts: GpuNamespace, size: dict[str, str]) -> dict[str, Any] | None:
    """The number of further workers of this size that fit; None without a size."""
    if not any(size.values()):
        return None
    worker, violations = parse_worker({name: value or None for name, value in size.items()})
    if violations:
        return {"faults": [violation.message for violation in violations]}
    fits, stopped_by = headroom_for(facts.spec, facts.committed_and_assumed, facts.spec.with_defaults(worker))
    return {"fits": fits, "stopped_by": [broken.refusal_text(facts.name) for broken in stopped_by]}
