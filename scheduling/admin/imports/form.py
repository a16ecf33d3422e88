"""The form of an import: files or pasted text, their kind, and the options of `osmo-admin import`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from django.conf import settings
from django.forms import FileField, FileInput

from pools.admin import forms
from pools.admin.command_forms import reason_field
from pools.admin.confirm_flow import ChangeForm, FieldGroup
from pools.admin.kept_input import KEPT_MINUTES
from pools.domain.errors import BadInput, DomainError, Violation
from pools.domain.people.roles import Actor
from pools.domain.structured_input.faults import shorten
from pools.domain.values.scalars import whole_number
from pools.models import Backend
from scheduling.admin.imports.kept_files import ImportFiles, ReadHistory, keep_files, read_files
from scheduling.configuration.bodies import SECTION_BY_KIND
from scheduling.domain.changes.configuration import ImportConfiguration
from scheduling.history.proof.past_use import read_past_use
from scheduling.history.traces.faults import ReplayFault
from scheduling.history.traces.lines import GivenFile
from scheduling.moving_in.importing import import_sources
from scheduling.moving_in.options import GuaranteeFrom, HistoryUse, ImportOptions, SourceKind
from scheduling.moving_in.result import MAX_SHOWN_FAULTS, BadSource, ImportResult
from scheduling.moving_in.source_text import MAX_BYTES, MAX_LINES, SourceText, source_text

MAX_PASTED: Final = 500_000
"""The most characters of pasted text: a browser sends each twice or three times as long."""
PASTED: Final = "pasted text"
KEPT: Final = "kept"
KINDS: Final = {
    SourceKind.SLURM: "Slurm: sacctmgr dump, scontrol show node, slurm.conf",
    SourceKind.KUEUE: "Kueue: ClusterQueues, Cohorts, ResourceFlavors",
    SourceKind.KAI: "KAI: Queues, Topologies",
    SourceKind.RUNAI: "Run:ai: projects, departments, node pools, nodes",
    SourceKind.RESOURCEQUOTA: "Kubernetes: ResourceQuotas of namespaces",
    SourceKind.OSMO: "OSMO 6, or files of this software",
}
_MOST: Final = min(MAX_BYTES, settings.DATA_UPLOAD_MAX_MEMORY_SIZE) // 2**20
_LARGER: Final = (
    f"osmo-admin import reads files of up to {MAX_BYTES // 2**20} MiB each; OSMO_BODY_LIMIT_MB is the limit here."
)
_NOT_KEPT = f"The files of a preview are kept for {KEPT_MINUTES} minutes and are gone now. Choose them again."
_SLURM_ONLY = {"guarantee": "", "history": "", "depth": ""}
GUARANTEES: Final = {
    "": "nothing: only LOW work runs in its pool",
    str(GuaranteeFrom.LIMIT): "as much as it allows",
    str(GuaranteeFrom.HISTORY): "what an account of Slurm usually used, by a history",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FormFacts:
    """What the form is made for: the person, the key of files that are kept with these files (None: they are gone), and
    the clusters that exist, with their namespaces."""

    actor: Actor
    key: str
    files: ImportFiles | None
    namespaces: Mapping[str, str]
    kubernetes: Collection[str]

    @classmethod
    def read(cls, actor: Actor, key: str) -> FormFacts:
        """As it is now."""
        rows = list(Backend.objects.values_list("name", "namespace", "kind"))
        return cls(
            actor=actor,
            key=key,
            files=read_files(actor, key) if key else None,
            namespaces={name: namespace for name, namespace, _ in rows},
            kubernetes={name for name, _, kind in rows if kind == Backend.Kind.KUBERNETES},
        )


class FilesInput(FileInput):
    """Several files at once."""

    allow_multiple_selected = True

    def value_from_datadict(self, data: Any, files: Any, name: str) -> Any:
        return files.getlist(name) if hasattr(files, "getlist") else files.get(name, [])


class FilesField(FileField):
    """The files of one input, in their order."""

    widget = FilesInput

    def clean(self, data: Any, initial: Any = None) -> Any:
        return [super(FilesField, self).clean(each, initial) for each in data or []]


class ImportForm(ChangeForm):
    """A valid one has its result in `result`. The uploaded files are kept apart under the key of the box `kept`; what
    is uploaded later replaces them."""

    groups: ClassVar[Sequence[FieldGroup]] = (
        FieldGroup("", ("kind", "upload", KEPT, "text")),
        FieldGroup("Cluster of the pools", ("cluster", "backend", "namespace")),
        FieldGroup("Slurm and ResourceQuotas", tuple(_SLURM_ONLY), _SLURM_ONLY),
        FieldGroup("Reason", ("description",), {"description": ""}),
    )
    kind = forms.choice_field("Files of", [(str(kind), words) for kind, words in KINDS.items()])
    upload = FilesField(
        label="Files",
        required=False,
        help_text=f"Together less than {_MOST} MiB, each at most {MAX_LINES:,} lines. {_LARGER}",
        widget=FilesInput({"data-most-mib": _MOST, "data-other-way": _LARGER}),
    )
    text = forms.code_field("Or the text of a file", rows=6, max_length=MAX_PASTED)
    cluster = forms.choice_field("Cluster", required=False)
    backend = forms.text_field("Name of the new cluster", empty="imported")
    namespace = forms.text_field("Namespace of the new cluster", empty="default")
    guarantee = forms.choice_field("A ceiling guarantees", list(GUARANTEES.items()), required=False)
    history = FileField(
        label="History",
        required=False,
        help_text="Slurm: the output of sacct -P, also compressed with gzip. Usually used is what the account held at "
        "most in 95 % of the time.",
    )
    depth = forms.text_field(
        "Level of the accounts that become pools",
        empty="accounts without others below",
        inputmode="numeric",
        help_text="Slurm: accounts below them become subpools.",
    )
    description = reason_field()

    def __init__(self, *args: Any, facts: FormFacts, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.facts = facts
        self.result: ImportResult | None = None
        self.source_names: list[str] = []
        existing = [(name, f"{name}, which is here already") for name in sorted(facts.namespaces)]
        self.fields["cluster"].choices = [  # type: ignore[attr-defined]
            ("", "A new one with the files' nodes"),
            *existing,
        ]
        if facts.files is not None:
            self._offer_kept(facts.key, facts.files)

    def _offer_kept(self, key: str, files: ImportFiles) -> None:
        names = ", ".join(shorten(name) for name in _names_of(files))
        self.fields[KEPT] = forms.multiple_choice_field("Files of before")
        self.fields[KEPT].choices = [(key, names)]  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        data = super().clean()
        if self.facts.key and self.facts.files is None:
            self.add_error(None, _NOT_KEPT)
        if self.errors:
            return data
        try:
            history = self._read_history(data)
            if self.errors:
                return data
            files, sources = self._files(data, history)
            options = self._options(data, files.history)
            if self.errors:
                return data
            if not sources:
                self.add_error("upload", "Choose files, or paste the text of one below.")
                return data
            self.result = import_sources(SourceKind(data["kind"]), sources, options)
        except BadSource as refusal:
            self.add_error(None, refusal.message)
            for fault in refusal.details:
                self.add_error(None, f"{fault.path}: {fault.message}")
        else:
            names = [each.name for each in sources]
            self.source_names = [*names, *([files.history.name] if options.past_use.teams and files.history else [])]
        return data

    def _read_history(self, data: dict[str, Any]) -> ReadHistory | None:
        """What the uploaded history says; each of its faults is noted."""
        upload = data["history"]
        if upload is None:
            return None
        try:
            return ReadHistory(upload.name, read_past_use(GivenFile(upload.name, upload.read())))
        except ReplayFault as refusal:
            for fault in refusal.details[:MAX_SHOWN_FAULTS]:
                place = ", ".join(filter(None, (f"line {fault.line}" if fault.line else "", fault.path)))
                self.add_error("history", f"{place}: {fault.message}" if place else fault.message)
        return None

    def _files(self, data: dict[str, Any], history: ReadHistory | None) -> tuple[ImportFiles, list[SourceText]]:
        """The files, those of now or of before, and with the pasted text what is imported. Raises BadSource."""
        sources = [source_text(each.name, each.read()) for each in data["upload"]]
        before = (self.facts.files if data.get(KEPT) else None) or ImportFiles()
        files = ImportFiles(sources or before.sources, history or before.history)
        if sources or history:
            key = keep_files(self.facts.actor, files)
            self._offer_kept(key, files)
            self.replace_input(KEPT, key)
        pasted = [source_text(PASTED, data["text"].encode())] if data["text"].strip() else []
        return files, [*files.sources, *pasted]

    def _options(self, data: dict[str, Any], history: ReadHistory | None) -> ImportOptions:
        """The options of the import; faults are noted."""
        guarantee = GuaranteeFrom(data["guarantee"] or GuaranteeFrom.NONE)
        is_by_use = guarantee is GuaranteeFrom.HISTORY
        if is_by_use and data["kind"] != SourceKind.SLURM:
            self.add_error("guarantee", "A history is for Slurm: the other kinds have quotas, or no accounts.")
        elif is_by_use and history is None:
            self.add_error("history", "Choose the history from which the quotas are made.")
        elif data["history"] is not None and not is_by_use:
            self.add_error("guarantee", "Choose the history above its file, or leave the file out.")
        backend = data["backend"] or "imported"
        depth = whole_number(data["depth"])
        if data["depth"] and not 0 < (depth or 0) < 100:
            self.add_error("depth", "The level is a whole number from 1 to 99.")
            depth = None
        if not data["cluster"] and backend in self.facts.kubernetes:
            self.add_error("backend", "A Kubernetes cluster has this name. Choose it above, or another name.")
        return ImportOptions(
            data["cluster"] or backend,
            self.facts.namespaces.get(data["cluster"], data["namespace"] or "default"),
            not data["cluster"],
            guarantee,
            depth,
            history.use if is_by_use and history is not None else HistoryUse(),
        )

    def add_errors(self, refusal: DomainError) -> None:
        """Each refusal with the file and the line of its object."""
        super().add_errors(BadInput(refusal.message, [_with_place(each) for each in refusal.details]))

    def command(self) -> ImportConfiguration:
        """The change of the valid form."""
        result = self.result
        assert result is not None, "a valid form has a result"
        sections: dict[str, Any] = {}
        places: dict[str, str] = {}
        for (kind, name), body in result.objects.items():
            section = SECTION_BY_KIND[kind]
            if section.is_single:
                sections[section.key] = dict(body)
            else:
                sections.setdefault(section.key, {})[name] = dict(body)
            places[section.key if section.is_single else f"{section.key}.{name}"] = str(result.origins[kind, name])
        names = ", ".join(shorten(name) for name in self.source_names[:5])
        more = f" and {len(self.source_names) - 5} more" if len(self.source_names) > 5 else ""
        origin = f"imported from {self.cleaned_data['kind']}: {names}{more}"
        return ImportConfiguration(origin=origin, sections=sections, places=places)


def _names_of(files: ImportFiles) -> list[str]:
    return [*(each.name for each in files.sources), *([files.history.name] if files.history else [])]


def _with_place(fault: Violation) -> Violation:
    file = dict(fault.numbers).get("file")
    return replace(fault, message=f"{file}:{fault.line}: {fault.message}") if file and fault.line else fault
