"""HTML pages: their tags and words, a check that a browser fetches and runs nothing, and the
contrast of text in charts."""

import re
from collections.abc import Mapping
from html.parser import HTMLParser
from importlib.resources import files
from xml.etree import ElementTree

import numpy as np

ACTIVE = {"script", "img", "iframe", "object", "embed", "form", "base"}  # tags that fetch or run


class Page(HTMLParser):
    """Keeps every tag of a page with its attributes, and the words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if data.strip() and self.tags[-1][0] != "style":
            self.words.append(data.strip())


def check_offline(text: str) -> Page:
    """A browser would fetch nothing for this page and run nothing on it."""
    page = Page(text)
    policies = []
    for tag, attributes in page.tags:
        assert tag not in ACTIVE
        assert not {"src", "srcset", "xlink:href"} & set(attributes), tag
        assert not [name for name in attributes if name.startswith("on")], tag
        assert attributes.get("href", "data:,") == "data:,", tag
        if attributes.get("http-equiv") == "Content-Security-Policy":
            policies.append(attributes["content"])
    assert not re.search(r"url\(|@import|https?://", text)
    (policy,) = policies
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")
    return page


# -- contrast --------------------------------------------------------------------------------------

Scheme = Mapping[str, np.ndarray]  # name of a colour -> its red, green and blue, 0 to 1


def schemes() -> list[Scheme]:
    """The colours of a page, light and dark."""
    template = (files("mednli_jax.report") / "report.html.j2").read_text("utf-8")
    light, dark = re.findall(r":root \{(.*?)\}", template, re.S)
    return [_colours(light), _colours(dark)]


def _colours(rule: str) -> Scheme:
    colours = {}
    for name, digits in re.findall(r"--(\w+): #(\w+);", rule):
        full = digits if len(digits) == 6 else "".join(digit * 2 for digit in digits)
        colours[name] = np.frombuffer(bytes.fromhex(full), np.uint8) / 255
    return colours


def least_contrast(svg: str, scheme: Scheme) -> float:
    """The lowest contrast of a chart's text with the shapes and the page behind it (WCAG 2.2)."""
    shapes = []
    contrasts = []
    elements = list(ElementTree.fromstring(svg).iter())
    for element in elements:
        style = element.get("style", "")
        colour = re.search(r"fill: var\(--(\w+)\)", style)
        if element.tag == "path" and colour:
            places = np.array(re.findall(r"-?[\d.]+", element.get("d", "")), float).reshape(-1, 2)
            alpha = re.search(r"opacity: ([\d.]+)", style)
            opacity = float(alpha[1]) if alpha else 1.0
            shapes.append((places.min(axis=0), places.max(axis=0), scheme[colour[1]], opacity))
    for element in elements:
        if element.tag == "text":
            colour = re.search(r"fill: var\(--(\w+)\)", element.get("style", ""))
            ink = scheme[colour[1] if colour else "ink"]
            behind = scheme["page"]
            place = _place(element)
            for low, high, shade, opacity in shapes:
                if (low <= place).all() and (place <= high).all():
                    behind = opacity * shade + (1 - opacity) * behind
            contrasts.append(_contrast(ink, behind))
    return min(contrasts)


def _place(text: ElementTree.Element) -> np.ndarray:
    """The x and y of a text: those of its attributes, or of its translation."""
    if text.get("x") is not None:
        return np.array([text.get("x"), text.get("y")], float)
    return np.array(re.findall(r"-?[\d.]+", text.get("transform", ""))[:2], float)


def _contrast(first: np.ndarray, second: np.ndarray) -> float:
    dark, light = sorted((_luminance(first), _luminance(second)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: np.ndarray) -> float:
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))
