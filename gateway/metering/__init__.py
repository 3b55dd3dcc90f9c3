"""What a request will cost, and what an answer did cost. Pure: no I/O, no clock.

    meter = meter_for(dialect, path, method)
    prepared = meter.prepare(body, default_output_tokens) if meter else None
    observer = observe(dialect, prepared, status, content_type, content_encoding)
    for each chunk: send(observer.feed(chunk)); at the end: send(observer.finish())
    on every exit: observer.tokens()

The client's bytes are never changed, with one exception: where `stream_options.include_usage`
was added to a request, what the upstream adds to the stream for it is taken out again.
"""

from gateway.metering.encodings import narrowed
from gateway.metering.figures import Usage
from gateway.metering.meter import Meter, Prepared, UnreadableBody, meter_for
from gateway.metering.observer import Observer, observe

__all__ = [
    "Meter",
    "Observer",
    "Prepared",
    "UnreadableBody",
    "Usage",
    "meter_for",
    "narrowed",
    "observe",
]
