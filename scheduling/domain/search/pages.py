"""What a search leads to besides objects: pages, and what a person may begin, with the other words for them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class SearchAction(StrEnum):
    """What a person may begin from the search, in the words of its page."""

    SUBMIT = "Submit a workflow"
    CREATE_POOL = "Create a pool"
    IMPORT_QUOTAS = "Import quotas of subpools"
    CREATE_COHORT = "Create a cohort"
    LIMIT_NAMESPACE = "Limit a namespace (GPU quota)"
    CREATE_USER = "Create a user"
    CREATE_TOKEN = "Create an access token"  # noqa: S105  # the title of a page
    CREATE_CLUSTER = "Create a simulated cluster"
    CONNECT_CLUSTER = "Connect a Kubernetes cluster"
    IMPORT = "Import from another scheduler"
    LOG_OUT = "Log out"


class SearchPage(StrEnum):
    """The pages, by their headings."""

    POOLS = "Pools"
    QUOTA_TREE = "Quota tree"
    GPU_QUOTA = "GPU quota"
    WORKFLOWS = "Workflows"
    QUEUE = "Queue"
    NODES = "Nodes"
    USAGE = "Usage"
    REPLAY = "Replay"
    EVENTS = "Scheduler events"
    APPROVALS = "Approvals"
    AUDIT = "Audit log"
    VIEWS = "Saved views"
    INBOX = "Inbox"
    NOTICES = "Notices"
    TOKENS = "Access tokens"
    USERS = "Users"
    CLUSTERS = "Clusters"
    SYNC = "Cluster sync"
    WEBHOOKS = "Admission webhooks"
    SETTINGS = "Settings"
    JOBS = "Background jobs"
    API = "API reference"


OF_THE_PLATFORM = frozenset(
    {SearchPage.USERS, SearchPage.CLUSTERS, SearchPage.SYNC, SearchPage.WEBHOOKS, SearchPage.SETTINGS, SearchPage.JOBS}
)
"""Pages of those who may read the platform."""

OTHER_WORDS: Mapping[SearchAction | SearchPage, str] = {
    SearchAction.SUBMIT: "run start launch job workload",
    SearchAction.CREATE_POOL: "new add team",
    SearchAction.IMPORT_QUOTAS: "resize several change csv upload",
    SearchAction.CREATE_COHORT: "new add group borrow lend",
    SearchAction.LIMIT_NAMESPACE: "tflops cap",
    SearchAction.CREATE_USER: "new add person account invite",
    SearchAction.CREATE_TOKEN: "new add api key",
    SearchAction.CREATE_CLUSTER: "new add backend",
    SearchAction.CONNECT_CLUSTER: "new add backend kai",
    SearchAction.IMPORT: "slurm kueue kai run:ai runai migrate upload files moving",
    SearchAction.LOG_OUT: "logout sign out signout exit leave",
    SearchPage.POOLS: "resize subpool temporary quota until borrow lend share drain delete team help",
    SearchPage.QUOTA_TREE: "cohort borrow lend hierarchy",
    SearchPage.GPU_QUOTA: "tflops memory namespace limit",
    SearchPage.WORKFLOWS: "jobs cancel stop kill restart output logs mine help",
    SearchPage.QUEUE: "waiting pending why next position forecast start",
    SearchPage.NODES: "machines hosts gpus heat map free idle",
    SearchPage.USAGE: "gpu-hours report month chargeback cost bill csv idle waste",
    SearchPage.REPLAY: "what if simulate history trace",
    SearchPage.EVENTS: "preempted preemption reclaimed evicted moved started why",
    SearchPage.APPROVALS: "approve reject request second person",
    SearchPage.AUDIT: "changes changed who history revert undo activity",
    SearchPage.VIEWS: "filters bookmarks",
    SearchPage.INBOX: "news unread notifications alerts messages bell",
    SearchPage.NOTICES: "mail email slack webhook alerts notifications",
    SearchPage.TOKENS: "api keys",
    SearchPage.USERS: "people accounts password permissions rights admin",
    SearchPage.CLUSTERS: "backends kubernetes offline",
    SearchPage.SYNC: "kai queues drift",
    SearchPage.WEBHOOKS: "guard kubernetes bypass",
    SearchPage.SETTINGS: "retries drain monitor",
    SearchPage.API: "help documentation docs rest",
    SearchPage.JOBS: "celery tasks periodic",
}
"""Words under which people look for them."""
