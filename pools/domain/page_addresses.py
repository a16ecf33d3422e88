"""The addresses of pages: what a person types, and where those of former versions lead. Standard library only.

`/pools/NAME` is an object, `/pools/NAME/archive` a page about it. Words of ours that stand where a name could are
behind `/-/`, as in `/pools/-/create`: no name begins with a hyphen, so each name has its page. A slash at the end is
optional; only addresses of former versions, which all end with one, differ by it: `/pools/node/` leads to the nodes,
and `/pools/node` is the pool of that name.
"""

from __future__ import annotations

from typing import Final

PREVIEW_SEGMENT: Final = "/-/preview"
"""The end of the address of a preview, below the address of its form."""


def is_preview_address(path: str) -> bool:
    """Whether this is the address of a preview, whose GET makes a dry run."""
    return path.endswith(PREVIEW_SEGMENT)


SIGN_ON_PREFIX: Final = "/sign-on/"
"""The beginning of the addresses of sign-ons."""


def is_sign_on_address(path: str) -> bool:
    """Whether an identity provider sends browsers back to this address: a GET that makes accounts and sessions."""
    return path.startswith(SIGN_ON_PREFIX) and path.endswith("/callback/")


_SECTIONS: Final = frozenset({
    "pools", "cohorts", "gpu-quotas", "nodes", "clusters", "workflows", "submit", "queue", "usage", "replay",
    "activity", "users", "jobs", "settings", "import", "tokens", "inbox", "notices", "views", "search"
})  # fmt: skip
"""The first words of addresses of pages. Those of logins keep their slash: identity providers know them."""


def without_last_slash(path: str) -> str:
    """The address of the same page without the slash at its end."""
    is_section = path.endswith("/") and path.split("/")[1] in _SECTIONS
    return path.rstrip("/") if is_section and current_address(path) is None else path


_LISTS: Final = {
    "pools/pool": "/pools",
    "pools/cohort": "/cohorts",
    "pools/gpuquota": "/gpu-quotas",
    "pools/node": "/nodes",
    "pools/backend": "/clusters",
    "pools/user": "/users",
    "pools/accesstoken": "/tokens",
    "pools/noticetarget": "/notices",
    "pools/savedview": "/views",
    "pools/auditentry": "/activity/audit",
    "pools/approvalrequest": "/activity/approvals",
    "scheduling/decision": "/activity",
    "scheduling/workflow": "/workflows",
    "scheduling/usageprogress": "/usage",
    "scheduling/historyreplay": "/replay",
    "scheduling/workflowconfig": "/settings",
    "scheduling/queuesync": "/clusters/-/sync",
    "scheduling/queueguard": "/clusters/-/webhooks",
    "django_celery_beat/periodictask": "/jobs",
}
_OF_CLUSTER: Final = {"scheduling/queuesync": "sync", "scheduling/queueguard": "webhooks"}
_WITHOUT_OBJECTS: Final = frozenset({
    "pools/node", "pools/accesstoken", "pools/noticetarget", "pools/savedview",
    "scheduling/decision", "scheduling/usageprogress", "scheduling/workflowconfig", "django_celery_beat/periodictask"
})  # fmt: skip
"""Lists whose rows had addresses that led to the list."""


def current_address(path: str) -> str | None:
    """Where the page of an address of a former version is now; None for all other addresses. It depends on the words
    alone, so it tells nobody which objects exist."""
    if not path.endswith("/"):
        return None
    _, *parts = path[:-1].split("/")
    former = "/".join(parts[:2])
    if former not in _LISTS:
        return "/" if path in {"/scheduling/", "/django_celery_beat/"} else None
    return _below(former, parts[2:])


def _below(former: str, rest: list[str]) -> str:
    """The address of what was at `rest` below a list."""
    here = _LISTS[former]
    match former, rest:
        case _, []:
            return here
        case _, [name, "change"]:
            if former in _WITHOUT_OBJECTS:
                return here
            return f"/clusters/{name}/{_OF_CLUSTER[former]}" if former in _OF_CLUSTER else f"{here}/{name}"
        case "scheduling/workflow", ["submit"]:
            return "/submit"
        case "scheduling/workflow", ["queue", *pool]:
            return "/".join(["/queue", *pool])
        case "pools/node", ["on", backend, name]:
            return f"{here}/{backend}/{name}"
        case "pools/cohort", ["node", "cohort", name]:
            return f"{here}/{name}"
        case "pools/cohort", ["node", "pool", name]:
            return f"/pools/{name}/quota"
        case ("pools/noticetarget", ["replay", _]) | ("pools/savedview", _):
            return "/".join([here, "-", *rest])
        case _, [*form, "preview"] if form[1:] not in (["release"], ["unlink"]):
            return f"{_below(former, form)}{PREVIEW_SEGMENT}"
        case _, [word]:
            return f"{here}/-/{word}"
        case _:
            return "/".join([here, *rest])
