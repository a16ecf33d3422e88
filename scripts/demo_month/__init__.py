"""The maker of the month of the demo: what people submit, and what the engine makes of it. No installation runs it."""
