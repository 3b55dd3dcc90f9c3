r"""How many tokens a text is, told from its bytes without a tokenizer.

Byte-pair tokenizers cut a text into words, numbers and signs, and these into pieces that are
frequent. So the characters are sorted into a few classes, and characters and pairs of classes are
counted, each with a weight. The weights were fitted to o200k_base, the tokenizer of OpenAI's
current models, on prose in thirty languages, code, JSON, tables, numbers and random text (those of
capitals were then raised by hand, for codes and sequences), none of which is in the corpus that the
tests measure the error on. One pass per feature, all in C.
"""

LARGEST_COUNTED = 2_048
_PIECES = 32
_PIECE = LARGEST_COUNTED // _PIECES
_GOLDEN_RATIO = 0.6180339887498949

# One letter for each class. Continuation bytes are dropped, so a lead byte stands for a character.
_CLASSES = (
    ("_", b" \t\r\n"),
    ("a", bytes(range(ord("a"), ord("z") + 1))),
    ("A", bytes(range(ord("A"), ord("Z") + 1))),
    ("0", b"0123456789"),
    ("l", bytes([*range(0xC3, 0xCB), 0xE1])),  # Latin with accents; Vietnamese
    ("g", b"\xce\xcf"),  # Greek
    ("r", bytes(range(0xD0, 0xD6))),  # Cyrillic, Armenian
    ("w", b"\xd6\xd7"),  # Hebrew
    ("h", bytes(range(0xD8, 0xE0))),  # Arabic
    ("i", b"\xe0"),  # Indic scripts, Thai
    ("k", b"\xe3"),  # kana
    ("z", bytes(range(0xE4, 0xEA))),  # Han
    ("n", bytes(range(0xEA, 0xEE))),  # Hangul
    ("e", bytes(range(0xF0, 0x100))),  # emoji
    ("u", b"\xc2\xcb\xcc\xcd\xe2\xee\xef"),  # signs outside ASCII
)
_CONTINUATIONS = bytes(range(0x80, 0xC0))
_RARE_LETTERS = b"jkqvwxzJQXZ"  # words with many of these are seldom a token of their own

# Weights in hundredths of a token.
_RARE_LETTER = 120
_NEWLINE = 90
_SIGN = 75
_WORD_WEIGHTS = (
    (b"_a", 70),  # the beginning of a word
    (b".a", 20),
    (b"aaaaaa", 13),  # a long word
    (b"aaaaaaaaa", 176),
)
_CAPITAL_WEIGHTS = (
    (b"_A", 85),
    (b"aA", 87),
    (b"AAAA", 60),
    (b"AAAAAAAA", 150),
)
_NUMBER_WEIGHTS = (
    (b"0", 35),
    (b"_0", 161),  # the beginning of a number
    (b".0", 75),
    (b"0a", 153),
    (b"A0", 250),
)
_OTHER_WEIGHTS = (
    (b"la", 69),
    (b"l", 41),
    (b"g", 42),
    (b"r", 31),
    (b"w", 51),
    (b"h", 38),
    (b"i", 41),
    (b"k", 71),
    (b"z", 98),
    (b"n", 78),
    (b"e", 195),
    (b"u", 147),
)


def _table() -> bytes:
    table = bytearray(b"." * 256)
    for name, members in _CLASSES:
        for member in members:
            table[member] = ord(name)
    return bytes(table)


_TABLE = _table()


def text_tokens(text: bytes | bytearray) -> int:
    """Estimate the tokens of a text in UTF-8, rounded up; 0 only for an empty one.

    Of a text longer than `LARGEST_COUNTED` bytes, pieces from all over it stand for the whole.
    """
    size = len(text)
    if not size:
        return 0
    if size > LARGEST_COUNTED:
        # Steps of the golden ratio fill the text evenly, and no period in it falls in with them.
        starts = (int(number * _GOLDEN_RATIO % 1 * (size - _PIECE)) for number in range(_PIECES))
        text = b"".join(text[start : start + _PIECE] for start in starts)
    return max(1, -(-_hundredths(text) * size // (len(text) * 100)))


def _hundredths(text: bytes | bytearray) -> int:
    is_ascii = text.isascii()
    classes = b"_" + text.translate(_TABLE, b"" if is_ascii else _CONTINUATIONS)
    total = _RARE_LETTER * (len(text) - len(text.translate(None, _RARE_LETTERS)))
    total += _NEWLINE * text.count(b"\n") + _SIGN * classes.count(b".")
    total += _weigh(classes, _WORD_WEIGHTS)
    if b"A" in classes:
        total += _weigh(classes, _CAPITAL_WEIGHTS)
    if b"0" in classes:
        total += _weigh(classes, _NUMBER_WEIGHTS)
    return total if is_ascii else total + _weigh(classes, _OTHER_WEIGHTS)


def _weigh(classes: bytes | bytearray, weights: tuple[tuple[bytes, int], ...]) -> int:
    total = 0
    for pattern, weight in weights:
        total += weight * classes.count(pattern)
    return total
