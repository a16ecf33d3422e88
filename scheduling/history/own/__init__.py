"""The history of this installation: what is read of it, its replays, and the advice that they give."""
