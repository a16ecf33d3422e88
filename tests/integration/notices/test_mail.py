"""Mail and other services: a real mail server, a real receiver, and the switches of a profile."""

from __future__ import annotations

import email
import socket
from base64 import b64decode
from collections.abc import Callable, Iterator
from email.message import Message
from typing import Any, Self

import pytest
from aiosmtpd.controller import Controller
from django.conf import settings

from pools.domain.changes.notices import CreateTarget
from pools.domain.changes.profiles import UpdateProfile
from pools.domain.people.notices import Outcome
from pools.domain.people.roles import Actor
from pools.models import Notice, NoticeTarget, SignOnIdentity, User
from pools.services.people.notice_targets import profile_targets, profile_warnings
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.services.notices import sending
from scheduling.services.notices.sender_worker import SendRequest, send
from scheduling.services.notices.sending import send_notices
from tests.integration.notices.conftest import Hook
from tests.support.api_client import Callers
from tests.support.http_receiver import Receiver
from tests.support.notices import plan_notices
from tests.support.stack import find_free_port
from tests.support.world import admin_actor, apply_change, make_pool, make_user, submit_workflow


class _Inbox:
    def __init__(self) -> None:
        self.mails: list[Message] = []
        self.recipients: list[list[str]] = []
        self.answer = "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if self.answer.startswith("250"):
            self.mails.append(email.message_from_bytes(envelope.content))
            self.recipients.append(envelope.rcpt_tos)
        return self.answer


