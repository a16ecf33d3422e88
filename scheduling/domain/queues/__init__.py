"""KAI queues as the ledger wants them: what should be there, what differs, and in which order to write it."""
