"""The changes of work and of the scheduler (see :mod:`pools.domain.changes`)."""
