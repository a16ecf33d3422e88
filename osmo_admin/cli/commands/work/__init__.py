"""Commands of workflows, tasks, nodes and usage."""
