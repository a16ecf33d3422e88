"""The work of an observed cluster, from the objects of its own scheduler."""
