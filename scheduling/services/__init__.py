"""The changes of work and of the scheduler, and what runs in the background."""
