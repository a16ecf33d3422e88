"""The tables of work: workflows, their groups and tasks, and how the house schedules."""

from scheduling.models.cluster import ClusterState, MachineState
from scheduling.models.config import WorkflowConfig
from scheduling.models.decision import Decision
from scheduling.models.dirty import BackendMove, BackendRest
from scheduling.models.gpu_controller import GpuKeeping
from scheduling.models.guard import Bypass, QueueGuard
from scheduling.models.queue_sync import QueueDrift, QueueSync
from scheduling.models.workflow import Group, Task, Workflow, WorkflowName

__all__ = [
    "BackendMove",
    "BackendRest",
    "Bypass",
    "ClusterState",
    "Decision",
    "GpuKeeping",
    "Group",
    "MachineState",
    "QueueDrift",
    "QueueGuard",
    "QueueSync",
    "Task",
    "Workflow",
    "WorkflowConfig",
    "WorkflowName",
]
