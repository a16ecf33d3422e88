"""Templates of workflow files are rendered here, in a sandbox."""
