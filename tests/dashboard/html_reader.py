"""A page as a reader of HTML finds it: its elements, and the text of each."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

_SPACE = re.compile(r"[ \t\n\r\f]+")
_VOID = {"br", "hr", "img", "input", "link", "meta"}
_INLINE = {"a", "b", "code", "em", "span", "strong", "time"}
_UNSEEN = {"script", "style", "title"}


def _line(pieces: list[str]) -> str:
    """One line, in which only HTML's own white space is one space."""
    return _SPACE.sub(" ", "".join(pieces)).strip(" ")


@dataclass
class Element:
    """An element, and the text in it, in which white space is one space."""

    tag: str
    attributes: dict[str, str]
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return _line(self.pieces)

    def has_class(self, name: str) -> bool:
        return name in self.attributes.get("class", "").split()


class Page(HTMLParser):
    """All elements of a page in their order. Fails on an element that is not closed."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self.seen: list[str] = []
        self._open: list[Element] = []
        self.feed(html)
        self.close()
        assert not self._open, [each.tag for each in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        assert len(element.attributes) == len(attrs), f"an attribute twice: {attrs}"
        self.elements.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        element = self._open.pop()
        assert element.tag == tag, f"</{tag}> closes <{element.tag}>"
        if tag not in _INLINE:
            self.handle_data(" ")

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.pieces.append(data)
        if not {element.tag for element in self._open} & _UNSEEN:
            self.seen.append(data)

    @property
    def text(self) -> str:
        """What can be read on the page."""
        return _line(self.seen)

    def all(self, tag: str, name: str = "", **attributes: str) -> list[Element]:
        """The elements of that tag, class and attributes (`data_figure`: `data-figure`)."""
        wanted = {key.replace("_", "-"): value for key, value in attributes.items()}
        return [
            each
            for each in self.elements
            if each.tag == tag
            and (not name or each.has_class(name))
            and all(each.attributes.get(key) == value for key, value in wanted.items())
        ]

    def one(self, tag: str, name: str = "", **attributes: str) -> Element:
        """The only one of them."""
        (found,) = self.all(tag, name, **attributes)
        return found

    @property
    def heading(self) -> str:
        """The page's h1."""
        return self.one("h1").text
