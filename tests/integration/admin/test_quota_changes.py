"""The pages that change the quotas of several subpools with one preview."""

from __future__ import annotations

from django.core.files.uploadedfile import SimpleUploadedFile

from pools.domain.changes.subpools import ResizeSubpool
from pools.models import AuditEntry, Pool
from tests.integration.admin.conftest import SignedIn, actor_named
from tests.support.world import apply_change

SEVERAL = "/pools/team/quotas"
IMPORT = "/pools/-/quotas"


def _quotas() -> dict[str, int | None]:
    return dict(Pool.objects.filter(parent__name="team").values_list("subpool_name", "last_quota"))


def test_one_preview_for_all_subpools_of_a_pool(as_person: SignedIn) -> None:
    chief = as_person("chief")
    form = chief.get(SEVERAL).context["form"]
    assert {name: form[name].value() for name in ("quota-a", "quota-b")} == {"quota-a": 30, "quota-b": 20}
    typed = {"quota-a": "10", "quota-b": "90", "description": "swap", "step": "preview"}
    preview = chief.post(SEVERAL, typed, follow=True)
    shown = {node.label: (node.quota_before, node.quota_after) for node in preview.context["nodes"]}
    assert shown["a"] == (30, 10)
    assert shown["b"] == (20, 90)
    assert _quotas() == {"a": 30, "b": 20}
    done = chief.post(SEVERAL, {**preview.context["hidden"], "step": "confirm"})
    assert done.status_code == 302
    assert _quotas() == {"a": 10, "b": 90}


def test_a_change_in_between_is_shown_first(as_person: SignedIn) -> None:
    chief = as_person("chief")
    preview = chief.post(SEVERAL, {"quota-a": "10", "quota-b": "20", "step": "preview"}, follow=True)
    apply_change(ResizeSubpool(parent="team", subpool_name="b", quota=5), actor=actor_named("root"))
    again = chief.post(SEVERAL, {**preview.context["hidden"], "step": "confirm"}, follow=True)
    assert "changed meanwhile" in again.content.decode()
    assert _quotas() == {"a": 30, "b": 5}
    stale = {**again.context["hidden"], "seen": again.context["hidden"]["seen"].replace("team--b:", "team--b:9")}
    assert "changed meanwhile" in chief.post(SEVERAL, {**stale, "step": "confirm"}, follow=True).content.decode()
    digits = {"quota-a": "10", "quota-b": "20", "seen": f"team--a:{'9' * 5000} team--b"}  # more than Python reads
    assert chief.get(SEVERAL, digits).status_code == 200
    assert chief.post(SEVERAL, {**digits, "step": "preview"}, follow=True).status_code in {200, 400}


def test_faults_stand_at_the_number_that_has_them(as_person: SignedIn) -> None:
    answer = as_person("chief").post(SEVERAL, {"quota-a": "lots", "quota-b": "20", "step": "preview"}, follow=True)
    assert answer.status_code == 400
    assert "not a valid quota" in answer.context["form"].errors["quota-a"][0]
    together = as_person("chief").post(SEVERAL, {"quota-a": "90", "quota-b": "20", "step": "preview"}, follow=True)
    assert "would hold 110 GPUs" in together.content.decode()


def test_a_file_is_read_and_only_its_changes_are_shown(as_person: SignedIn) -> None:
    chief = as_person("chief")
    text = "pool,subpool,kind,quota\nteam,,pool,100\nteam,a,subpool,12\nteam,b,subpool,20\n"
    upload = SimpleUploadedFile("quotas.csv", text.encode(), content_type="text/csv")
    preview = chief.post(IMPORT, {"upload": upload, "description": "plan", "step": "preview"}, follow=True)
    assert preview.context["hidden"]["quotas"] == "pool,subpool,quota\nteam,a,12\n"
    assert [(node.label, node.bar.free) for node in preview.context["nodes"] if node.kind == "subpool"] == [("a", 12)]
    assert _quotas() == {"a": 30, "b": 20}
    done = chief.post(IMPORT, {**preview.context["hidden"], "step": "confirm"})
    assert done.status_code == 302
    assert _quotas() == {"a": 12, "b": 20}


def test_faults_of_a_file(as_person: SignedIn) -> None:
    chief = as_person("chief")
    for text, message in {
        "": "no column pool",
        "pool,subpool,quota\nteam,a,30\n": "changes no quota",
        "pool,subpool,quota\nteam,a,1\nteam,a,2\n": "Line 3 names team--a again, after line 2",
        "pool,subpool,quota\nteam,zz,2\n": "Pool team has no subpool zz",
    }.items():
        answer = chief.post(IMPORT, {"quotas": text, "step": "preview"}, follow=True)
        assert answer.status_code == 400, text
        assert message in answer.content.decode(), text
    upload = SimpleUploadedFile("quotas.csv", b"\xff\xfe\x00\xd8", content_type="text/csv")
    assert "not valid UTF-8" in chief.post(IMPORT, {"upload": upload, "step": "preview"}).content.decode()
    assert _quotas() == {"a": 30, "b": 20}


def test_many_subpools_do_not_outgrow_the_address(as_person: SignedIn) -> None:
    chief = as_person("chief")
    typed = {"quota-a": "31", "quota-b": "19", "step": "preview"}
    sent = chief.post("/pools/team/quotas", typed | {"description": "ü" * 1900})
    assert len(sent.headers["Location"]) < 1000
    page = chief.get(sent.headers["Location"])
    assert chief.post("/pools/team/quotas", {**page.context["hidden"], "step": "confirm"}).status_code == 302
    assert Pool.objects.get(name="team--a").last_quota == 31
    assert AuditEntry.objects.filter(object="pool/team--a").latest("id").description == "ü" * 1900
