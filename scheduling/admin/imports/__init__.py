"""The page Import: files of other software, the report of what becomes of them, and the usual preview."""
