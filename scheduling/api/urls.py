"""Addresses of the scheduling API. Those with one first word are together, because Django compares one by one."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

from scheduling.api import gpu_quotas, jobs, own_replay, simulation, usage, workflow_config
from scheduling.api.cluster import (
    differences,
    drains,
    losses,
    nodes,
    overview,
    podgroups,
    pool_lists,
    promises,
    queue_sync,
    reconcile,
    resources,
)
from scheduling.api.work import (
    comparison,
    outcomes,
    pending_queue,
    receipts,
    scheduler_events,
    search,
    submissions,
    tasks,
    workflow_texts,
    workflows,
)

pool_urls = [
    path("<str:pool>/workflow", submissions.WorkflowSubmission.as_view()),
    path("<str:pool>/workflows", submissions.WorkflowBatchSubmission.as_view()),
    path("<str:pool>/workflow/<str:workflow>/restart", submissions.WorkflowRestart.as_view()),
]
workflow_urls = [
    path("<str:name>", workflows.WorkflowDetail.as_view()),
    path("<str:name>/spec", workflow_texts.WorkflowSpecText.as_view()),
    path("<str:name>/logs", workflow_texts.WorkflowLog.as_view()),
    path("<str:name>/error_logs", workflow_texts.WorkflowErrorLog.as_view()),
    path("<str:name>/events", workflow_texts.WorkflowEventLog.as_view()),
    path("<str:name>/receipts", receipts.WorkflowReceiptList.as_view()),
    path("<str:name>/compare/<str:other>", comparison.WorkflowComparison.as_view()),
    path("<str:name>/cancel", workflows.WorkflowCancel.as_view()),
    path("<str:name>/end", workflows.WorkflowEnd.as_view()),
    path("<str:name>/tag", workflows.WorkflowTags.as_view()),
]
replay_urls = [
    path("<uuid:replay>", own_replay.OwnReplay.as_view()),
    path("<uuid:replay>/cancel", own_replay.OwnReplayCancel.as_view()),
]
podgroup_urls = [
    path("validate", podgroups.PodGroupValidation.as_view()),
    path("plan", podgroups.PodGroupPlan.as_view()),
]
backend_urls = [
    path("<str:backend>/nodes", nodes.NodeMapDetail.as_view()),
    path("<str:backend>/nodes/<str:node>/drain", nodes.NodeDrain.as_view()),
    path("<str:backend>/nodes/<str:node>/restore", nodes.NodeRestore.as_view()),
    path("<str:backend>/nodes/<str:node>/clear", nodes.NodeClearance.as_view()),
    path("<str:backend>/losses", losses.SingleLossList.as_view()),
    path("<str:backend>/differences", differences.DifferenceList.as_view()),
    path("<str:backend>/promises", promises.ClusterPromisesDetail.as_view()),
    path("<str:backend>/settle", reconcile.ReconcileRequest.as_view()),
    path("<str:backend>/sync", queue_sync.QueueSyncStatus.as_view()),
    path("<str:backend>/test", queue_sync.ConnectionTestRequest.as_view()),
]
urlpatterns: list[URLPattern | URLResolver] = [
    path("gpu_quota/rebuild", gpu_quotas.GpuRebuild.as_view()),
    path("pool_quota", pool_lists.PoolQuota.as_view()),
    path("resources", resources.ResourceList.as_view()),
    path("resources/<str:name>", resources.ResourceDetail.as_view()),
    path("configs/workflow", workflow_config.WorkflowConfigView.as_view()),
    path("pool/", include(pool_urls)),
    path("workflow", workflows.WorkflowList.as_view()),
    path("workflow/", include(workflow_urls)),
    path("tag", workflows.TagList.as_view()),
    path("task", tasks.TaskList.as_view()),
    path("outcomes", outcomes.OutcomeList.as_view()),
    path("scheduler_events", scheduler_events.SchedulerEvents.as_view()),
    path("jobs", jobs.JobList.as_view()),
    path("drains", drains.DrainList.as_view()),
    path("overview", overview.OverviewDetail.as_view()),
    path("search", search.Search.as_view()),
    path("usage", usage.Usage.as_view()),
    path("usage/trace", usage.UsageTrace.as_view()),
    path("queue", pending_queue.PendingQueueList.as_view()),
    path("replay", own_replay.OwnReplays.as_view()),
    path("replay/", include(replay_urls)),
    path("simulate", simulation.Simulation.as_view()),
    path("podgroup/", include(podgroup_urls)),
    path("backend/", include(backend_urls)),
]
