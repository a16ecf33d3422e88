"""The configuration as files: pools with their subpools, cohorts, backends, roles, GPU quotas and scheduler settings.

`bodies` has the one form of each object, `files` reads and `texts` writes them, `schema` describes them, `comparison`
finds the differences between files and installation. Nothing here reads or writes the database.
"""
