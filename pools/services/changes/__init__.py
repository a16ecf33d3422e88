"""What all changes share: approval, dry run, repetition, ownership, and the checks of the ledger."""
