"""Commands that compute on the person's machine: simulation, replay and import."""
