"""A process that sends notices, one at a time: only this process waits for receivers, holds no connection to the
database, and is ended from outside when an attempt takes too long.

On standard input: one JSON object in each line, a `SendRequest`; on standard output an empty line at the start, and one
line for each request, `{"outcome", "error"}`. The process ends with its standard input.
"""

from __future__ import annotations

import html
import json
import logging
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pools.domain.configuration.cluster_addresses import AddressRule
from pools.domain.people.notices import Channel, Outcome, check_address, judge_status
from scheduling.services.notices.address_guard import RefusedAddress, guard_addresses

CONNECT_SECONDS = 5.0
READ_SECONDS = 10.0
MAX_ERROR = 300
USER_AGENT = "OSMO-Admin-Notices"


@dataclass(frozen=True, slots=True)
class SendRequest:
    """One attempt. `allowed` are the networks inside that are allowed. `address` is the one of the target; for mail the
    recipient, and `service` the mail server or the bot of the operator, whose address is not checked."""

    channel: str
    address: str
    message_id: str
    title: str
    text: str
    body: dict[str, Any] = field(default_factory=dict)
    secret: str = ""
    service: str = ""
    allowed: list[str] = field(default_factory=list)


def send(request: SendRequest) -> tuple[Outcome, str]:
    """Make one attempt; returns its outcome and the reason of a failure, without secrets. Raises nothing."""
    with guard_addresses(AddressRule.of_notices(request.allowed)) as guard:
        try:
            if request.channel == Channel.WEBHOOK:
                return _send_webhook(request)
            if request.channel == Channel.APPRISE:
                found = _send_by_apprise(request, request.address)
                return found if not guard.refusal else (Outcome.FAILED, guard.refusal)
        except RefusedAddress as error:
            return Outcome.FAILED, str(error)
        except Exception as error:  # noqa: BLE001  # whatever a library raises, the notice waits for its next attempt
            return Outcome.FAILED, guard.refusal or _reason(error)
    try:
        return _send_by_operator(request)
    except Exception as error:  # noqa: BLE001  # the same
        return Outcome.FAILED, _reason(error)


def _send_webhook(request: SendRequest) -> tuple[Outcome, str]:
    import httpx  # noqa: PLC0415  # loaded by the processes that need it
    from standardwebhooks import Webhook  # noqa: PLC0415

    # The body is signed as it is sent, at the time of this attempt: receivers refuse old signatures.
    now = datetime.now(UTC)
    content = json.dumps(request.body, ensure_ascii=False, separators=(",", ":"))
    headers = {
        "content-type": "application/json",
        "user-agent": USER_AGENT,
        "webhook-id": request.message_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(request.secret).sign(request.message_id, now, content),
    }
    limits = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    with (
        httpx.Client(follow_redirects=False, trust_env=False, timeout=limits) as client,
        client.stream("POST", request.address, content=content.encode(), headers=headers) as answer,
    ):
        status = answer.status_code  # the answer itself is not read
    outcome = judge_status(status)
    if outcome is Outcome.DELIVERED:
        return outcome, ""
    redirect = " A redirect is not followed: give the final address." if 300 <= status < 400 else ""
    return outcome, f"The receiver answered {status}.{redirect}"


def _send_by_apprise(request: SendRequest, address: str, **values: Any) -> tuple[Outcome, str]:
    from apprise import Apprise, AppriseAsset, NotifyFormat, PersistentStoreMode  # noqa: PLC0415

    said: list[str] = []
    logger = logging.getLogger("apprise")
    logger.handlers, logger.propagate = [_Listener(said)], False
    logger.setLevel(logging.WARNING)
    asset = AppriseAsset(
        app_id="OSMO Admin", app_desc="OSMO Admin", app_url="", async_mode=False, http_redirects=False,
        plugin_paths=[], storage_mode=PersistentStoreMode.MEMORY, secure_logging=True,
    )  # fmt: skip
    plugin = Apprise.instantiate(address, asset=asset, suppress_exceptions=True)
    if plugin is None:
        return Outcome.REFUSED, "The address is not a complete one; replace it."
    for name, value in values.items():
        setattr(plugin, name, value)
    wants_html = plugin.notify_format == NotifyFormat.HTML
    text = html.escape(request.text).replace("\n", "<br>") if wants_html else request.text
    if plugin.notify(title=request.title, body=text, body_format=plugin.notify_format):
        return Outcome.DELIVERED, ""
    return Outcome.FAILED, (said[-1] if said else "The service did not take the notice.")[:MAX_ERROR]


def _send_by_operator(request: SendRequest) -> tuple[Outcome, str]:
    """Mail and direct messages, through the server or the bot that the operator has configured."""
    if not request.address:
        return Outcome.REFUSED, "The account has no mail address: osmo profile set mail ADDRESS sets one."
    if not request.service:
        name = "OSMO_MAIL_URL" if request.channel == Channel.MAIL else "OSMO_SLACK_TOKEN"
        return Outcome.REFUSED, f"This installation has no {name}: an operator sets it."
    if request.channel == Channel.SLACK:
        if fault := next(iter(check_address(Channel.MAIL, request.address, needs_tls=False).faults), None):
            return Outcome.REFUSED, fault.message  # other parts of this path are channels
        return _send_by_apprise(request, f"slack://{request.service}/{request.address}")
    headers = {"X-OSMO-Notice-Id": request.message_id}
    return _send_by_apprise(request, request.service, targets=[(False, request.address)], headers=headers)


class _Listener(logging.Handler):
    """Keeps the warnings of Apprise: its calls answer no more than yes or no."""

    def __init__(self, said: list[str]) -> None:
        super().__init__(logging.WARNING)
        self.said = said

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def _reason(error: Exception) -> str:
    name = type(error).__name__
    return f"{name}: {error}"[:MAX_ERROR] if str(error) else name


def main() -> None:
    """Answer requests until the standard input ends."""
    sys.stdout.write("\n")
    sys.stdout.flush()
    for text in sys.stdin:
        outcome, error = send(SendRequest(**json.loads(text)))
        sys.stdout.write(json.dumps({"outcome": outcome, "error": error}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
