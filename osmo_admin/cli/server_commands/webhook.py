"""`webhook install|remove|manifest|rotate|status`: certificates and the webhook configuration of a cluster."""

from __future__ import annotations

import json
import os
import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from osmo_admin.cli.server_commands.options import DataDirOption, use_django
from osmo_admin.ops.files.data_directory import DataDirectory
from osmo_admin.ops.programs.errors import OperationError
from pools.domain.values.counting import counted
from pools.domain.values.urls import split_url

if TYPE_CHECKING:
    from osmo_admin.ops.files.certificates import ServerCertificate

app = typer.Typer(help="Admission webhooks: a cluster sends pods and PodGroups to OSMO Admin for review.")

_DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")

BackendArgument = Annotated[str, typer.Argument(help="Backend of the cluster.")]
UrlOption = Annotated[
    str,
    typer.Option(
        help="Address at which the cluster reaches the webhook server of OSMO Admin, as https://HOST:PORT. "
        "Default: $OSMO_WEBHOOK_URL."
    ),
]
ServiceOption = Annotated[
    str, typer.Option(help="NAMESPACE/NAME of a Service in the cluster that leads to OSMO Admin, instead of --url.")
]
ServicePortOption = Annotated[int, typer.Option(min=1, max=65535, help="Port of the Service.")]
NamespacesOption = Annotated[
    str, typer.Option(help="Only namespaces with this label, KEY=VALUE. Default: all except system namespaces.")
]
FailClosedOption = Annotated[
    bool | None,
    typer.Option(
        "--fail-closed/--fail-open",
        help="Refuse or admit while OSMO Admin does not answer. Default: refuse in mode enforce, else admit.",
    ),
]


@app.command()
def install(
    backend: BackendArgument,
    data_dir: DataDirOption = None,
    url: UrlOption = "",
    service: ServiceOption = "",
    service_port: ServicePortOption = 443,
    mode: Annotated[str, typer.Option(help="off, audit or enforce. Default: the current mode; audit at first.")] = "",
    identity: Annotated[
        str, typer.Option(help="User name of OSMO Admin in the cluster. Default: read from the cluster.")
    ] = "",
    strict_minimums: Annotated[
        bool | None,
        typer.Option(
            "--strict-minimums/--lenient-minimums",
            help="Refuse, or take, PodGroups of other software with minimums that KAI takes and OSMO Admin does not. "
            "Default: the current setting; lenient at first.",
        ),
    ] = None,
    namespaces: NamespacesOption = "",
    fail_closed: FailClosedOption = None,
) -> None:
    """Create or renew the certificate and install the webhook configuration in the cluster. Safe to repeat. The running
    installation then puts back what others change in it."""
    use_django(data_dir)
    from pools.domain.people.roles import SYSTEM
    from scheduling.services.webhooks.installation import install_webhook

    before = _stored_certificate(data_dir)
    certificate, address = _webhook_address(data_dir, url, service, service_port)
    guard = install_webhook(
        actor=SYSTEM,
        backend=backend,
        address=address,
        mode=mode or None,
        identity=identity,
        strict_minimums=strict_minimums,
        fails_closed=fail_closed,
        namespace_selector=_parse_selector(namespaces),
    )
    print(f"Backend {backend} sends pods and PodGroups to OSMO Admin for review: mode {guard.mode}.")
    days = counted(certificate.days_left(), "day")
    print(f"Its user name for OSMO Admin is {guard.identity}; the certificate expires in {days}.")
    if before != certificate:
        print("The certificate is new: restart OSMO Admin, so that its webhook server uses it.")


@app.command()
def remove(backend: BackendArgument, data_dir: DataDirOption = None) -> None:
    """Remove the webhook configuration from the cluster. Settings and certificates stay."""
    use_django(data_dir)
    from pools.domain.people.roles import SYSTEM
    from scheduling.services.webhooks.installation import remove_webhook

    is_removed = remove_webhook(actor=SYSTEM, backend=backend)
    print(
        f"The webhook configuration of backend {backend} is removed."
        if is_removed
        else f"Backend {backend} had no webhook configuration."
    )


@app.command()
def manifest(
    backend: BackendArgument,
    data_dir: DataDirOption = None,
    url: UrlOption = "",
    service: ServiceOption = "",
    service_port: ServicePortOption = 443,
    namespaces: NamespacesOption = "",
    fail_closed: FailClosedOption = None,
) -> None:
    """Print manifests for an admin of the cluster: ServiceAccount, least rights, and the webhook configuration that
    `install` would install. It allows everything unless the webhooks are in mode enforce already."""
    use_django(data_dir)
    import yaml

    from pools.domain.people.roles import SYSTEM
    from scheduling.kube.connection import resource_kinds
    from scheduling.kube.rbac import rbac_manifests
    from scheduling.kube.webhook_configuration import webhook_configuration
    from scheduling.services.webhooks.installation import printed_webhooks

    _, address = _webhook_address(data_dir, url, service, service_port)
    spec = printed_webhooks(
        actor=SYSTEM,
        backend=backend,
        address=address,
        fails_closed=fail_closed,
        namespace_selector=_parse_selector(namespaces),
    )
    kind, hooks = resource_kinds.VALIDATING_WEBHOOK, webhook_configuration(spec)
    rights = rbac_manifests(spec.namespace, backends=[backend])
    everything = [*rights, {"apiVersion": kind.api_version, "kind": kind.name, **hooks}]
    print(yaml.safe_dump_all(everything, sort_keys=False), end="")


