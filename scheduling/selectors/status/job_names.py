"""The background jobs: their names, and what each is for."""

from __future__ import annotations

RECONCILE = "Reconcile simulated backends"
SYNC_QUEUES = "Sync the queues of clusters"
DRAIN_MONITOR = "Archive drained subpools"
END_TEMPORARY_QUOTAS = "End temporary quotas"
EXPIRE_APPROVALS = "Expire requests for approval"
FORGET_KEYS = "Forget old idempotency keys"
FORGET_DECISIONS = "Forget old decisions"
EXPIRE_RESERVATIONS = "Expire GPU quota reservations"
SAMPLE_GPU_USAGE = "Sample GPU quota usage"
FIND_SILENT = "Find silent clusters"
FIND_COHORT_CYCLES = "Find cohorts whose parents form a cycle"
NOTE_WAIT_CAUSES = "Record why work waits"
CLOSE_USAGE_HOURS = "Close the hours of the record of use"
FORGET_USAGE = "Forget the old record of use"
FORGET_AUDIT = "Forget old audit entries"
FORECAST_STARTS = "Forecast when waiting work starts"
CHECK_SIGN_ONS = "Ask the identity providers about sign-ons"
SEND_NOTICES = "Send notices"
FIND_CONDITIONS = "Find what notices tell"
FORGET_NOTICES = "Forget old notices"
RESUME_REPLAYS = "Resume replays of history"
PURPOSES = {
    RECONCILE: "Starts, moves and ends the work of simulated clusters",
    SYNC_QUEUES: "Compares the queues of each Kubernetes cluster with the quotas, and writes them",
    DRAIN_MONITOR: "Archives deleted subpools whose work has ended",
    END_TEMPORARY_QUOTAS: "Gives a subpool its lasting quota again when a temporary one ends",
    EXPIRE_APPROVALS: "Closes requests that nobody decided in time",
    FORGET_KEYS: "Deletes the answers that are kept for repeated requests",
    FORGET_DECISIONS: "Deletes scheduler events that are older than their retention",
    EXPIRE_RESERVATIONS: "Frees GPU quota that was reserved for a worker that did not come",
    SAMPLE_GPU_USAGE: "Records the use of each GPU quota, for its charts",
    FIND_SILENT: "Marks clusters offline that no longer report",
    FIND_COHORT_CYCLES: "Finds parents that form a cycle, below which no work starts",
    NOTE_WAIT_CAUSES: "Records the cause of each wait, for the page Usage",
    CLOSE_USAGE_HOURS: "Sums up each hour that is over, for the page Usage",
    FORGET_USAGE: "Deletes the record of use that is older than its retention",
    FORGET_AUDIT: "Deletes audit entries that are older than their retention",
    FORECAST_STARTS: "Estimates when waiting work starts",
    CHECK_SIGN_ONS: "Ends the sessions of people whom an identity provider no longer knows",
    SEND_NOTICES: "Sends what waits to be sent, and tries again what failed",
    FIND_CONDITIONS: "Finds what people asked to be told, such as long waits",
    FORGET_NOTICES: "Deletes notices that are older than their retention",
    RESUME_REPLAYS: "Continues replays that a restart interrupted",
}
"""What each job is for, in words of the pages."""
