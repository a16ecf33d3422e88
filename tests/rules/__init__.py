"""Each rule of the designs, where it is in the code, and the test that fails without it."""
