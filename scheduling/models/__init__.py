"""The tables of scheduling: workflows with groups and tasks, decisions, clusters, settings."""

from scheduling.models.config import WorkflowConfig
from scheduling.models.decision import Decision
from scheduling.models.dirty import BackendSchedulingState
from scheduling.models.guard import Bypass, QueueGuard, UnmarkedReviews, WebhookInstallation
from scheduling.models.history.forecast import StartForecast
from scheduling.models.history.history_replay import HistoryReplay
from scheduling.models.history.promised_start import PromisedStart
from scheduling.models.history.refused_file import RefusedFile
from scheduling.models.history.shown_effect import ShownEffect
from scheduling.models.history.stuck_group import StuckGroup
from scheduling.models.leases.beat_lease import BeatLease
from scheduling.models.leases.cluster import ClusterState, NodeState
from scheduling.models.leases.gpu_controller import GpuControllerLease
from scheduling.models.leases.queue_sync import QueueDrift, QueueSync
from scheduling.models.observing.observed_work import ObservedWork
from scheduling.models.observing.scheduler_difference import SchedulerDifference
from scheduling.models.receipt import Interruption, Receipt, ReceiptedTask
from scheduling.models.scheduling_cycle import SchedulingCycle
from scheduling.models.start_reservation import StartReservation
from scheduling.models.suspect_node import SuspectNode
from scheduling.models.usage import (
    BackendUsageDay,
    BackendUsageHour,
    LateUsage,
    LeafUsageDay,
    LeafUsageHour,
    NodeSpan,
    OfflineSpan,
    PoolUsageDay,
    PoolUsageHour,
    QuotaSpan,
    UsageProgress,
    WaitCauseChange,
    WaitSpan,
    WorkUsageDay,
    WorkUsageHour,
)
from scheduling.models.work_counters import DecisionCount, JobFailureCount, LostCount, PromiseCount, StartCount
from scheduling.models.workflow import Group, Task, Workflow, WorkflowName
