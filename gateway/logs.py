"""Log lines: one JSON object each, or coloured text for a person. Never a body, never a key.

No line is written with a key in mind, but an exception may quote what it stumbled over.
"""

import logging
import re
import sys
from collections.abc import Iterable

import structlog

from gateway.redact import SHORTEST_SECRET
from gateway.settings import Settings

_IBEX_KEY = "ibex_(?:agt|adm|ro|plt)_[0-9A-Za-z]{8,}"


def configure(settings: Settings) -> None:
    """Set up structlog, and send what libraries log the same way (from warnings up)."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: list[structlog.typing.Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if settings.log_format == "json"
        else [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(),
                exception_formatter=structlog.dev.plain_traceback,  # others print locals: keys
            )
        ]
    )
    renderer.append(covering(upstream.key for upstream in settings.upstreams.values()))
    structlog.configure(
        processors=[*shared, *renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(level, logging.WARNING), force=True)
    # Its pool tells every attempt to reconnect, with a traceback: an outage is told once, by us.
    logging.getLogger("asyncpg.pool").setLevel(logging.ERROR)


def secrets_pattern(keys: Iterable[str | None]) -> re.Pattern[str]:
    """Finds these keys, and every Ibex key."""
    secrets = [re.escape(key) for key in keys if key and len(key) >= SHORTEST_SECRET]
    return re.compile("|".join([*secrets, _IBEX_KEY]))


def covering(keys: Iterable[str | None]) -> structlog.typing.Processor:
    """What covers these keys, and every Ibex key, in a line that is ready to be written."""
    pattern = secrets_pattern(keys)

    def covered(_logger: object, _method: str, line: structlog.typing.EventDict) -> str:
        return pattern.sub("***", str(line))

    return covered
