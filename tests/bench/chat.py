"""The chat request of the benchmark and its answer: 700 bytes of JSON, or a stream of events."""

from enum import StrEnum

import msgspec

ANSWER_BYTES = 700
EVENTS = 50
PAUSE_S = 0.01
USAGE = {"prompt_tokens": 38, "completion_tokens": 112, "total_tokens": 150}
COMMON = {"id": "chatcmpl-benchmark", "created": 1_700_000_000, "model": "gpt-4o-mini"}


class Kind(StrEnum):
    """How the upstream answers; also the model that is asked for."""

    CHAT = "chat"
    """In one piece."""
    EVENTS = "events"
    """`EVENTS` events, `PAUSE_S` apart, the last one with the usage."""
    HELD = "held"
    """An event each second, for minutes."""


def _answer() -> str:
    message = {"role": "assistant", "content": ""}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    body = {**COMMON, "object": "chat.completion", "choices": choices, "usage": USAGE}
    message["content"] = "x" * (ANSWER_BYTES - len(msgspec.json.encode(body)))
    return msgspec.json.encode(body).decode()


def _event(**fields: object) -> str:
    body = {**COMMON, "object": "chat.completion.chunk", **fields}
    return f"data: {msgspec.json.encode(body).decode()}"


ANSWER = _answer()
EVENT = _event(choices=[{"index": 0, "delta": {"content": "a few words"}, "finish_reason": None}])
LAST_EVENT = _event(choices=[], usage=USAGE)


class Sender(msgspec.Struct, frozen=True):
    """Who sends a request. The host `tight` stands for a limit of one request a minute."""

    key: str
    is_tight: bool = False

    @property
    def host(self) -> str:
        return "tight" if self.is_tight else "plenty"


class Form(msgspec.Struct, frozen=True):
    """What a participant wants requests to look like."""

    prefixes: dict[Kind, str]
    """What stands before the path of the provider's API."""
    headers: dict[Kind, dict[str, str]] = {}
    models: dict[Kind, str] = {}

    def pieces(self, kind: Kind) -> tuple[str, str, str]:
        """The request on the wire; host and key belong between the pieces."""
        body = _question(self.models.get(kind, "gpt-4o-mini"), is_stream=kind is not Kind.CHAT)
        extra = "".join(
            f"{name}: {value}\r\n" for name, value in self.headers.get(kind, {}).items()
        )
        rest = (
            "\r\nAccept: application/json\r\n"
            "Accept-Encoding: identity\r\n"
            "User-Agent: benchmark\r\n"
            "Content-Type: application/json\r\n"
            f"{extra}Content-Length: {len(body)}\r\n\r\n{body}"
        )
        path = f"{self.prefixes[kind]}/v1/chat/completions"
        return f"POST {path} HTTP/1.1\r\nHost: ", "\r\nAuthorization: Bearer ", rest

    def request(self, kind: Kind, sender: Sender) -> bytes:
        """The request of that sender, as it goes over the wire."""
        begin, middle, end = self.pieces(kind)
        return f"{begin}{sender.host}{middle}{sender.key}{end}".encode()


def _question(model: str, *, is_stream: bool) -> str:
    system = {"role": "system", "content": "You answer in two sentences."}
    user = {"role": "user", "content": "Which of these invoices are overdue, and by how much?"}
    question = {"model": model, "max_tokens": 200, "messages": [system, user]}
    if is_stream:
        question |= {"stream": True, "stream_options": {"include_usage": True}}
    return msgspec.json.encode(question).decode()
