"""The quota advisor: which quotas and lending limits would have cost the least waiting in a window of history.

Pure functions on the inputs of a replay. Nothing is applied; docs/advisor.md describes the method and its bounds.
"""
