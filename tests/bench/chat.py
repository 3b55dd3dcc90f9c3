"""The one chat request of the benchmark and its answer, 700 bytes of JSON."""

import msgspec

PATH = "/v1/chat/completions"
ANSWER_BYTES = 700


def _answer() -> bytes:
    usage = {"prompt_tokens": 38, "completion_tokens": 112, "total_tokens": 150}
    message = {"role": "assistant", "content": ""}
    body = {
        "id": "chatcmpl-benchmark",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "gpt-4o-mini",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": usage,
    }
    message["content"] = "x" * (ANSWER_BYTES - len(msgspec.json.encode(body)))
    return msgspec.json.encode(body)


ANSWER = _answer()
QUESTION = msgspec.json.encode(
    {
        "model": "gpt-4o-mini",
        "max_tokens": 200,
        "messages": [
            {"role": "system", "content": "You answer in two sentences."},
            {"role": "user", "content": "Which of these invoices are overdue, and by how much?"},
        ],
    }
)


def request(path: str, key: str) -> bytes:
    """The request as an agent with that key puts it on the wire."""
    head = (
        f"POST {path} HTTP/1.1\r\n"
        "Host: 127.0.0.1\r\n"
        f"Authorization: Bearer {key}\r\n"
        "Accept: application/json\r\n"
        "Accept-Encoding: gzip, deflate\r\n"
        "User-Agent: ibex-benchmark\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(QUESTION)}\r\n"
        "\r\n"
    )
    return head.encode() + QUESTION
