"""The records of the facts, which change while a cycle runs: queues, nodes, gangs, with undo for every change."""
