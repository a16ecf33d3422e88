"""A process of the installation that can be made to hang: `python -m tests.support.hangable MODULE ARGUMENTS`.

SIGUSR2 stops its main thread for ever, and no other. Its signs of life have limits of seconds instead of minutes, and
the lease of a beat is short.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import time
from datetime import timedelta

STUCK_SECONDS = 3.0
RENEW_SECONDS = 0.3
LEASE_SECONDS = 4.0


def main() -> None:
    """Run the module as if `python -m MODULE` had started it."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "osmo_admin.settings")
    from osmo_admin.monitoring import liveness

    liveness.STUCK_SECONDS, liveness.RENEW_SECONDS = STUCK_SECONDS, RENEW_SECONDS
    signal.signal(signal.SIGUSR2, lambda *_: time.sleep(3600))
    del sys.argv[0]
    if "beat" in sys.argv:
        _shorten_lease()
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


def _shorten_lease() -> None:
    from osmo_admin.processes.django_setup import set_up_django

    set_up_django()
    from osmo_admin.processes import beat
    from scheduling.services.kubernetes.leases import LeaseTiming

    beat.LEASE_TIMING = LeaseTiming(timedelta(seconds=LEASE_SECONDS), renew_after=1.0, safe_for=2.5)
    beat.RETRY_SECONDS = 0.3


if __name__ == "__main__":
    main()
