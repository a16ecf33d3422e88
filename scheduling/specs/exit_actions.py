"""`exitActions`: which exit codes complete, fail or reschedule a task."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce
from operator import or_

from pools.domain.errors import Fault
from pools.domain.exit_codes import EXIT_ACTIONS, EXIT_CODES_RULE, ExitCodes, parse_exit_codes
from pools.domain.structured_input.faults import Faults, quote
from scheduling.specs.yaml_cursor import YamlCursor


def read_exit_actions(place: YamlCursor | None, pool: Mapping[str, str], faults: Faults) -> dict[str, ExitCodes]:
    """The task's own actions, then the pool's for codes that the task leaves open. The first action that names a code
    has it.

    The author of the file cannot correct the pool's actions: unreadable ones are left out with a warning.
    """
    codes: dict[str, int] = {}
    used = 0
    for name, entry in (place.map_entries("action: exit codes") if place is not None else {}).items():
        action = name.upper()
        if action not in EXIT_ACTIONS:
            entry.add_fault(
                Fault.UNKNOWN_KEY,
                f"{quote(name)} is not an exit action.{entry.faults.suggestion(name, EXIT_ACTIONS)} "
                f"Allowed are {', '.join(EXIT_ACTIONS)}.",
            )
            continue
        text = None if entry.is_absent else entry.text()
        ranges = parse_exit_codes(text) if text is not None else ()
        if ranges is None:
            entry.add_fault(
                Fault.BAD_EXIT_CODES, f"The exit codes cannot be read; allowed are {EXIT_CODES_RULE}. Change them."
            )
        elif action in codes:
            entry.add_fault(
                Fault.DUPLICATE_KEY, f"The action {action} is given twice. Write all its codes in one line."
            )
        else:
            codes[action] = _mask(ranges) & ~used
            used |= codes[action]
    for name, text in pool.items():
        ranges = parse_exit_codes(str(text))
        if name.upper() not in EXIT_ACTIONS or ranges is None:
            faults.add_warning(f"The pool's default exit action {quote(name)} cannot be read and is left out.")
        else:
            free = _mask(ranges) & ~used
            codes[name.upper()] = codes.get(name.upper(), 0) | free
            used |= free
    return {action: _ranges(mask) for action, mask in codes.items() if mask}


def _mask(ranges: ExitCodes) -> int:
    """The codes as bits."""
    return reduce(or_, (((1 << (high - low + 1)) - 1) << low for low, high in ranges), 0)


def _ranges(mask: int) -> ExitCodes:
    return tuple((run.start(), run.end() - 1) for run in re.finditer("1+", f"{mask:b}"[::-1]))
