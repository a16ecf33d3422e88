"""The page Import: upload, report, preview, one transaction; and what hostile input gets."""

from __future__ import annotations

import gzip
import re
from html import unescape

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse
from django.test import Client

from pools.domain.changes.pools import PutPool
from pools.domain.configuration.ownership import GitOwner, OwnedKind
from pools.models import AuditEntry, Backend, Cohort, ConfigurationOwner, Pool
from pools.representations.pool import pool_settings_of
from pools.services.changes.ownership import set_owners
from scheduling.admin.imports.import_page import COMMANDS
from scheduling.moving_in.options import SourceKind
from tests.integration.admin.conftest import ROLES_BY_USER, SignedIn
from tests.support.services import ROOT
from tests.support.world import apply_change
from tests.unit.moving_in.test_slurm import DUMP, NODES
from tests.unit.replay.test_proof import job
from tests.unit.replay.test_sacct import HEADER, row

pytestmark = pytest.mark.django_db

QUEUE = """\
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {{name: {name}}}
spec: {{resources: {{gpu: {{quota: {quota}, limit: -1}}, cpu: {{limit: -1}}, memory: {{limit: -1}}}}}}
"""


SMALL = "Cluster - 'tux'\nParent - 'root'\nAccount - 'physics':GrpTRES=gres/gpu=6\n"

STEP = row(JobID="1.0", JobName="x" * 60_000)


@pytest.fixture
def root(as_person: SignedIn) -> Client:
    return as_person("root")


def send(browser: Client, kind: str, *files: tuple[str, bytes], **fields: object) -> HttpResponse:
    """The answer to the form."""
    uploads = [SimpleUploadedFile(name, content) for name, content in files]
    return browser.post("/import", {"kind": kind, "upload": uploads, "step": "preview", **fields})  # type: ignore[return-value]


def text_of(answer: HttpResponse) -> str:
    return unescape(re.sub(r"<[^>]+>", " ", answer.content.decode()))


def preview_of(
    browser: Client, kind: str, *files: tuple[str, bytes], **fields: object
) -> tuple[HttpResponse, dict[str, str]]:
    """The preview, and what its button sends."""
    sent = send(browser, kind, *files, **fields)
    assert sent.status_code == 302, text_of(sent)
    page: HttpResponse = browser.get(sent.headers["Location"])  # type: ignore[assignment]
    assert page.status_code == 200, text_of(page)
    inputs = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.content.decode())
    return page, {name: unescape(value) for name, value in inputs}


def quota_of(name: str) -> int | None:
    return pool_settings_of(Pool.objects.roots().select_related("backend").get(name=name)).guarantee


def queues(**quotas: object) -> bytes:
    return "---\n".join(QUEUE.format(name=name, quota=quota) for name, quota in quotas.items()).encode()


def test_the_page_names_the_commands_of_the_documentation() -> None:
    text = " ".join((ROOT / "docs" / "moving-in.md").read_text(encoding="utf-8").replace("\\\n", " ").split())
    known = {line for lines in COMMANDS.values() for line in lines if line.split()[0] in ("kubectl", "scontrol")}
    assert len(known) == 5
    assert [line for line in sorted(known) if line not in text] == []


