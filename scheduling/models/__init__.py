"""The tables of work: workflows, their groups and tasks, and how the house schedules."""

from scheduling.models.config import WorkflowConfig
from scheduling.models.decision import Decision
from scheduling.models.workflow import Group, Task, Workflow, WorkflowName

__all__ = ["Decision", "Group", "Task", "Workflow", "WorkflowConfig", "WorkflowName"]
