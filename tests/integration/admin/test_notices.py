"""The pages of notices."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from pools.domain.people.notices import NOTICE_TITLES, NoticeKind
from pools.models import Notice, NoticeTarget
from pools.security.sealing import unseal
from scheduling.services.notices.planning import PAGES
from tests.support import world
from tests.support.world import sign_in

pytestmark = pytest.mark.django_db

PAGE = "/notices"
NEW = {"name": "ci", "channel": "webhook", "address": "https://ci.example.com/s3cret", "kinds": ["drain"], "owner": ""}


@pytest.fixture
def bob() -> Client:
    world.make_pool("team")
    world.make_user("bob", "osmo-team-user")
    return sign_in("bob")


def _text(client: Client, address: str = PAGE) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


def test_forms_that_are_sent_twice_make_one_secret_and_show_it(bob: Client) -> None:
    typed = {**NEW, "csrfmiddlewaretoken": "s" * 64}
    answers = [bob.post(f"{PAGE}/-/create", typed) for _ in range(2)]
    target = NoticeTarget.objects.get()
    assert {each.context["secret"] for each in answers} == {unseal(target.sealed_secret)}
    renewed = [bob.post(f"{PAGE}/{target.pk}/secret", {"csrfmiddlewaretoken": "r" * 64}) for _ in range(2)]
    target.refresh_from_db()
    assert {each.context["secret"] for each in renewed} == {unseal(target.sealed_secret)}
    cache.clear()  # as a minute later
    late = bob.post(f"{PAGE}/{target.pk}/secret", {"csrfmiddlewaretoken": "r" * 64}, follow=True)
    assert "it was shown then. If nobody copied it, replace it." in late.content.decode()
    mail = {**NEW, "name": "m", "channel": "mail", "address": "", "csrfmiddlewaretoken": "s" * 64}
    assert [bob.post(f"{PAGE}/-/create", mail).status_code for _ in range(2)] in ([302, 302], [400, 400])


def test_a_person_adds_changes_and_deletes_a_target(bob: Client) -> None:
    assert "<h3>No destinations</h3><p>Your notices are in the" in _text(bob)
    refused = bob.post(f"{PAGE}/-/create", NEW | {"address": "nowhere", "name": "1"})
    assert refused.status_code == 400
    assert all(fault in refused.content.decode() for fault in ("begins with https://", "is not a valid name"))
    shown = bob.post(f"{PAGE}/-/create", NEW).content.decode()
    assert "whsec_" in shown
    target = NoticeTarget.objects.get()
    page = _text(bob)
    assert "https://ci.example.com/…" in page
    assert "s3cret" not in page
    assert "A subpool drains" in page
    assert bob.post(f"{PAGE}/{target.pk}/edit", {"kinds": ["preempted"], "pools": ["team"]}).status_code == 302
    target.refresh_from_db()
    assert (target.kinds, target.pools, target.is_enabled) == (["preempted"], ["team"], False)
    secret = target.sealed_secret
    assert "whsec_" in bob.post(f"{PAGE}/{target.pk}/secret").content.decode()
    target.refresh_from_db()
    assert target.sealed_secret != secret
    assert bob.post(f"{PAGE}/{target.pk}/delete").status_code == 302
    assert not NoticeTarget.objects.exists()
    assert "was deleted." in bob.get(f"{PAGE}/{target.pk}/delete").content.decode(), "after Back"


def test_a_test_and_a_replay_are_buttons(bob: Client) -> None:
    bob.post(f"{PAGE}/-/create", NEW)
    target = NoticeTarget.objects.get()
    assert "gets a test notice" in bob.post(f"{PAGE}/{target.pk}/test", follow=True).content.decode()
    notice = Notice.objects.get()
    assert (notice.kind, notice.status) == ("test", "waiting")
    Notice.objects.update(status="dead", error="The receiver answered 500.", attempts=8)
    page = _text(bob, f"{PAGE}?status=dead")
    assert "The receiver answered 500." in page
    assert "Test notice" not in _text(bob, f"{PAGE}?status=delivered")
    assert "is sent again" in bob.post(f"{PAGE}/-/replay/{notice.message_id}", follow=True).content.decode()
    assert Notice.objects.get().status == "waiting"
    assert "waits to be sent already" in bob.post(f"{PAGE}/-/replay/{notice.message_id}", follow=True).content.decode()
    assert "not the id" in bob.post(f"{PAGE}/-/replay/nothing", follow=True).content.decode()
    Notice.objects.update(status="dead")
    assert "Send 1 failed again" in _text(bob)
    bob.post(f"{PAGE}/{target.pk}/replay")
    assert Notice.objects.get().status == "waiting"


def test_people_see_and_change_their_own(bob: Client) -> None:
    world.make_user("eve")
    bob.post(f"{PAGE}/-/create", NEW)
    target = NoticeTarget.objects.get()
    eve = sign_in("eve")
    assert "ci.example.com" not in _text(eve)
    for page in ("edit", "delete", "test", "secret", "replay"):
        assert eve.post(f"{PAGE}/{target.pk}/{page}").status_code == 404
    assert NoticeTarget.objects.filter(is_enabled=True).exists()


def test_admins_choose_the_owner(bob: Client) -> None:
    world.make_user("lead", "osmo-team-admin")
    assert "The installation" not in _text(sign_in("lead"), f"{PAGE}/-/create")
    sign_in("lead").post(f"{PAGE}/-/create", NEW | {"owner": "team"})
    assert NoticeTarget.objects.get().pool is not None
    world.admin_actor()
    root = sign_in("root-admin")
    root.post(f"{PAGE}/-/create", NEW | {"owner": "/installation", "kinds": ["job_late"]})
    assert NoticeTarget.objects.filter(user=None, pool=None).exists()
    assert "only team" not in _text(root)


def test_each_kind_has_a_label_and_each_subject_a_page() -> None:
    assert set(NOTICE_TITLES) == set(NoticeKind)
    pages = {
        subject: unquote(reverse(f"admin:{page}_change", args=["{}"]))
        for subject, page in {
            "workflow": "scheduling_workflow", "pool": "pools_pool", "backend": "pools_backend", "node": "pools_node",
            "approval": "pools_approvalrequest",
        }.items()
    }  # fmt: skip
    lists = {
        "config_file": f"{reverse('admin:pools_auditentry_changelist')}?q=config_file/{{}}",
        "job": reverse("admin:django_celery_beat_periodictask_changelist"),
    }
    assert pages | lists == PAGES