class TestImport:
    """From files to objects."""

    def test_slurm_in_two_files(self, root: Client) -> None:
        page, hidden = preview_of(root, "slurm", ("tux.cfg", DUMP.encode()), ("nodes.txt", NODES.encode()))
        text = text_of(page)
        assert "To decide" in text
        assert "tux.cfg:" in text
        assert "backends.imported" in text
        assert not Cohort.objects.filter(name="physics").exists()
        report = root.get(page.wsgi_request.get_full_path().replace("preview", "report"))
        assert report.content.decode().startswith("# Import from slurm\n")
        files = root.get(page.wsgi_request.get_full_path().replace("preview", "files"))
        assert files.content.decode().startswith("backends:\n  imported:\n")
        done = root.post("/import", {**hidden, "step": "confirm"}, follow=True)
        assert "The import made" in text_of(done)
        assert Backend.objects.get(name="imported").kind == "simulated"
        entries = AuditEntry.objects.filter(action="pool.created", actor="root")
        assert all(each.description == "imported from slurm: tux.cfg, nodes.txt" for each in entries)
        assert entries.exists()
        again, _ = preview_of(root, "slurm", ("tux.cfg", DUMP.encode()), ("nodes.txt", NODES.encode()))
        assert "nothing changes" in text_of(again)
        assert 'value="confirm"' not in again.content.decode()

    def test_pasted_text_on_a_cluster_that_is_here(self, root: Client) -> None:
        page, hidden = preview_of(root, "kai", text=queues(a=4).decode(), cluster="sim", description="a try")
        assert "pasted text:" in text_of(page)
        root.post("/import", {**hidden, "step": "confirm"})
        pool = Pool.objects.get(name="a")
        assert (pool.backend.name, quota_of("a")) == ("sim", 4)
        reasons = set(AuditEntry.objects.filter(object="pool/a").values_list("description", flat=True))
        assert reasons == {"a try (imported from kai: pasted text)"}
        assert not ConfigurationOwner.objects.exists()

    def test_the_options_can_be_changed_without_a_second_upload(self, root: Client) -> None:
        _, hidden = preview_of(root, "resourcequota", ("q.yaml", QUOTAS))
        form = root.post("/import", {**hidden, "step": "edit"}, follow=True)
        assert "q.yaml" in text_of(form)
        key = hidden["kept"]
        page, hidden = preview_of(root, "resourcequota", kept=key, guarantee="limit")
        assert "has the quota 8" in text_of(page)
        root.post("/import", {**hidden, "step": "confirm"})
        assert quota_of("a") == 8

    def test_quotas_from_a_history(self, root: Client) -> None:
        month = HEADER + job(1, 0, 5, Account="physics", AllocTRES="gres/gpu=5") + job(2, 0, 5, Account="gone")
        files = (("tux.cfg", SMALL.encode()), ("nodes.txt", NODES.encode()))
        fields = {"guarantee": "history", "history": SimpleUploadedFile("month.txt.gz", gzip.compress(month.encode()))}
        page, hidden = preview_of(root, "slurm", *files, **fields)
        text = text_of(page)
        assert "pools.physics has the quota 5" in text
        assert "the history has an account gone that the files do not have" in text
        done = root.post("/import", {**hidden, "step": "confirm"}, follow=True)
        assert "The import made" in text_of(done)
        assert quota_of("physics") == 5
        reasons = set(AuditEntry.objects.filter(object="pool/physics").values_list("description", flat=True))
        assert reasons == {"imported from slurm: tux.cfg, nodes.txt, month.txt.gz"}
        form = root.post("/import", {**hidden, "step": "edit"}, follow=True)
        assert "tux.cfg, nodes.txt, month.txt.gz" in text_of(form)
        page, _ = preview_of(root, "slurm", kept=hidden["kept"], guarantee="limit")
        assert "pools.physics has the quota 6" in text_of(page)

    @pytest.mark.parametrize(
        ("history", "words"),
        [
            (None, "Choose the history from which"),
            (b"JobID|State|x|y\n", "line 1, Submit: The column Submit is missing"),
            (b"\xff\xfea", "line 1: The file begins as UTF-16"),
            (b"a|b|c|d\0\n", "line 1: The line has a zero byte"),
            (gzip.compress((HEADER + job(1, 0, 5)).encode())[:-20], "breaks off or is damaged"),
            (gzip.compress((HEADER + STEP * 600).encode()), "more than 32 MiB of text"),
            (b"[" * 100_000, "longer than 65536 bytes"),
        ],
    )
    def test_histories_that_cannot_be_read(self, root: Client, history: bytes | None, words: str) -> None:
        fields = {} if history is None else {"history": SimpleUploadedFile("month.txt", history)}
        answer = send(root, "slurm", text=SMALL, guarantee="history", **fields)
        assert (answer.status_code, words in text_of(answer)) == (400, True)

    def test_a_history_where_none_is_read(self, root: Client) -> None:
        for kind, guarantee, history, words in (
            ("slurm", "limit", b"", "The submitted file is empty"),
            ("slurm", "limit", (HEADER + job(1, 0, 5)).encode(), "Choose the history above its file"),
            ("kai", "history", (HEADER + job(1, 0, 5)).encode(), "A history is for Slurm"),
        ):
            text = SMALL if kind == "slurm" else queues(a=1).decode()
            answer = send(root, kind, text=text, guarantee=guarantee, history=SimpleUploadedFile("month.txt", history))
            assert (answer.status_code, words in text_of(answer)) == (400, True), words

    def test_a_change_in_between_gives_a_new_preview(self, root: Client) -> None:
        apply_change(PutPool(name="a", body=pool_body(2)))
        _, hidden = preview_of(root, "kai", ("q.yaml", queues(a=4)), cluster="sim")
        apply_change(PutPool(name="a", body=pool_body(3)))
        answer = root.post("/import", {**hidden, "step": "confirm"}, follow=True)
        assert "was changed meanwhile" in text_of(answer)
        assert quota_of("a") == 3


