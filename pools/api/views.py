"""The base of every view: the caller, unreadable requests, and requests that may be sent twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from pools.api.authentication import actor_of
from pools.api.rendering import SingleFormatNegotiation, UtcJsonEncoder
from pools.api.request_parsing import keep_last_texts, repeated_parameters, unknown_parameters
from pools.api.warnings_header import WARNING_HEADER, merge_warnings
from pools.domain.errors import BadInput, Fault, UnsupportedMedia, Violation
from pools.domain.people.roles import Actor
from pools.domain.values.stored_text import is_storable
from pools.services.changes.idempotency import has_record, run_once

MAX_KEY_LENGTH = 255
_MAX_WARNINGS = 5
Prepared = TypeVar("Prepared")


class View(APIView):
    """A view of the REST API. Subclasses parse, call a service, render."""

    request: Request
    content_negotiation_class = SingleFormatNegotiation
    _warnings: Sequence[str] = ()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Check the login first; then refuse characters that no column can store, in the query and in the address."""
        super().initial(request, *args, **kwargs)
        if request.method not in SAFE_METHODS:
            _refuse_compressed(request.headers.get("Content-Encoding", ""))
        _refuse_unstorable(kwargs, request.query_params.lists())
        self._check_parameters(request)

    def _check_parameters(self, request: Request) -> None:
        """Warn of parameters that the operation does not document, which have no effect, and of those that are given
        more often than it reads them. Only `dry_run` is refused: who asks a call for a preview that it does not have,
        or for a preview and not, must not change anything."""
        documented = getattr(getattr(self, str(request.method).lower(), None), "documentation", None)
        if not request.query_params or documented is None:
            return
        known = documented.query_parameters
        unknown = unknown_parameters(request.query_params, [each.name for each in known])
        single = {each.name for each in known if not each.is_list}
        repeated = repeated_parameters(request.query_params.lists(), single)
        if refused := [each for each in (*unknown, *repeated) if each.path == "dry_run"]:
            raise BadInput.of(refused)
        if repeated:
            keep_last_texts(request, [each.path for each in repeated])
        warnings = [
            *(f"WARNING: {each.message} It had no effect." for each in unknown),
            *(f"WARNING: {each.message} The last one counted." for each in repeated),
        ]
        self._warnings = warnings[:_MAX_WARNINGS]  # a proxy takes a header of some kilobytes

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Forbid caches to store an answer, because each answer belongs to one caller."""
        response = super().finalize_response(request, response, *args, **kwargs)
        response.headers.setdefault("Cache-Control", "no-store")
        if warning := merge_warnings(request, response.headers.get(WARNING_HEADER), self._warnings):
            response.headers[WARNING_HEADER] = warning
        return response

    @property
    def actor(self) -> Actor:
        """The caller."""
        return actor_of(self.request)

    def run_once(
        self,
        operation: Callable[[], Response],
        *,
        require: Callable[[], object],
        is_preview: bool = False,
        repeat_secret: Callable[[], Response] | None = None,
    ) -> Response:
        """Answer a POST that may carry an `Idempotency-Key`: the first success is stored with its change and
        returned when the same credential repeats the request, if it still has the permission that `require` asks for.

        A preview changes nothing, so it is not stored. An answer with a secret is not stored either: `repeat_secret`
        answers the repetition."""
        key = None if is_preview else self._idempotency_key()
        if key is None:
            return operation()
        address, body = self._address, raw_body(self.request)
        with run_once(actor=self.actor, address=address, key=key, body=body, encoder=UtcJsonEncoder) as slot:
            if slot.is_repeat:
                require()
                if repeat_secret is not None:
                    return repeat_secret()
                headers = {"Idempotent-Replayed": "true"} | ({"ETag": slot.etag} if slot.etag else {})
                return Response(slot.stored, headers=headers)
            response = operation()
            slot.answer = None if repeat_secret else response.data
            slot.etag = response.headers.get("ETag")
        return response

    def run_prepared_once(
        self,
        prepare: Callable[[], Prepared],
        operation: Callable[[Prepared], Response],
        *,
        require: Callable[[], object],
    ) -> Response:
        """:meth:`run_once` for an operation whose first part, `prepare`, needs no transaction: it is called before one
        is open, unless an answer is stored already."""
        key = self._idempotency_key()
        if key is None:
            return operation(prepare())
        prepared = None if has_record(actor=self.actor, address=self._address, key=key) else prepare()
        return self.run_once(lambda: operation(prepare() if prepared is None else prepared), require=require)

    @property
    def _address(self) -> str:
        return f"{self.request.method} {self.request.get_full_path()}"

    def _idempotency_key(self) -> str | None:
        key = self.request.headers.get("Idempotency-Key")
        if key is not None and not 1 <= len(key) <= MAX_KEY_LENGTH:
            message = f"An Idempotency-Key has 1 to {MAX_KEY_LENGTH} characters."
            raise BadInput.of([Violation("Idempotency-Key", Fault.BAD_KEY, message)])
        return key


def _refuse_compressed(coding: str) -> None:
    """Refuse a compressed body: unpacked it could exceed every limit, and OSMO's clients never send one."""
    if coding.strip().lower() not in {"", "identity"}:
        message = "A compressed body is not read here: send it as it is, without Content-Encoding."
        raise UnsupportedMedia.of([Violation("Content-Encoding", Fault.BAD_ENCODING, message)])


def _refuse_unstorable(path: dict[str, Any], query: Iterable[tuple[str, list[str]]]) -> None:
    """Refuse NUL characters, which PostgreSQL cannot store, and lone surrogates, which UTF-8 cannot encode."""
    named = [*((name, str(value)) for name, value in path.items()), *((name, v) for name, vs in query for v in vs)]
    found = [
        Violation(name, Fault.BAD_QUERY, f"{name} holds a character that no text here can hold.")
        for name, value in named
        if not is_storable(value) or not is_storable(name)
    ]
    if found:
        raise BadInput.of(found)


def raw_body(request: Request) -> bytes:
    """The bytes of the body, which the parser has kept."""
    body: Any = request._request.body
    return bytes(body)