@app.command()
def certificate(
    secret: Annotated[str, typer.Argument(metavar="NAMESPACE/NAME", help="The Secret, as NAMESPACE/NAME.")],
    host: Annotated[list[str], typer.Option(help="A name of the webhook server in the cluster. May be given again.")],
) -> None:
    """Keep the certificate of the webhook server in a Secret of the cluster in which this command runs: made once,
    renewed when it ends within 30 days or lacks a host. The job of the chart runs it."""
    namespace, _, name = secret.partition("/")
    if not (_DNS_NAME.fullmatch(namespace) and _DNS_NAME.fullmatch(name)):
        raise typer.BadParameter("The Secret is given as NAMESPACE/NAME, each in lower case: osmo-system/osmo-webhook.")
    from osmo_admin.cli.server_commands.certificate_secret import keep_certificate_secret
    from scheduling.kube.connection.client import KubernetesCluster
    from scheduling.kube.connection.cluster_access import InClusterAccess
    from scheduling.kube.connection.errors import BadCredentials

    try:
        cluster = KubernetesCluster(InClusterAccess())
    except BadCredentials as problem:
        raise OperationError(
            "This command runs inside the cluster, in a pod with a service account; here there is none. Elsewhere use "
            "osmo-admin webhook install."
        ) from problem
    is_new = keep_certificate_secret(cluster, namespace, name, host)
    print(f"Secret {name} in namespace {namespace} has {'a new certificate' if is_new else 'a valid certificate'}.")


@app.command()
def rotate(
    backend: BackendArgument,
    data_dir: DataDirOption = None,
    keep_minutes: Annotated[
        int, typer.Option(min=0, max=1440, help="Minutes in which the addresses with the old mark are still believed.")
    ] = 1,
) -> None:
    """Give the addresses of the webhooks a new secret mark. The running installation puts them into the cluster within
    seconds; a configuration from a printed manifest needs a new manifest."""
    use_django(data_dir)
    from pools.domain.people.roles import SYSTEM
    from scheduling.services.webhooks.marks import rotate_mark

    rotate_mark(actor=SYSTEM, backend=backend, keep_previous=timedelta(minutes=keep_minutes))
    print(f"The webhooks of backend {backend} have a new mark; the old one is believed for {keep_minutes} minutes.")


@app.command()
def status(
    backend: BackendArgument,
    data_dir: DataDirOption = None,
    output: Annotated[str, typer.Option("--output", "-o", help="text or json.")] = "text",
) -> None:
    """Show the webhook policy of a backend and its faults. Exit code 1 if there is a fault."""
    use_django(data_dir)
    from pools.domain.people.roles import SYSTEM
    from scheduling.services.webhooks.installation import read_webhook_status

    certificate = _stored_certificate(data_dir)
    policy_status = read_webhook_status(SYSTEM, backend, ca_certificate=certificate.authority if certificate else "")
    faults = list(policy_status.problems)
    if certificate is None:
        faults.append("OSMO Admin has no certificate for webhooks: osmo-admin webhook install")
    elif certificate.days_left() < 30:
        days = counted(certificate.days_left(), "day")
        faults.append(f"The certificate expires in {days}: osmo-admin webhook install, then restart OSMO Admin.")
    installed = policy_status.installed
    facts: dict[str, Any] = {
        "backend": backend,
        "mode": policy_status.guard.mode,
        "identity": policy_status.guard.identity,
        "accounts": policy_status.guard.accounts,
        "installed": installed is not None,
        "address": _address_text(installed.address) if installed else None,
        "fails_closed": installed.fails_closed if installed else None,
        "certificate_days_left": certificate.days_left() if certificate else None,
        "bypass_tries": policy_status.bypass_attempts,
        "unmarked_reviews": policy_status.unmarked,
        "faults": faults,
    }
    if output == "json":
        print(json.dumps(facts))
    else:
        for key, value in facts.items():
            if key != "faults":
                print(f"{key.replace('_', ' ')}: {'-' if value in (None, '', []) else value}")
        for fault in faults:
            print(f"wrong: {fault}")
    if faults:
        raise typer.Exit(1)


def _webhook_address(data_dir: Path | None, url: str, service: str, port: int) -> tuple[ServerCertificate, Any]:
    from scheduling.kube.webhook_configuration import WebhookAddress

    url = url or ("" if service else os.environ.get("OSMO_WEBHOOK_URL", ""))
    folder = DataDirectory.open(data_dir).webhook
    if service:
        namespace, _, name = service.partition("/")
        if not namespace or not name:
            raise OperationError(f"--service {service} is not a valid NAMESPACE/NAME of a Service.")
        from osmo_admin.ops.files.certificates import ensure_certificate

        certificate = ensure_certificate(folder, [f"{name}.{namespace}.svc"])
        return certificate, WebhookAddress(certificate.authority, service=(namespace, name), port=port)
    parts = split_url(url)
    if parts is None or parts.scheme != "https" or not parts.hostname or parts.path.strip("/"):
        raise OperationError("Name the address for the cluster: --url https://HOST:PORT, or --service NAMESPACE/NAME.")
    from osmo_admin.ops.files.certificates import ensure_certificate

    certificate = ensure_certificate(folder, [parts.hostname])
    return certificate, WebhookAddress(certificate.authority, url=url)


def _address_text(address: Any) -> str:
    """The address without the mark, which is a secret."""
    return address.url or f"Service {'/'.join(address.service)} port {address.port}"


def _stored_certificate(data_dir: Path | None) -> ServerCertificate | None:
    from osmo_admin.ops.files.certificates import read_certificate

    return read_certificate(DataDirectory.open(data_dir).webhook)


def _parse_selector(text: str) -> dict[str, Any] | None:
    if not text:
        return None
    key, sign, value = text.partition("=")
    if not sign or not key or not value:
        raise OperationError("--namespaces: write KEY=VALUE.")
    return {"matchLabels": {key: value}}
