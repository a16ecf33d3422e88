"""The REST views of the ledger: parse, call a service or a selector, render."""
