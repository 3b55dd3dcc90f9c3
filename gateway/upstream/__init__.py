"""Sending a request on, and header hygiene both ways.

Bytes are not touched: the target is sent as it came, bodies are streamed, encodings are not undone.
"""

from gateway.upstream.client import UpstreamClient, failures, new_transport
from gateway.upstream.headers import HOP_BY_HOP, RawHeaders, end_to_end

__all__ = [
    "HOP_BY_HOP",
    "RawHeaders",
    "UpstreamClient",
    "end_to_end",
    "failures",
    "new_transport",
]
