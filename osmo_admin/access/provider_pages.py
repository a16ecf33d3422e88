"""The pages of the sign-on through an identity provider: the way there, the way back, linking, and signing out.

The secrets of an attempt are in the session of the browser under its `state`, for one use within `ATTEMPT_LIFE`. The
provider sends the browser back to exactly one address of each provider.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import BACKEND_SESSION_KEY, REDIRECT_FIELD_NAME, login
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from osmo_admin.web.error_responses import STATUS_OF_KIND, retry_after_header
from pools.domain.errors import BadInput, DomainError, Fault, Violation
from pools.domain.page_addresses import SIGN_ON_PREFIX
from pools.security.sealing import UnreadableSecret, unseal
from pools.sign_on.identities import current_identity
from pools.sign_on.providers import LdapDirectory, OpenIdProvider, not_renewable_message

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite

    from pools.models import SignOnIdentity

logger = logging.getLogger(__name__)
BACKEND = "pools.sign_on.backend.SignOnBackend"
ATTEMPTS_KEY = "sign_on_attempts"
LINK_KEY = "sign_on_link"
PROVIDER_KEY = "sign_on_provider"
ATTEMPT_LIFE = 600  # seconds
MAX_ATTEMPTS = 5  # of one browser at the same time
MAX_LOGOUT_TOKEN = 16_384  # characters


def sign_on_urls(site: AdminSite) -> list[URLPattern]:
    """The addresses of all providers."""
    prefix = f"{SIGN_ON_PREFIX.removeprefix('/')}<str:name>/"

    def link(request: HttpRequest, name: str) -> HttpResponse:
        return link_page(site, request, name)

    return [
        path(prefix, start, name="sign_on"),
        path(f"{prefix}callback/", finish, name="sign_on_callback"),
        path(f"{prefix}link/", site.admin_view(link), name="sign_on_link"),
        path(f"{prefix}logout/", end_by_provider, name="sign_on_logout"),
    ]


def session_identity(request: HttpRequest) -> SignOnIdentity | None:
    """The identity with which this browser's session began; None for a session that began with a password."""
    if request.session.get(BACKEND_SESSION_KEY) != BACKEND or not request.user.is_authenticated:
        return None
    return current_identity(request.user)


def follow_sign_on(request: HttpRequest) -> bool:
    """Let the session that has just begun end with its sign-on. False if it began with a password of our own."""
    identity = session_identity(request)
    if identity is None:
        return False
    request.session[PROVIDER_KEY] = identity.provider
    request.session.set_expiry(identity.session_until)
    return True


def directory_titles() -> list[str]:
    """The directories whose passwords the login form takes."""
    return [each.title for each in settings.OSMO.sign_on_providers if isinstance(each, LdapDirectory)]


def provider_buttons(next_url: str = "") -> list[dict[str, str]]:
    """The providers of the login page: their titles and addresses."""
    query = f"?{urlencode({REDIRECT_FIELD_NAME: next_url})}" if next_url else ""
    return [
        {"title": provider.title, "address": reverse("admin:sign_on", args=[provider.name]) + query}
        for provider in settings.OSMO.sign_on_providers
        if isinstance(provider, OpenIdProvider)
    ]


@never_cache
@require_GET
def start(request: HttpRequest, name: str) -> HttpResponse:
    """Send the browser to the provider."""
    from pools.sign_on import openid  # noqa: PLC0415  # loaded by sign-ons only
    from pools.sign_on.accounts import get_provider  # noqa: PLC0415

    try:
        provider = get_provider(name)
        started = openid.StartedSignOn.new()
        address = openid.authorization_url(provider, started, _redirect_uri(request, provider))
    except DomainError as refusal:
        return _refusal_page(request, refusal)
    link = request.session.pop(LINK_KEY, None)
    is_link = request.user.is_authenticated and link == {"user": request.user.pk, "provider": name}
    attempts = {key: each for key, each in _attempts(request).items() if each["at"] > time.time() - ATTEMPT_LIFE}
    newest = sorted(attempts.items(), key=lambda item: item[1]["at"])[-MAX_ATTEMPTS + 1 :]
    request.session[ATTEMPTS_KEY] = dict(newest) | {
        started.state: {
            "provider": name,
            "nonce": started.nonce,
            "verifier": started.verifier,
            "next": _own_address(request, request.GET.get(REDIRECT_FIELD_NAME, "")),
            "at": time.time(),
            "link": request.user.get_username() if is_link else None,
        }
    }
    if not request.user.is_authenticated:
        request.session.set_expiry(ATTEMPT_LIFE)
    return HttpResponseRedirect(address)


@never_cache
@require_GET
def finish(request: HttpRequest, name: str) -> HttpResponse:
    """The provider has sent the browser back: let the person in, or say why not."""
    from pools.sign_on import openid  # noqa: PLC0415  # loaded by sign-ons only
    from pools.sign_on.accounts import get_provider, sign_on  # noqa: PLC0415

    attempts = _attempts(request)
    attempt = attempts.pop(request.GET.get("state", ""), None)
    if attempt is not None:
        request.session[ATTEMPTS_KEY] = attempts  # used up, whatever follows
    try:
        provider = get_provider(name)
        if attempt is None or attempt["provider"] != name or attempt["at"] < time.time() - ATTEMPT_LIFE:
            raise _bad_attempt(
                Fault.UNKNOWN_STATE, "This sign-on was not started here, or was used or given up. Sign on again."
            )
        issuer = request.GET.get("iss")
        if issuer is not None and issuer != provider.issuer:
            raise _bad_attempt(
                Fault.WRONG_ISSUER, "Another provider has answered than the one that you chose. Sign on again."
            )
        if "error" in request.GET:
            reason = request.GET.get("error_description") or request.GET["error"]
            raise _bad_attempt(Fault.PROVIDER_REFUSED, f"{provider.title} did not sign you on: {reason[:200]}")
        if attempt["link"] is not None and attempt["link"] != request.user.get_username():
            raise _bad_attempt(
                Fault.OTHER_USER, "Another user has logged in meanwhile. Start to link the account again."
            )
        started = openid.StartedSignOn(request.GET["state"], attempt["nonce"], attempt["verifier"])
        facts = openid.exchange_code(provider, started, request.GET.get("code", ""), _redirect_uri(request, provider))
        user = sign_on(provider=provider, facts=facts, link_to=attempt["link"])
    except DomainError as refusal:
        return _refusal_page(request, refusal)
    login(request, user, backend=BACKEND)
    follow_sign_on(request)
    if not facts.is_renewable:
        messages.warning(request, not_renewable_message(provider.title))
    return HttpResponseRedirect(_own_address(request, attempt["next"]) or reverse("admin:index"))


