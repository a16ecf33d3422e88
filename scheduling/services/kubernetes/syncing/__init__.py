"""The queues of a cluster follow the ledger."""
