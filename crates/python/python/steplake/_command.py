"""The command ``steplake``."""

from __future__ import annotations

import signal
import sys

from steplake import _package, _steplake


def main() -> None:
    """Run the command line of this process."""
    # The commands handle signals themselves, or leave it to the system.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _package.begin()
    sys.exit(_steplake.command_line(sys.argv))
