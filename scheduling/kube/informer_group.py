"""The informers of one cluster, which start, pause and list together."""

from __future__ import annotations

import threading
from typing import Any

from scheduling.kube.connection.error_messages import error_message
from scheduling.kube.informer import Informer


class InformerGroup:
    """Informers of one cluster. An error of one that is not `needed` is no fault of the cluster."""

    def __init__(self, *needed: Informer[Any], others: tuple[Informer[Any], ...] = ()) -> None:
        self._needed, self._all = needed, (*needed, *others)

    @property
    def error_message(self) -> str:
        """The first error of a needed informer, with the kind of its objects; empty when all of them work."""
        failed = next((informer for informer in self._needed if informer.error is not None), None)
        return "" if failed is None or failed.error is None else f"{failed.kind}: {error_message(failed.error)}"

    def relist(self) -> None:
        """List everything now, as far as the cluster permits."""
        for informer in self._all:
            informer.relist()

    def retry_now(self) -> None:
        """The cluster answers again: end all pauses after failures."""
        for informer in self._all:
            informer.retry_now()

    def start(self, stop: threading.Event, name: str) -> None:
        """Run each informer in a daemon thread, which ends with its current call after `stop` is set."""
        for informer in self._all:
            title = f"{name}-{informer.kind.plural}"
            threading.Thread(target=informer.run, args=[stop], name=title, daemon=True).start()
