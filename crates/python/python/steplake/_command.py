"""The command ``steplake``."""

from __future__ import annotations

import signal
import sys

from steplake import _package, _steplake


def main() -> None:
    """Run the command line of this process."""
    # The commands handle signals themselves, or leave it to the system. Python leaves a signal
    # ignored that the process was started to ignore, as shells do for what runs in the background.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    _package.begin(is_command=True)
    sys.exit(_steplake.command_line(sys.argv))
