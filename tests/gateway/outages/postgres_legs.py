"""What can happen to Postgres. Everything is as before when the ledger has copied everything."""

import time
from contextlib import ExitStack

from outage_leg import Leg
from outage_rig import Rig
from servers import fetch, run_apart

from db.migrate import migrate, rollback


def copied(rig: Rig, mended: float) -> bool:
    """Whether everything is in the ledger that was counted when Postgres was back."""
    began = time.monotonic()
    found = rig.readyz()
    return found["status"] == "ok" and began - found["ledger"]["lag_s"] > mended


def freeze(rig: Rig) -> None:
    rig.frozen = ExitStack()
    rig.frozen.enter_context(rig.postgres.frozen())


def crash(rig: Rig) -> None:
    """It ends at once, and recovers at its start."""
    rig.postgres.kill()
    rig.postgres.start()


def refuse_writes(rig: Rig) -> None:
    """As a standby, or a managed server whose disk is full."""
    _execute(rig, "ALTER SYSTEM SET default_transaction_read_only = on")
    _execute(rig, "SELECT pg_reload_conf()")


def take_writes(rig: Rig) -> None:
    _execute(rig, "ALTER SYSTEM RESET default_transaction_read_only")
    _execute(rig, "SELECT pg_reload_conf()")


def _execute(rig: Rig, sql: str) -> None:
    run_apart(lambda: fetch(rig.postgres.url, sql))


LEGS = [
    Leg(
        "Postgres refused",
        lambda rig: rig.postgres.stop(),
        lambda rig: rig.postgres.start(),
        recovered=copied,
        opens=False,
    ),
    Leg("Postgres frozen", freeze, lambda rig: rig.frozen.close(), recovered=copied, opens=False),
    Leg("Postgres killed and restarted", crash, recovered=copied, opens=False),
    Leg("Postgres read-only", refuse_writes, take_writes, recovered=copied, opens=False),
    Leg(
        "Postgres migrated back and forth",
        lambda rig: run_apart(lambda: rollback(rig.postgres.url)),
        lambda rig: run_apart(lambda: migrate(rig.postgres.url)),
        recovered=copied,
        opens=False,
    ),
]
