"""GPU quota by namespace: the list, one namespace with its workers, and its caps."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from django.contrib import admin
from django.forms import Field
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse

from pools.admin import forms
from pools.admin.base import Breadcrumbs, PolicyAdmin, actor_of
from pools.admin.command_forms import CommandForm, form_for, reason_field
from pools.admin.confirm_flow import Change, ConfirmFlow, FieldGroup, change_paths, typed_input
from pools.admin.git_ownership import owned_reason
from pools.admin.object_preview import CONFIGS, ObjectPreview
from pools.admin.paging import paginate
from pools.domain.changes.gpu_allocations import ReleaseWorker
from pools.domain.changes.gpu_quotas import DeleteGpuQuota, PutGpuQuota
from pools.domain.configuration.ownership import OwnedKind
from pools.domain.errors import Conflict
from pools.domain.gpu_quota.checks import headroom_for
from pools.domain.gpu_quota.spec import AMOUNT_WORDS, PARTS, SPEC_FIELDS, gpu_quota_spec_body
from pools.domain.gpu_quota.workers import parse_worker
from pools.domain.list_columns import (
    CONDITION_COLUMNS,
    GPU_AMOUNT_COLUMNS,
    GPU_QUOTA_COLUMNS,
    WORKER_COLUMNS,
)
from pools.domain.numbers import GPU_QUOTA_NUMBERS
from pools.domain.people.roles import Actor
from pools.domain.values.scalars import typed_number
from pools.models import GpuQuota, GpuUsage, Pool
from pools.permissions import (
    may_allocate,
    may_write_gpu_quota,
    namespaces_for,
    require_namespace,
    require_platform,
    unknown_namespace,
)
from pools.representations.csv_files import csv_response, is_csv_request
from pools.representations.page_parameters import read_choice
from pools.selectors.gpu_namespace import GpuNamespace, read_namespaces, spec_from_row
from pools.selectors.gpu_usage import (
    NamespaceRow,
    allocations_in,
    changed_gauges,
    current_conditions,
    namespace_row,
    namespace_rows,
    pools_using_namespace,
    spec_form_values,
    usage_history,
)
from pools.services.changes.ownership import find_owner
from pools.services.gpu_quota.gpu_allocations import release
from pools.services.gpu_quota.gpu_quotas import delete_gpu_quota, put_gpu_quota

LIST_TITLE = "GPU quota"


def _quotas_file(rows: list[NamespaceRow]) -> HttpResponse:
    """The list as a CSV file with the columns of the client's; bytes are whole, and no cap is an empty field."""
    names = [f"{key.replace('.', '_')}_{part}" for key in GPU_QUOTA_NUMBERS for part in _parts(key)]
    lines = ([row.name, *(each for meter in row.meters for each in meter.exact), row.status] for row in rows)
    return csv_response("gpu-quotas", ["namespace", *names, "status"], lines)


def _parts(key: str) -> list[str]:
    return GPU_QUOTA_COLUMNS[key].parts.split()


_EXAMPLES = {"vram": " For example 40Gi."}


def _inputs() -> dict[str, tuple[str, str, str]]:
    """The name, the label and the help of each input of the form, by the path of its cap."""
    found = {}
    for each in SPEC_FIELDS:
        if each.looks == "number":
            found[f"spec.{each.key}"] = (each.input, each.label, each.help)
            continue
        for resource, word in AMOUNT_WORDS.items():
            said = f"{each.help}{_EXAMPLES.get(resource, '')}"
            found[f"spec.{each.key}.{resource}"] = (f"{each.input}_{resource}", each.label.format(word), said)
    return found


_INPUTS = _inputs()


def _section(title: str, beginning: str, *before: str) -> FieldGroup:
    """The section of the form with these fields, and the caps whose paths begin so."""
    return FieldGroup(title, (*before, *(name for path, (name, _, _) in _INPUTS.items() if path.startswith(beginning))))


def _input(name: str, label: str, said: str) -> Field:
    if name == "alert_threshold":
        return forms.text_field(label, help_text=said, unit="%", inputmode="numeric")
    return forms.text_field(label, help_text=said, empty="none" if name.startswith("default") else "no cap")


class GpuQuotaForm(CommandForm):
    """The caps of a namespace (:data:`pools.domain.gpu_quota.spec.SPEC_FIELDS`); an empty cap is not checked."""

    field_by_path = {path: name for path, (name, _, _) in _INPUTS.items()}
    groups = (
        _section("All workers together", "spec.total.", "namespace"),
        _section("Each worker", "spec.single.max"),
        _section("A worker that names nothing", "spec.single.default"),
        FieldGroup("", ("description",)),
    )

    def own_fields(self) -> dict[str, Field]:
        """The caps, and the reason."""
        fields = {each[0]: _input(*each) for each in _INPUTS.values()}
        return {**fields, "description": reason_field()}

    def command(self) -> PutGpuQuota:
        """The change, whose service checks the caps."""
        spec: dict[str, Any] = {part: {} for part in PARTS}
        for cap, (name, _, _) in _INPUTS.items():
            if text := self.cleaned_data[name].strip():
                part, key, *resource = cap.split(".")[1:]
                if resource:
                    spec[part].setdefault(key, {})[resource[0]] = text
                else:
                    spec[part][key] = typed_number(text)
        return PutGpuQuota(**self.given, spec=spec)


