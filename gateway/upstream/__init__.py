"""Sending a request on, and header hygiene both ways.

Bytes are not touched: the target is sent as it came, bodies are streamed, encodings are not undone.
"""

from gateway.upstream.client import UpstreamClient, failures, new_transport
from gateway.upstream.headers import HOP_BY_HOP, RawHeaders

__all__ = [
    "HOP_BY_HOP",
    "RawHeaders",
    "UpstreamClient",
    "failures",
    "new_transport",
]
