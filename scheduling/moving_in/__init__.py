"""`osmo-admin import`: the configuration of other schedulers as objects of our own files, with a report of every key.

`result` has the shared type of an answer, one module reads each format, and `importing` chooses it. Nothing here needs
Django or a database.
"""
