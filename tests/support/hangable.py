"""A process of the installation that can be made to hang: `python -m tests.support.hangable MODULE ARGUMENTS`.

SIGUSR2 stops its main thread for ever, and no other. The limits of its signs of life are seconds instead of minutes.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import time

STUCK_SECONDS = 3.0
RENEW_SECONDS = 0.3


def main() -> None:
    """Run the module as if `python -m MODULE` had started it."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "osmo_admin.settings")
    from osmo_admin.monitoring import liveness

    liveness.STUCK_SECONDS, liveness.RENEW_SECONDS = STUCK_SECONDS, RENEW_SECONDS
    signal.signal(signal.SIGUSR2, lambda *_: time.sleep(3600))
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
