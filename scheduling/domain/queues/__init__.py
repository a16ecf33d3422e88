"""KAI queues as the ledger requires them: the desired queues, the differences, and the order of the writes."""
