"""The ledger: pools and cohorts, their quotas, the reservations of work, and the permissions of users."""
