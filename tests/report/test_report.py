"""Documents and plots."""

from html.parser import HTMLParser

import pytest

from tailwise.report import (
    Bullets,
    Document,
    Heading,
    Image,
    Paragraph,
    Table,
)

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # uint64, interpreted


class Balanced(HTMLParser):
    """Fails on tags that are not closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.text = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def parsed(page):
    parser = Balanced()
    parser.feed(page)
    assert not parser.open
    return " ".join(parser.text)


def test_one_document_in_two_forms():
    document = Document(
        "Costs < rewards",
        [
            Heading("Part & parcel"),
            Paragraph("A **bold** `x < y` word."),
            Bullets(("one", "two")),
            Table(("name", "value"), (("a<b", "1.5"),)),
            Image("f/p.png", "A picture"),
        ],
    )
    text = document.markdown()
    assert text.startswith("# Costs < rewards\n\n## Part & parcel\n")
    assert "| name | value |\n| :-- | --: |\n| a<b | 1.5 |" in text
    page = document.html()
    assert "<strong>bold</strong> <code>x &lt; y</code>" in page
    assert "<script" not in page
    assert "http:" not in page
    assert "https:" not in page
    assert "a<b" in parsed(page)
