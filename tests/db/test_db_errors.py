import asyncio

import asyncpg
import pytest

from db.errors import DatabaseError, DatabaseUnavailable, NotMigrated, Refused, mapped


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (ConnectionRefusedError("refused"), DatabaseUnavailable),
        (TimeoutError(), DatabaseUnavailable),
        (asyncpg.ConnectionDoesNotExistError("gone"), DatabaseUnavailable),
        (asyncpg.InterfaceError("connection is closed"), DatabaseUnavailable),
        (asyncpg.InternalClientError("another operation in progress"), DatabaseUnavailable),
        (asyncpg.AdminShutdownError("shutting down"), DatabaseUnavailable),
        (asyncpg.CannotConnectNowError("starting up"), DatabaseUnavailable),
        (asyncpg.TooManyConnectionsError("too many"), DatabaseUnavailable),
        (asyncpg.InvalidPasswordError("no"), DatabaseUnavailable),
        (asyncpg.InvalidCatalogNameError("no such database"), DatabaseUnavailable),
        (asyncpg.ReadOnlySQLTransactionError("read-only"), DatabaseUnavailable),
        (asyncpg.UndefinedTableError("no table"), NotMigrated),
        (asyncpg.UndefinedColumnError("no column"), NotMigrated),
        (asyncpg.CheckViolationError("no"), Refused),
    ],
)
def test_driver_errors_become_ours(raised: Exception, expected: type[DatabaseError]) -> None:
    """What the driver raises is told apart by who can mend it, and keeps its cause."""
    with pytest.raises(DatabaseError) as error, mapped():
        raise raised

    assert type(error.value) is expected
    assert error.value.__cause__ is raised


@pytest.mark.parametrize(
    "raised",
    [
        asyncpg.PostgresSyntaxError("bug"),
        asyncpg.exceptions._base.DataError("an argument of the wrong type"),
        asyncio.CancelledError(),
        ValueError("somebody else's"),
    ],
)
def test_bugs_and_cancellation_stay_what_they_are(raised: BaseException) -> None:
    """A wrong query is not an outage, and a cancelled task stays cancelled."""
    with pytest.raises(type(raised)) as error, mapped():
        raise raised

    assert error.value is raised
