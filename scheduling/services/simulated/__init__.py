"""The simulated backend: dirty tracking, the reconcile loop, and the execution of the engine's plan."""
