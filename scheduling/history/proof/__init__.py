"""The proof before moving in: a recorded month beside its replay under a configuration that nobody uses yet."""
