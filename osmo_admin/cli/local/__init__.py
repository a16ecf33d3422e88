"""Commands that compute on the person's machine: simulation and replay."""
