"""What can go wrong between Ibex and Redis, told apart by what is to be done about it.

LimiterError
+-- LimiterUnavailableError  an outage: waited out, and requests are forwarded open meanwhile
+-- LimiterBrokenError       a script or a key is wrong: an operator must look
"""

from collections.abc import Iterator
from contextlib import contextmanager

from redis import exceptions as redis_errors


class LimiterError(Exception):
    """No answer from the limiter."""


class LimiterUnavailableError(LimiterError):
    """Redis cannot be asked now, or cannot write. `may_have_run`: the answer got lost, so nobody
    knows whether the script ran; False: it surely did not.
    """

    def __init__(self, message: str, *, may_have_run: bool) -> None:
        super().__init__(message)
        self.may_have_run = may_have_run


class LimiterBrokenError(LimiterError):
    """Redis answered that the script or its data is wrong."""


# The driver takes these for failures of the connection, but they are answers: nothing ran.
_REFUSALS = (redis_errors.AuthenticationError, redis_errors.BusyLoadingError)
# What the driver has no class for. A script's own write that the server refuses arrives wrapped in
# the script's error (Redis 6.2), so the code is looked for anywhere in the text.
_OUTAGES = (
    redis_errors.ClusterDownError,
    redis_errors.MasterDownError,
    redis_errors.NoPermissionError,
    redis_errors.OutOfMemoryError,
    redis_errors.ReadOnlyError,
)
_OUTAGE_CODES = (
    "BUSY ",
    "MISCONF",
    "NOREPLICAS",
    "OOM ",
    "READONLY",
    "UNKILLABLE",
    "max number of clients",
)


@contextmanager
def limiter_errors(*, may_have_run: bool) -> Iterator[None]:
    """Turn a driver's error into one of ours, its text kept. NOSCRIPT is the caller's to answer."""
    try:
        yield
    except redis_errors.NoScriptError:
        raise
    except redis_errors.ResponseError as error:
        text = f"{type(error).__name__}: {error}"
        if isinstance(error, _OUTAGES) or any(code in text for code in _OUTAGE_CODES):
            raise LimiterUnavailableError(text, may_have_run=False) from error
        raise LimiterBrokenError(text) from error
    except (redis_errors.RedisError, OSError) as error:
        text = f"{type(error).__name__}: {error}"
        may_have_run = may_have_run and not isinstance(error, _REFUSALS)
        raise LimiterUnavailableError(text, may_have_run=may_have_run) from error
