"""HTML pages: their tags and words, and a check that a browser fetches and runs nothing."""

import re
from html.parser import HTMLParser

ACTIVE = {"script", "iframe", "object", "embed", "form", "base"}  # tags that fetch or run


class Page(HTMLParser):
    """Keeps every tag of a page with its attributes, and the words, also those of pictures."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if tag == "img":
            self.words.append(attributes["alt"] or "")

    def handle_data(self, data: str) -> None:
        if data.strip() and self.tags[-1][0] != "style":
            self.words.append(data.strip())


def check_offline(text: str) -> Page:
    """A browser would fetch nothing for this page and run nothing on it."""
    page = Page(text)
    policies = []
    for tag, attributes in page.tags:
        assert tag not in ACTIVE
        assert attributes.get("src", "data:").startswith("data:"), tag
        assert not {"srcset", "xlink:href"} & set(attributes), tag
        assert not [name for name in attributes if name.startswith("on")], tag
        assert attributes.get("href", "data:,") == "data:,", tag
        if attributes.get("http-equiv") == "Content-Security-Policy":
            policies.append(attributes["content"])
    assert not re.search(r"url\(|@import|https?://", text)
    (policy,) = policies
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")
    return page
