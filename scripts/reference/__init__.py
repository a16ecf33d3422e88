"""The makers of the documents of `make reference`, and of deploy/osmo-admin.env."""