def link_page(site: AdminSite, request: HttpRequest, name: str) -> HttpResponse:
    """Ask a person who has logged in whether their account should be linked; then lead to the provider. The form cannot
    lead there by itself: the content policy lets no form leave the host."""
    from osmo_admin.access.directory_link import directory_link_page  # noqa: PLC0415  # a page, which is loaded later
    from pools.sign_on.accounts import configured_providers, get_provider  # noqa: PLC0415  # loaded by sign-ons only

    directory = configured_providers().get(name)
    if isinstance(directory, LdapDirectory):
        return directory_link_page(site, request, directory)
    provider = get_provider(name)
    username = request.user.get_username()
    account = reverse("admin:pools_user_change", args=[username])
    is_confirmed = request.method == "POST"
    if is_confirmed:
        request.session[LINK_KEY] = {"user": request.user.pk, "provider": name}
    context = {
        **site.each_context(request),
        "title": f"Link your account with {provider.title}",
        "crumbs": [(username, account)],
        "provider": provider,
        "is_confirmed": is_confirmed,
        "address": f"{reverse('admin:sign_on', args=[name])}?{urlencode({REDIRECT_FIELD_NAME: account})}",
        "back": account,
    }
    return TemplateResponse(request, "osmo/sign_on_link.html", context)


@csrf_exempt
@never_cache
@require_POST
def end_by_provider(request: HttpRequest, name: str) -> HttpResponse:
    """The provider itself says that a session has ended (OpenID Connect Back-Channel Logout). It signs what it says."""
    from pools.sign_on import accounts, openid  # noqa: PLC0415  # loaded by sign-ons only

    try:
        provider = accounts.get_provider(name)
        encoded = request.POST.get("logout_token", "")
        if not encoded or len(encoded) > MAX_LOGOUT_TOKEN:
            raise _bad_attempt(Fault.NO_LOGOUT_TOKEN, "logout_token is missing.")
        subject, session_id = openid.verify_logout_token(provider, encoded)
        accounts.end_by_provider(provider, subject, session_id)
    except DomainError as refusal:
        status = 400 if refusal.kind in {"forbidden", "bad_input"} else STATUS_OF_KIND[refusal.kind]
        return HttpResponse(refusal.message, status=status, content_type="text/plain; charset=utf-8")
    return HttpResponse(status=200)


def sign_out_address(request: HttpRequest) -> tuple[str, str]:
    """(title, address) with which the provider ends its session, too; empty texts if this browser's session did not
    begin there. What began with the sign-on ends here first."""
    from pools.sign_on import openid  # noqa: PLC0415  # loaded by sign-ons only
    from pools.sign_on.accounts import configured_providers, end_sign_on  # noqa: PLC0415

    identity = session_identity(request)
    provider = configured_providers().get(request.session.get(PROVIDER_KEY, ""))
    if provider is None or identity is None:
        return "", ""
    try:
        id_token = unseal(identity.id_token) if identity.id_token else ""
    except UnreadableSecret as problem:  # the provider asks the person itself then
        logger.warning("The provider's session of %s cannot be named. %s", identity.username, problem)
        id_token = ""
    end_sign_on(identity.pk, provider, reason="signed out")
    if not isinstance(provider, OpenIdProvider):
        return "", ""
    try:
        return provider.title, openid.end_session_url(
            provider, id_token, f"{_base_url(request)}{reverse('admin:login')}"
        )
    except DomainError:  # a provider that does not answer keeps nobody signed on here
        return provider.title, ""


def _attempts(request: HttpRequest) -> dict[str, Any]:
    found = request.session.get(ATTEMPTS_KEY)
    return dict(found) if isinstance(found, dict) else {}


def _base_url(request: HttpRequest) -> str:
    return str(settings.OSMO.public_url) or f"{request.scheme}://{request.get_host()}"


def _redirect_uri(request: HttpRequest, provider: OpenIdProvider) -> str:
    return f"{_base_url(request)}{reverse('admin:sign_on_callback', args=[provider.name])}"


def _own_address(request: HttpRequest, address: str) -> str:
    """The address, if it is one of ours."""
    is_ours = url_has_allowed_host_and_scheme(address, {request.get_host()}, require_https=request.is_secure())
    return address if is_ours else ""


def _bad_attempt(code: Fault, message: str) -> BadInput:
    return cast("BadInput", BadInput.of([Violation("", code, message)]))


def _refusal_page(request: HttpRequest, refusal: DomainError) -> HttpResponse:
    status = STATUS_OF_KIND[refusal.kind]
    context = {"title": "Not signed on", "message": refusal.message, "back": reverse("admin:login")}
    context["back_title"] = "Go to the login page"
    answer = TemplateResponse(request, "osmo/plain.html", context, status=status)
    for header, value in retry_after_header(refusal).items():
        answer.headers[header] = value
    return answer
