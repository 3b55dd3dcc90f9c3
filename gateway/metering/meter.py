"""What a request will cost, read from its body before it is sent.

The prompt is estimated; the output is what the client allows at most, or a default to hold if it
names no maximum. Streams of OpenAI's chat and legacy completions report no usage unless they are
asked to, so the question is added where the client did not ask it.
"""

import re
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import msgspec

from gateway.metering.estimate import is_token_ids, prompt_tokens
from gateway.metering.figures import figure

_LARGEST_STATED = 2**31
_CUT_OFF = re.compile(r"[;?#\s\x00][^/]*")


class UnreadableBody(ValueError):  # noqa: N818 - named for what is wrong, as the client is told it
    """The body of a metered request is not a JSON object; the message is for the client."""


class Prepared(msgspec.Struct, frozen=True, gc=False):
    """A request that is ready to be admitted and sent. Figures are tokens."""

    body: bytes
    """What to send upstream; the client's own object if nothing was injected."""
    hard_tokens: int
    """The prompt estimate and the maximum output that the client stated (0 if it stated none)."""
    soft_tokens: int
    """The default output, if the client stated no maximum and the endpoint has an output."""
    prompt_tokens: int
    """The prompt estimate alone."""
    injected: bool
    """Whether `stream_options.include_usage` was added here."""
    generates: bool
    """Whether the endpoint has an output at all (embeddings have none)."""
    dialect: str
    """The dialect of the answer: some upstreams offer both on their own paths."""


class _Request(msgspec.Struct):
    """The members of a request that have a say in its cost. Clients may put anything there."""

    stream: Any = None
    stream_options: Any = None
    messages: Any = None
    prompt: Any = None
    input: Any = None
    system: Any = None
    instructions: Any = None
    tools: msgspec.Raw = msgspec.Raw()
    functions: msgspec.Raw = msgspec.Raw()
    n: Any = None
    best_of: Any = None
    max_tokens: Any = None
    max_completion_tokens: Any = None
    max_output_tokens: Any = None


_request = msgspec.json.Decoder(_Request)
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Meter(msgspec.Struct, frozen=True, gc=False):
    """How one kind of endpoint is metered."""

    dialect: str
    maximums: tuple[str, ...] = ()
    """The members that bound the output; none where there is no output."""
    injects: bool = False

    def prepare(self, body: bytes, default_output_tokens: int, *, inject: bool = True) -> Prepared:
        """Read a request's cost. `inject=False` sends the body as it is, whatever it is.

        Raises UnreadableBody if the body is not a JSON object in UTF-8.
        """
        try:
            return self._prepare(body, default_output_tokens, inject=inject)
        except RecursionError:
            raise UnreadableBody("The request body is nested too deeply.") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UnreadableBody(f"The request body is not a JSON object: {error}") from error

    def _prepare(self, body: bytes, default_output_tokens: int, *, inject: bool) -> Prepared:
        body.decode()  # the decoder skips unknown members without looking at their encoding
        request = _request.decode(body)
        prompt = prompt_tokens(
            (request.messages, request.prompt, request.input, request.system, request.instructions),
            verbatim=bytes(request.tools) + bytes(request.functions),
        )
        stated, held = self._output(request, default_output_tokens)
        asks = inject and self.injects and _lacks_usage(request)
        return Prepared(
            body=_asking_for_usage(body) if asks else body,
            hard_tokens=prompt + stated,
            soft_tokens=held,
            prompt_tokens=prompt,
            injected=asks,
            generates=bool(self.maximums),
            dialect=self.dialect,
        )

    def _output(self, request: _Request, default_output_tokens: int) -> tuple[int, int]:
        """Return the output that the client stated, and the one to hold if it stated none."""
        if not self.maximums:
            return 0, 0
        answers = _answers(request)
        named = (getattr(request, name) for name in self.maximums)
        stated = [found for value in named if (found := figure(value, _LARGEST_STATED)) is not None]
        if stated:
            return min(max(stated) * answers, _LARGEST_STATED), 0
        return 0, min(default_output_tokens * answers, _LARGEST_STATED)


def _answers(request: _Request) -> int:
    """How many outputs are made: the choices asked for, for each prompt of a list."""
    choices = max(figure(value, _LARGEST_STATED) or 1 for value in (request.n, request.best_of))
    prompt = request.prompt
    prompts = len(prompt) if isinstance(prompt, list) and not is_token_ids(prompt) else 1
    return choices * max(1, prompts)


def _lacks_usage(request: _Request) -> bool:
    """Whether this is a stream that would not report usage.

    Options of a wrong type are left alone: refusing them is the provider's business.
    """
    if request.stream is not True:
        return False
    options = request.stream_options
    if not isinstance(options, dict):
        return options is None
    asked = options.get("include_usage")
    return asked is None or asked is False


def _asking_for_usage(body: bytes) -> bytes:
    """Set `stream_options.include_usage`; every other value keeps its bytes."""
    members = _members.decode(body)
    raw = members.get("stream_options")
    options = _members.decode(raw) if raw is not None and bytes(raw) != b"null" else {}
    options["include_usage"] = msgspec.Raw(b"true")
    members["stream_options"] = msgspec.Raw(msgspec.json.encode(options))
    return msgspec.json.encode(members)


_CHAT = Meter("openai", ("max_completion_tokens", "max_tokens"), injects=True)
_COMPLETIONS = Meter("openai", ("max_tokens",), injects=True)
_RESPONSES = Meter("openai", ("max_output_tokens",))
_EMBEDDINGS = Meter("openai")
_MESSAGES = Meter("anthropic", ("max_tokens",))

# By the last segments of the path. Both families of upstreams also offer the other's main
# endpoint; `/v1/messages` in full, because OpenAI's threads end in `/messages` too.
_ROUTES: dict[str, dict[tuple[str, ...], Meter]] = {
    "openai": {
        ("chat", "completions"): _CHAT,
        ("completions",): _COMPLETIONS,
        ("responses",): _RESPONSES,
        ("embeddings",): _EMBEDDINGS,
        ("v1", "messages"): _MESSAGES,
    },
    "anthropic": {
        ("messages",): _MESSAGES,
        ("chat", "completions"): _CHAT,
    },
}


def meter_for(dialect: str, path: str, method: str) -> Meter | None:
    """Return the meter of a route; None for one whose request the gateway need not read.

    `path` is the raw one behind the upstream's name, without the query. Spellings that an upstream
    may take for the same route (escapes, case, repeated or trailing slashes, parameters behind a
    semicolon, blanks, what servers cut off) are metered alike.
    """
    return _meter_of_route(dialect, path) if method == "POST" else None


@lru_cache(maxsize=256)  # a path is as long as a head at most, so this stays small
def _meter_of_route(dialect: str, path: str) -> Meter | None:
    plain = _CUT_OFF.sub("", unquote(path)).casefold()
    segments = [part for part in plain.split("/") if part not in ("", ".")]
    routes = _ROUTES[dialect]
    return routes.get(tuple(segments[-2:])) or routes.get(tuple(segments[-1:]))
