"""The two commands: `osmo` for users (without Django), `osmo-admin` for the operator."""
