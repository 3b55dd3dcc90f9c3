"""Becomes a command that must not outlive the process which started it.

Run as a file, with nothing but the standard library:

    python -I -S tether.py PARENT SIGNAL ACCOUNT COMMAND...

PARENT is the pid of the starter, SIGNAL the number of the signal that COMMAND gets when PARENT
dies, even by SIGKILL (Linux only: elsewhere the starter finds what it left behind by its lock, see
`gateway.children`). ACCOUNT is `UID:GID` to give up root for, or `-`.

A file of its own, not a `preexec_fn`: code between fork and exec can deadlock, and Python itself is
often out of reach of the account that COMMAND shall run as.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(parent: str, signal_number: str, account: str, *command: str) -> None:
    if account != "-":
        uid, gid = map(int, account.split(":"))
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    # After the change of account, which would clear it.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal_number))
    if os.getppid() != int(parent):
        sys.exit("the process that asked for this command is gone")
    # The starter holds them back until it knows our pid.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execv(command[0], command)  # noqa: S606 - the starter gives the whole path


if __name__ == "__main__":
    main(*sys.argv[1:])