QUOTAS = b"""\
apiVersion: v1
kind: ResourceQuota
metadata: {name: q, namespace: a}
spec: {hard: {requests.nvidia.com/gpu: "8"}}
"""


def pool_body(quota: int, **more: object) -> dict[str, object]:
    return {"backend": "sim", "resources": {"gpu": {"guarantee": quota, "maximum": -1, "weight": 1}}, **more}


class TestRefusals:
    """What is not imported."""

    def test_nothing_of_a_refused_import_is_written(self, root: Client) -> None:
        answer = send(root, "kai", ("q.yaml", queues(a=4, b=10**9, team=1)), backend="new")
        text = text_of(answer if answer.status_code == 400 else root.get(answer.headers["Location"]))
        assert "q.yaml:" in text
        assert not Pool.objects.filter(name="a").exists()

    def test_no_import_replaces_an_approval_and_objects_of_git_stay_with_git(self, root: Client) -> None:
        apply_change(PutPool(name="a", body=pool_body(2, approval_above=3)))
        sent = send(root, "kai", ("q.yaml", queues(a=40)), cluster="sim")
        page = root.get(sent.headers["Location"])
        assert (page.status_code, "approv" in text_of(page)) == (400, True)
        assert 'value="confirm"' not in page.content.decode()
        set_owners({(OwnedKind.POOL, "a"): GitOwner("the repository", "pools/a.yaml")})
        sent = send(root, "kai", ("q.yaml", queues(a=4)), cluster="sim")
        assert "q.yaml:1: pools.a is owned by the repository" in text_of(root.get(sent.headers["Location"]))

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (b"", "empty"),
            (b"# x\n" * 200_002, "more than 200,000 lines"),
            ("Größe: 1\n".encode("latin-1"), "not UTF-8"),
            (b"a: 1\n\0\n", "zero byte"),
            (b"[" * 5000, ":1: "),
            (b"\xff\xfe\x00\xd8", "f.txt:1: "),
        ],
    )
    def test_hostile_files(self, root: Client, content: bytes, words: str) -> None:
        for kind in SourceKind:
            answer = send(root, kind, ("f.txt", content))
            assert (answer.status_code, words in text_of(answer)) == (400, True), kind

    def test_the_tabs_stand_above_the_form_its_preview_and_its_refusal(self, root: Client) -> None:
        sent = send(root, "kai", text=queues(a=4).decode(), cluster="sim")
        key = sent.headers["Location"].partition("?")[2]
        for address in ("/import", f"/import/-/preview?{key}", "/import/-/preview?kind=kai"):
            page = root.get(address).content.decode()
            assert 'class="oa-tabs"' in page, address
            assert 'class="oa-upper"' not in page, address

    def test_other_input(self, root: Client) -> None:
        assert "Choose files, or paste" in text_of(send(root, "kai"))
        assert "not a known value" in text_of(send(root, "lsf", ("f", b"a: 1\n")))
        for depth in ("0", "x", "1.5", "9" * 5000, "²", "02"):
            assert send(root, "slurm", ("f", DUMP.encode()), depth=depth).status_code == 400
        assert send(root, "kai", ("f", queues(a=1)), backend="Not a Name").status_code == 400
        assert send(root, "kai", ("f", queues(a=1)), namespace="Not a Name").status_code == 400
        Backend.objects.create(name="live", kind="kubernetes", namespace="default")
        answer = send(root, "kai", ("f", queues(a=1)), backend="live")
        assert (answer.status_code, "A Kubernetes cluster has this name" in text_of(answer)) == (400, True)

    def test_files_of_another_person_and_files_that_are_gone(self, root: Client, as_person: SignedIn) -> None:
        _, hidden = preview_of(root, "kai", ("q.yaml", queues(a=4)))
        for key in (hidden["kept"] + "x", "nothing"):
            answer = root.get(f"/import/-/preview?kind=kai&kept={key}")
            assert (answer.status_code, "are gone now" in text_of(answer)) == (400, True)
            assert root.get(f"/import/-/report?kind=kai&kept={key}").status_code == 302

    def test_only_admins_of_the_platform(self, as_person: SignedIn) -> None:
        sent = {"kind": "kai", "text": queues(a=4).decode(), "step": "confirm"}
        for person in set(ROLES_BY_USER) - {"root"}:
            browser = as_person(person)
            for address in ("/import", "/import/-/preview", "/import/-/report", "/import/-/files"):
                assert browser.get(address).status_code == 403, (person, address)
                assert browser.post(address, sent).status_code == 403, (person, address)
        assert not Pool.objects.filter(name="a").exists()
