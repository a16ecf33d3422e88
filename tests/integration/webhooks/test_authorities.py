"""The certificate authorities that a cluster trusts behind a Service, where no probe shows which one is in use."""

from __future__ import annotations

import pytest

from pools.domain.people.roles import SYSTEM
from scheduling.kube.webhook_configuration import WebhookAddress, read_configuration
from scheduling.services.webhooks import installation
from scheduling.services.webhooks.authorities import split_authorities
from scheduling.services.webhooks.installation import install_webhook, remove_webhook
from tests.support.agent_harness import kubernetes_backend
from tests.support.fake_cluster import FakeCluster


def authority(text: str) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n"


OLD, NEW = authority("b2xk"), authority("bmV3")


@pytest.mark.django_db
def test_removed_and_installed_again_only_the_new_authority_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(namespaces=["osmo"])
    monkeypatch.setattr(installation, "connect", lambda _: cluster)
    backend = kubernetes_backend("osmo")

    def install(trusted: str) -> list[str]:
        """Install, and read what the cluster trusts."""
        address = WebhookAddress(trusted, service=("osmo", "hooks"))
        install_webhook(actor=SYSTEM, backend="lab", address=address, identity="us")
        backend.webhook_installation.refresh_from_db()
        return split_authorities(backend.webhook_installation.authorities)

    assert install(OLD) == [OLD]
    assert install(NEW) == [NEW, OLD], "until the server shows the new one"
    assert remove_webhook(actor=SYSTEM, backend="lab")
    assert read_configuration(cluster, "lab") is None
    assert install(NEW) == [NEW]
