"""The tables of work: workflows, their groups and tasks, and how the house schedules."""

from scheduling.models.config import WorkflowConfig
from scheduling.models.workflow import Group, Task, Workflow, WorkflowName

__all__ = ["Group", "Task", "Workflow", "WorkflowConfig", "WorkflowName"]
