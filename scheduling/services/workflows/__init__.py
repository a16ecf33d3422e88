"""The life of a workflow: submission, transitions, attempts of its tasks, and what users do to it."""
