"""The two commands: `osmo` for everybody (no Django inside), `osmo-admin` for the operator."""
