"""HTML pages: their tags and words, and a check that a browser fetches and runs nothing."""

import re
from html.parser import HTMLParser


class Page(HTMLParser):
    """Keeps every tag of a page with its attributes, and the words."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        if data.strip() and self.tags[-1][0] != "style":
            self.words.append(data.strip())


def check_offline(text):
    """A browser would fetch nothing for this page and run nothing on it."""
    page = Page(text)
    assert not {"script", "img", "iframe", "object", "embed", "form", "base"} & {
        tag for tag, _ in page.tags
    }
    for tag, attributes in page.tags:
        assert not [
            name
            for name in attributes
            if name.startswith("on") or name in ("src", "srcset", "xlink:href")
        ]
        assert attributes.get("href", "data:,") == "data:,", tag
    assert not re.search(r"url\(|@import|https?://", text)
    (policy,) = (
        a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")
    return page