def _cap_label(path: str) -> str:
    return _INPUTS[path][1] if path in _INPUTS else path


class CreateGpuQuotaForm(GpuQuotaForm):
    """The caps of a namespace that has none yet."""

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


@admin.register(GpuQuota)
class GpuQuotaAdmin(PolicyAdmin):
    """Read by everybody with a role on a pool that uses the namespace, changed by osmo-admin."""

    address = "gpu-quotas"

    def extra_urls(self) -> list[URLPattern]:
        return [
            *change_paths("gpu-quotas/-/create", self.protect(self._create), name="pools_gpuquota_create"),
            *change_paths(
                "gpu-quotas/<str:namespace>/configuration",
                self.protect(self._configure),
                name="pools_gpuquota_configure",
            ),
            *change_paths(
                "gpu-quotas/<str:namespace>/delete", self.protect(self._delete), name="pools_gpuquota_delete"
            ),
            path(
                "gpu-quotas/<str:namespace>/release/<str:worker>",
                self.protect(self._release),
                name="pools_gpuquota_release",
            ),
        ]

    def show_list(self, request: HttpRequest) -> HttpResponse:
        actor = actor_of(request)
        rows = namespace_rows(namespaces_for(actor))
        if is_csv_request(request):
            return _quotas_file(rows)
        return self.render_page(
            request,
            "osmo/gpu_quotas.html",
            title=LIST_TITLE,
            columns=GPU_QUOTA_COLUMNS,
            rows=rows,
            may_write=may_write_gpu_quota(actor),
        )

    def show_object(self, request: HttpRequest, object_id: str) -> HttpResponse:
        actor, facts = actor_of(request), self._visible_namespace(request, object_id)
        size = WorkerSizeForm(request.GET)
        released = read_choice(request.GET, "released", ["on"]) == "on"
        owner = find_owner(OwnedKind.GPU_QUOTA, facts.name)
        return self.render_page(
            request,
            "osmo/gpu_quota.html",
            title=facts.name,
            crumbs=[(LIST_TITLE, reverse("admin:pools_gpuquota_changelist"))],
            row=namespace_row(facts),
            columns=WORKER_COLUMNS,
            amount_columns=GPU_AMOUNT_COLUMNS,
            condition_columns=CONDITION_COLUMNS,
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
        actor = actor_of(request)
        require_platform(actor)
        namespace = typed_input(request).get("namespace", "").strip()

        def create(command: PutGpuQuota, **note: Any) -> GpuNamespace:
            if GpuQuota.objects.filter(namespace=namespace).exists():
                raise Conflict(f"Namespace {namespace} has a quota already; edit it on its own page.")
            return put_gpu_quota(command, **note)

        change = Change(
            title="Limit a namespace",
            button="Set the quota",
            breadcrumbs=_breadcrumbs(None),
            form_class=partial(CreateGpuQuotaForm, PutGpuQuota, {"namespace": namespace}),
            initial={"alert_threshold": 95, "namespace": namespace},
            preview=_preview(actor, namespace),
            service=create,
            success_message=f"The quota of namespace {namespace} was saved.",
            success_url=_saved_address,
        )
        return ConfirmFlow(self, request, change).respond()

    def _configure(self, request: HttpRequest, namespace: str) -> HttpResponse:
        actor, quota = actor_of(request), self._changeable_quota(request, namespace)
        change = Change(
            title=f"GPU quota of {namespace}",
            button="Save the quota",
            unavailable_reason=owned_reason(PutGpuQuota, namespace),
            breadcrumbs=_breadcrumbs(namespace),
            form_class=partial(GpuQuotaForm, PutGpuQuota, {"namespace": namespace}),
            initial=spec_form_values(spec_from_row(quota)),
            version=quota.version,
            preview=_preview(actor, namespace),
            service=put_gpu_quota,
            success_message=f"The quota of namespace {namespace} was saved.",
            success_url=_address(namespace),
        )
        return ConfirmFlow(self, request, change).respond()

    def _delete(self, request: HttpRequest, namespace: str) -> HttpResponse:
        actor, quota = actor_of(request), self._changeable_quota(request, namespace)
        change = Change(
            title=f"Delete the quota of {namespace}",
            button="Delete the quota",
            danger=True,
            unavailable_reason=owned_reason(DeleteGpuQuota, namespace),
            breadcrumbs=_breadcrumbs(namespace),
            form_class=form_for(DeleteGpuQuota, namespace=namespace),
            version=quota.version,
            preview=_preview(actor, namespace),
            service=delete_gpu_quota,
            success_message=f"The workers of namespace {namespace} are no longer limited.",
            success_url=reverse("admin:pools_gpuquota_changelist"),
        )
        return ConfirmFlow(self, request, change).respond()

    def _changeable_quota(self, request: HttpRequest, namespace: str) -> GpuQuota:
        require_platform(actor_of(request))
        quota = GpuQuota.objects.filter(namespace=namespace).first()
        if quota is None:
            raise unknown_namespace(namespace)
        return quota

    def _release(self, request: HttpRequest, namespace: str, worker: str) -> HttpResponse:
        facts = self._visible_namespace(request, namespace)
        form = form_for(ReleaseWorker, namespace=namespace, id=worker)(forms.submitted_data(request))

        def make() -> HttpResponse:
            command = ReleaseWorker(namespace=namespace, id=worker)
            release(command, actor=actor_of(request), description=form.cleaned_data["description"])
            self.show_success(request, f"Worker {worker} was released.")
            return HttpResponseRedirect(_address(namespace))

        lead = (
            "The quota of this worker becomes free at once. This ends no pod: release only workers whose pod no "
            "longer exists."
        )
        return self.change_by_form(
            request,
            form,
            make,
            title=f"Release {worker}",
            button="Release the worker",
            crumbs=_breadcrumbs(facts.name),
            lead=lead,
            danger=True,
        )


def _preview(actor: Actor, namespace: str) -> ObjectPreview[Any]:
    return ObjectPreview(
        actor=actor,
        read_state=partial(_state, namespace),
        label_of=_cap_label,
        messages=_effect_messages,
        warnings=_effect_warnings,
        tables=_effect_tables,
    )


def _effect_tables(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {"gauges": changed_gauges(before["facts"], after["facts"])}


def _state(namespace: str) -> dict[str, Any]:
    facts = read_namespaces([namespace])[namespace]
    configs = None if facts.quota is None else {"spec": gpu_quota_spec_body(facts.spec)}
    return {CONFIGS: configs, "facts": facts}


def _effect_messages(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    old, new = before["facts"], after["facts"]
    workers = f"{new.committed.workers} worker{'s' if new.committed.workers != 1 else ''}"
    if new.quota is None:
        yield (
            f"The {workers} of namespace {new.name} stay and are still counted; new workers are not limited. A quota "
            "that is created again later counts them at once."
        )
    elif old.quota is None:
        counted = f" Its {workers} count already." if new.committed.workers else ""
        yield f"New workers in namespace {new.name} are checked against these caps.{counted}"
    raised = [set(each.quota.alerting) if each.quota else set() for each in (old, new)]
    for key in sorted(raised[1] - raised[0]):
        label = GPU_QUOTA_NUMBERS[key].label
        yield f"An alert begins for {label}, which is above the alert threshold of {new.spec.alert_threshold} percent."
    for key in sorted(raised[0] - raised[1]):
        yield f"The alert for {GPU_QUOTA_NUMBERS[key].label} ends."
    if pools := pools_using_namespace(new.name, Pool.objects.all()):
        yield f"Work of pool{'s' if len(pools) > 1 else ''} {', '.join(pools)} counts in this namespace."


def _effect_warnings(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    for gauge in changed_gauges(before["facts"], after["facts"]):
        if gauge.is_exceeded:
            yield (
                f"{gauge.label}: {gauge.used} in use, and the cap is {gauge.cap_after}. Nothing is stopped; new "
                "workers are refused until the use is below the cap."
            )


def _breadcrumbs(namespace: str | None) -> Breadcrumbs:
    top = (LIST_TITLE, reverse("admin:pools_gpuquota_changelist"))
    return [top, (namespace, _address(namespace))] if namespace is not None else [top]


def _saved_address(facts: GpuNamespace) -> str:
    return _address(facts.name)


def _address(namespace: str) -> str:
    return reverse("admin:pools_gpuquota_change", args=[namespace])


def _free_capacity(facts: GpuNamespace, size: dict[str, str]) -> dict[str, Any] | None:
    """The number of further workers of this size that fit; None without a size."""
    if not any(size.values()):
        return None
    worker, violations = parse_worker({name: value or None for name, value in size.items()})
    if violations:
        return {"faults": [violation.message for violation in violations]}
    fits, stopped_by = headroom_for(facts.spec, facts.committed_and_assumed, facts.spec.with_defaults(worker))
    return {"fits": fits, "stopped_by": [broken.refusal_text(facts.name) for broken in stopped_by]}
