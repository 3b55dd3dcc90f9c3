"""The tokens of a text, estimated: against a real tokenizer's counts of texts of many kinds.

`corpus/` holds texts that the estimate was not fitted to, and their tokens in o200k_base.
"""

import json
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest
from answers import PROMPT, SSE, cut, prepared, sse
from hypothesis import given
from hypothesis import strategies as st
from missing import missing

from gateway.metering import observe
from gateway.metering.tokens import LARGEST_COUNTED, text_tokens

CORPUS = Path(__file__).parent / "corpus"
TEXTS = {path.stem: path.read_text("utf-8") for path in sorted(CORPUS.glob("*.txt"))}
COUNTS: dict[str, int] = json.loads((CORPUS / "counts.json").read_text())
TOKENIZER = "gpt-tokenizer@4.0.0"
MEDIAN_ERROR = 0.10
LEAST = 0.5
MOST = 1.5


def off(ratios: list[float]) -> float:
    return median(abs(ratio - 1) for ratio in ratios)


def test_the_median_error_on_the_corpus_is_below_a_tenth() -> None:
    """Prose in twelve languages, code, data and short questions, each against its true count."""
    ratios = [text_tokens(text.encode()) / COUNTS[name] for name, text in TEXTS.items()]

    assert off(ratios) < MEDIAN_ERROR


@pytest.mark.parametrize("name", TEXTS)
def test_no_text_is_taken_for_half_or_twice_of_what_it_is(name: str) -> None:
    """The worst text of the corpus is within bounds too."""
    assert LEAST < text_tokens(TEXTS[name].encode()) / COUNTS[name] < MOST


@pytest.fixture(scope="module")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tokenizer that nobody here wrote."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        missing("Node is not here, which the tokenizer runs on")
    folder = tmp_path_factory.mktemp("tokenizer")
    command = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", TOKENIZER]
    if subprocess.run(command, cwd=folder, capture_output=True, timeout=120).returncode:
        missing("npm cannot fetch the tokenizer")
    return folder / "node_modules"


def test_the_counts_of_the_corpus_are_the_tokenizers(node_modules: Path) -> None:
    """The recorded numbers are true: a real tokenizer counts again."""
    command = ["node", str(Path(__file__).with_name("count_tokens.cjs")), str(node_modules)]
    counted = subprocess.run(
        command, input=json.dumps(TEXTS).encode(), capture_output=True, check=True, timeout=60
    )

    assert json.loads(counted.stdout) == COUNTS


def test_a_long_text_is_estimated_from_pieces_of_it() -> None:
    """Far beyond what is counted in full, the whole corpus in one is close to its true count."""
    text = "\n".join(TEXTS.values()).encode()

    assert len(text) > 5 * LARGEST_COUNTED
    assert text_tokens(text) == pytest.approx(sum(COUNTS.values()), rel=0.15)
    assert text_tokens(text * 40) == pytest.approx(40 * sum(COUNTS.values()), rel=0.25)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("size", [1, 4, 12])
def test_a_stream_that_its_client_leaves_is_estimated_as_well(name: str, size: int) -> None:
    """Whether a delta has one token or several, the output is within the same bounds."""
    text = TEXTS[name]
    deltas = _tokenlike(text, COUNTS[name], size)
    body = sse(*({"choices": [{"delta": {"content": delta}}]} for delta in deltas))
    observer = observe("openai", prepared(), 200, SSE, "")
    observer.feed(body)

    usage = observer.tokens()
    assert usage.estimated
    assert LEAST < (usage.tokens - PROMPT) / COUNTS[name] < MOST


@pytest.mark.parametrize("size", [1, 4, 12])
def test_the_median_error_of_abandoned_streams_is_below_a_tenth(size: int) -> None:
    """Over the corpus, with one token to a delta and with several."""
    ratios = []
    for name, text in TEXTS.items():
        observer = observe("openai", prepared(), 200, SSE, "")
        for delta in _tokenlike(text, COUNTS[name], size):
            observer.feed(sse({"choices": [{"delta": {"content": delta}}]}))
        ratios.append((observer.tokens().tokens - PROMPT) / COUNTS[name])

    assert off(ratios) < MEDIAN_ERROR


def _tokenlike(text: str, tokens: int, size: int) -> list[str]:
    """Cut a text into as many equal deltas as a model would send, `size` tokens to each."""
    deltas = max(1, -(-tokens // size))
    step = len(text) / deltas
    edges = [round(step * number) for number in range(deltas + 1)]
    return [text[a:b] for a, b in pairwise(edges)]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        (" ", 1),
        ("\n", 1),
        ("Hello", 1),
        ("I am", 2),
        ("a b c d", 3),
        ("\x00", 1),
    ],
)
def test_a_short_text_has_few_tokens_and_an_empty_one_none(text: str, tokens: int) -> None:
    """What is there costs something."""
    assert text_tokens(text.encode()) == tokens


@given(st.binary(max_size=3 * LARGEST_COUNTED))
def test_any_bytes_have_a_count_within_reason(text: bytes) -> None:
    """Broken UTF-8 too, a byte is never more than a few tokens, and nothing raises."""
    assert bool(text) <= text_tokens(text) <= 1 + 3 * len(text)


@given(st.text(max_size=200), st.lists(st.integers(0, 1_000), max_size=4))
def test_a_text_and_its_parts_cost_about_the_same(text: str, at: list[int]) -> None:
    """Cutting moves a count by a few tokens for each cut."""
    parts = [part for part in cut(text.encode(), at) if part]

    whole = text_tokens(text.encode())
    assert abs(sum(map(text_tokens, parts)) - whole) <= 4 * len(parts)