@pytest.fixture
def inbox(set_osmo: Callable[..., None]) -> Iterator[_Inbox]:
    """A mail server of the operator, inside the network, as mail servers are."""
    inbox = _Inbox()
    controller = Controller(inbox, hostname="127.0.0.1", port=find_free_port())
    controller.start()
    set_osmo(mail_url=f"mailto://127.0.0.1:{controller.port}?from=osmo@example.com&mode=insecure")
    try:
        yield inbox
    finally:
        controller.stop()


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the start of a process, which takes most of the time of a test; test_delivery.py has it."""

    class Here:
        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            """Nothing runs."""

        def send(self, request: SendRequest) -> tuple[Outcome, str]:
            return send(request)

    monkeypatch.setattr(sending, "SenderProcess", Here)


@pytest.fixture
def bob(ledger: None, in_this_process: None) -> Actor:
    make_pool("team", 100)
    actor = make_user("bob", "osmo-team-user")
    User.objects.filter(username="bob").update(email="bob@example.com")
    return actor


def _end_work(actor: Actor, name: str = "train") -> None:
    apply_change(CancelWorkflow(name=submit_workflow(actor, "team", name=name).name), actor=actor)


def test_the_switch_of_a_profile_sends_mail_about_the_own_work(bob: Actor, inbox: _Inbox) -> None:
    alice = make_user("alice", "osmo-team-user")
    plan_notices()
    _end_work(bob, "before")
    plan_notices()
    apply_change(UpdateProfile(email_notification=True), actor=bob)
    _end_work(bob)
    _end_work(alice)
    assert (plan_notices(), send_notices()) == (1, 1)
    (mail,) = inbox.mails
    notice = Notice.objects.get()
    assert inbox.recipients == [["bob@example.com"]]
    assert mail["Subject"] == "Workflow ended: train-1"
    assert "osmo@example.com" in mail["From"]
    assert mail["X-OSMO-Notice-Id"] == f"msg_{notice.message_id.hex}"
    text = str(mail.get_payload(decode=True) or b"", "utf-8") if not mail.is_multipart() else str(mail)
    assert "train-1 ended: FAILED_CANCELED" in text
    apply_change(UpdateProfile(email_notification=False), actor=bob)
    _end_work(bob, "later")
    assert (plan_notices(), send_notices()) == (0, 0)


def test_mail_that_waits_is_not_sent_after_the_switch_is_off(bob: Actor, inbox: _Inbox) -> None:
    plan_notices()
    apply_change(UpdateProfile(email_notification=True), actor=bob)
    _end_work(bob)
    plan_notices()
    apply_change(UpdateProfile(email_notification=False), actor=bob)
    assert send_notices() == 0


def test_a_mail_server_that_refuses_is_asked_again(bob: Actor, inbox: _Inbox) -> None:
    plan_notices()
    apply_change(UpdateProfile(email_notification=True), actor=bob)
    _end_work(bob)
    plan_notices()
    inbox.answer = "451 later"
    assert send_notices() == 1
    assert Notice.objects.get().status == "waiting"
    assert Notice.objects.get().error
    NoticeTarget.objects.update(retry_at=None)
    inbox.answer = "250 OK"
    assert send_notices() == 1
    assert Notice.objects.get().status == "delivered"
    assert len(inbox.mails) == 1


def test_a_pool_sends_mail_to_an_address(bob: Actor, inbox: _Inbox) -> None:
    plan_notices()
    values = {"name": "oncall", "channel": "mail", "address": "oncall@example.com", "pool": "team"}
    apply_change(CreateTarget(**values), actor=admin_actor())
    _end_work(bob, "a-b")
    assert (plan_notices(), send_notices()) == (1, 1)
    assert inbox.recipients == [["oncall@example.com"]]


def test_a_title_cannot_add_a_header(inbox: _Inbox) -> None:
    request = SendRequest(
        "mail", "bob@example.com", "msg_1", "Ended\r\nBcc: eve@example.com", "text", service=settings.OSMO.mail_url
    )
    send(request)
    assert all("Bcc" not in mail and mail["X-OSMO-Notice-Id"] == "msg_1" for mail in inbox.mails)
    assert [["bob@example.com"]] * len(inbox.mails) == inbox.recipients


def test_a_service_of_apprise_gets_title_and_text(
    bob: Actor, hook: Hook, receiver: Receiver, open_network: None
) -> None:
    address = f"json://{receiver.url.removeprefix('http://')}/notify"
    hook(bob, channel="apprise", address=address)
    _end_work(bob)
    receiver.answers.append(500)
    plan_notices()
    assert send_notices() == 1
    assert "500" in Notice.objects.get().error
    NoticeTarget.objects.update(retry_at=None)
    assert send_notices() == 1
    assert '"title": "Workflow ended: train-1"' in receiver.received[-1].body
    assert NoticeTarget.objects.get().shown_address == "json://…"


@pytest.mark.parametrize("answer", [0, 302])
def test_a_service_cannot_lead_inside(
    bob: Actor, hook: Hook, receiver: Receiver, set_osmo: Callable[..., None], answer: int
) -> None:
    set_osmo(notice_addresses=["127.0.0.1/32"] if answer else [])
    receiver.location = receiver.url.replace("127.0.0.1", "127.0.0.2")
    receiver.answers.append(answer or 200)
    hook(bob, channel="apprise", address=f"json://{receiver.url.removeprefix('http://')}/notify")
    _end_work(bob)
    plan_notices()
    send_notices()
    assert len(receiver.received) == (1 if answer else 0)
    assert Notice.objects.get().status == "waiting"


def test_a_name_that_changes_its_address_is_refused_at_the_connection(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: the name was public when it was checked, and is this machine when it is called."""
    port = int(receiver.url.rpartition(":")[2])
    answers = iter([("93.184.215.14", port), *[("127.0.0.1", port)] * 9])

    def rebind(*_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", next(answers))]

    assert rebind()[0][4][0] == "93.184.215.14"
    monkeypatch.setattr(socket, "getaddrinfo", rebind)
    secret = "whsec_" + "A" * 43 + "="
    for channel, scheme in (("webhook", "http"), ("apprise", "json")):
        request = SendRequest(channel, f"{scheme}://rebind.example:{port}/x", "msg_1", "T", "t", {}, secret)
        outcome, error = send(request)
        assert (outcome, receiver.received) == (Outcome.FAILED, [])
        assert "is a loopback address" in error


def test_a_switch_warns_if_it_has_no_effect(caller: Callers, set_osmo: Callable[..., None]) -> None:
    eve = caller("eve")
    answer = eve("POST", "/api/profile/settings", {"email_notification": True, "slack_notification": True})
    assert answer.status == 200
    for text in ("OSMO_MAIL_URL", "OSMO_SLACK_TOKEN", "no mail address"):
        assert text in b64decode(answer.headers["x-osmo-warning"]).decode()
    set_osmo(mail_url="mailto://mail.example")
    User.objects.update(email="eve@example.com")
    assert "x-osmo-warning" not in eve("POST", "/api/profile/settings", {"slack_notification": False}).headers


def test_a_switch_of_a_person_who_cannot_be_reached_makes_no_notices(bob: Actor, inbox: _Inbox) -> None:
    User.objects.filter(username="bob").update(email="")
    apply_change(UpdateProfile(email_notification=True, slack_notification=True), actor=bob)
    assert profile_targets([bob.user_id or 0]) == []


def test_a_target_of_a_profile_follows_its_switch(bob: Actor, inbox: _Inbox, caller: Callers) -> None:
    apply_change(UpdateProfile(email_notification=True), actor=bob)
    (target,) = profile_targets([bob.user_id or 0])
    call, address = caller("bob"), f"/api/notices/target/{target.pk}"
    shown = call("GET", address).body
    assert (shown["name"], shown["address"], shown["follows_profile"]) == ("profile-email", "bob@example.com", True)
    assert call("PATCH", address, {"kinds": ["drain"]}).body["kinds"] == ["drain"]
    assert call("PATCH", address, {"enabled": False}).body["details"][0]["code"] == "follows_profile"
    assert call("DELETE", address).status == 409


def test_slack_needs_the_bot_of_the_operator(bob: Actor, set_osmo: Callable[..., None]) -> None:
    """The call itself is Apprise's; without the network it fails, and names no token."""
    set_osmo(slack_token="xoxb-1234-1234-abcdefgh")
    SignOnIdentity.objects.create(user_id=bob.user_id, provider="corp", issuer="https://corp.example", subject="s-1")
    apply_change(UpdateProfile(slack_notification=True), actor=bob)
    (target,) = profile_targets([bob.user_id or 0])
    assert (target.channel, target.name) == ("slack", "profile-slack")
    outcome, error = send(SendRequest("slack", "bob@example.com", "msg_1", "T", "t"))
    assert (outcome, "OSMO_SLACK_TOKEN" in error) == (Outcome.REFUSED, True)


def test_the_bot_of_the_operator_writes_to_nobody_whom_a_person_names_as_oneself(
    bob: Actor, set_osmo: Callable[..., None]
) -> None:
    """The address of a password account is what its person typed, perhaps that of somebody else."""
    set_osmo(slack_token="xoxb-1234-1234-abcdefgh")
    user = apply_change(UpdateProfile(email="alice@example.com", slack_notification=True), actor=bob)
    assert profile_targets([bob.user_id or 0]) == []
    assert "identity provider" in profile_warnings(user)[0]


def test_an_address_cannot_name_a_channel_of_slack() -> None:
    service = "xoxb-1234-1234-abcdefgh"
    for address in ("a@b.example/general/c@b.example", "@bob@example.com", "general", "a@b.example?x=1"):
        outcome, error = send(SendRequest("slack", address, "msg_1", "T", "t", service=service))
        assert (outcome, "is not a mail address" in error) == (Outcome.REFUSED, True), address
