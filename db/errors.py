# ruff: noqa: N818 - the names say what happened
"""What can go wrong in Postgres, in words that are safe to show: never a URL, never a password.

DatabaseError
+-- DatabaseUnavailable      cannot be reached, or refuses to serve now
|   +-- NotMigrated          is there, but without the schema that this version needs
+-- MigrationFailed          a migration could not be applied
+-- NotFound                 the organization, agent or key that was named does not exist
+-- Conflict                 it was changed since the version that the caller expected
+-- Refused                  a constraint of the schema refused the values
"""

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg


class DatabaseError(Exception):
    """The database did not do what it was asked."""


class DatabaseUnavailable(DatabaseError):
    """Postgres cannot be reached, or refuses to serve now."""


class NotMigrated(DatabaseUnavailable):
    """The schema is missing or older than this version of Ibex."""

    def __init__(self) -> None:
        super().__init__("the database is not up to date: run `ibex migrate`")


class MigrationFailed(DatabaseError):
    """A migration could not be applied; the message is the migration tool's."""


class NotFound(DatabaseError):
    """What was named does not exist. `what`: organization, agent or key.

    An agent of another organization does not exist either, to the one who asks.
    """

    def __init__(self, what: str, id_: str) -> None:
        super().__init__(f"there is no {what} {id_}")
        self.what = what
        self.id = id_


class Conflict(DatabaseError):
    """It was changed since the version that the caller expected; nothing was changed now."""


class Refused(DatabaseError):
    """A constraint of the schema refused the values. `constraint` names it."""

    def __init__(self, constraint: str) -> None:
        super().__init__(f"the database refused the values: {constraint}")
        self.constraint = constraint


_OUTDATED = (
    asyncpg.InvalidSchemaNameError,
    asyncpg.UndefinedColumnError,
    asyncpg.UndefinedTableError,
)
_UNREACHABLE = (
    OSError,  # refused, no route, unknown host, and TimeoutError
    asyncpg.ClientConfigurationError,
    asyncpg.InternalClientError,  # used in the moment in which the server hung up
    asyncpg.PostgresConnectionError,
)


@contextmanager
def mapped() -> Iterator[None]:
    """Turn the driver's exceptions into this module's. A bug in a query stays what it is."""
    try:
        yield
    except _OUTDATED as error:
        raise NotMigrated from error
    except asyncpg.IntegrityConstraintViolationError as error:
        raise Refused(str(error.constraint_name)) from error
    except _UNREACHABLE as error:
        raise DatabaseUnavailable(_reason(error)) from error
    except asyncpg.InterfaceError as error:
        if isinstance(error, ValueError):  # an argument of the wrong type
            raise
        raise DatabaseUnavailable(_reason(error)) from error  # closed under us
    except asyncpg.PostgresError as error:
        if _refuses_to_serve(error):
            raise DatabaseUnavailable(_reason(error)) from error
        raise


def _refuses_to_serve(error: asyncpg.PostgresError) -> bool:
    """Tell by SQLSTATE: login, no such database, read-only, out of resources, shutting down."""
    return str(error.sqlstate).startswith(("28", "3D", "25006", "53", "57"))


def _reason(error: BaseException) -> str:
    """Say what happened on one line. The driver's messages name host and user, no password."""
    text = str(error).strip() or type(error).__name__
    return f"Postgres is not available: {text.splitlines()[0]}"
