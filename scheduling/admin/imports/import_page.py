"""The page Import, for admins of the platform: form, preview, and the report and the files for those who want them."""

from __future__ import annotations

from typing import Any, Final

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse

from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.confirm_flow import Change, ConfirmFlow, typed_input
from pools.domain.page_addresses import PREVIEW_SEGMENT
from pools.domain.people.roles import Permission
from pools.models import ConfigurationOwner
from scheduling.admin.imports.form import KEPT, FormFacts, ImportForm
from scheduling.admin.imports.preview import ImportPreview, success_message
from scheduling.configuration.texts import one_file_text
from scheduling.history.traces.forms.sacct import ADVICE as HISTORY_COMMAND
from scheduling.moving_in.options import REPORT_FILE
from scheduling.moving_in.report import report_text
from scheduling.moving_in.result import ImportResult
from scheduling.services.configuration_import import import_configuration

TITLE: Final = "Import"
COMMANDS: Final = {
    "Slurm": [
        "sacctmgr dump CLUSTER File=accounts.cfg",
        "sacctmgr -P show qos > qos.txt",
        "scontrol show node -o > nodes.txt",
        f"{HISTORY_COMMAND} > month.txt",
    ],
    "Kueue": [
        (
            "kubectl get clusterqueues,cohorts,localqueues,resourceflavors,topologies.kueue.x-k8s.io,"
            "workloadpriorityclasses,nodes -A -o yaml > kueue.yaml"
        )
    ],
    "KAI": ["kubectl get queues.scheduling.run.ai,topologies.kai.scheduler,priorityclasses,nodes -o yaml > kai.yaml"],
    "Run:ai": [
        "answers of /api/v1/org-unit/projects?limit=500, /api/v1/org-unit/departments?limit=500 and /api/v1/node-pools",
        "kubectl get nodes -o yaml > nodes.yaml",
    ],
    "ResourceQuotas": ["kubectl get resourcequotas,namespaces,nodes -A -o yaml > quotas.yaml"],
    "OSMO 6": ["osmo config show POOL -o json > pools.json", "the values of its chart, with services.configs"],
}


@admin.register(ConfigurationOwner)
class ImportAdmin(PolicyAdmin):
    """Objects that files give: the page that reads files of other software."""

    address = "import"
    read_permission = Permission.PLATFORM_WRITE

    def extra_urls(self) -> list[URLPattern]:
        return [
            path(f"import{PREVIEW_SEGMENT}", self.protect(self.show_list), name="pools_configurationowner_preview"),
            path("import/-/report", self.protect(self._report), name="pools_configurationowner_report"),
            path("import/-/files", self.protect(self._files), name="pools_configurationowner_files"),
        ]

    def show_list(self, request: HttpRequest) -> HttpResponse:
        """The form, the preview and the import."""
        preview = ImportPreview(
            facts=_read_facts(request),
            words={"commands": COMMANDS},
            links={"query": request.GET.urlencode()},
        )
        change = Change(
            title=TITLE,
            button="Import",
            breadcrumbs=[("Home", reverse("admin:index"))],
            form_class=preview.make_form,
            preview=preview,
            service=import_configuration,
            success_message=success_message,
            success_url=reverse("admin:pools_pool_changelist"),
        )
        return ConfirmFlow(self, request, change).respond()

    def _report(self, request: HttpRequest) -> HttpResponse:
        """The whole report, as the command writes it."""
        return self._answer_file(request, REPORT_FILE, "text/markdown", report_text)

    def _files(self, request: HttpRequest) -> HttpResponse:
        """All objects as one file of the configuration, for `osmo-admin apply`."""
        return self._answer_file(request, "import.yaml", "application/yaml", _objects_text)

    def _answer_file(self, request: HttpRequest, name: str, kind: str, text_of: Any) -> HttpResponse:
        form = ImportForm(typed_input(request), facts=_read_facts(request))
        if not form.is_valid() or form.result is None:
            return HttpResponseRedirect(f"{reverse('admin:pools_configurationowner_changelist')}")
        text = text_of(form.cleaned_data["kind"], form.result)
        answer = HttpResponse(text, content_type=f"{kind}; charset=utf-8")
        answer.headers["Content-Disposition"] = f'attachment; filename="{name}"'
        return answer


def _read_facts(request: HttpRequest) -> FormFacts:
    return FormFacts.read(actor_of(request), typed_input(request).get(KEPT, ""))


def _objects_text(_kind: str, result: ImportResult) -> str:
    return one_file_text(result.objects)
