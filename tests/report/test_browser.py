"""The browser that tests use sees what a page shows, and what goes wrong on it."""

import time

import pytest

PAGE = """<!DOCTYPE html><html><head><meta charset="utf-8"><title>Try</title>
<style>body{margin:0;background:#fff}@media(prefers-color-scheme:dark){body{background:#000}}
div{width:500px}</style></head><body><div>text</div><button onclick="document.title='pressed'">Press</button>
SCRIPT</body></html>"""


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "page.html"
    path.write_text(PAGE.replace("SCRIPT", ""), encoding="utf-8")
    return path


def test_schemes_sizes_and_keys(browser, page, tmp_path):
    colour = "return getComputedStyle(document.body).backgroundColor"
    browser.open(page)
    assert browser.run(colour) == "rgb(255, 255, 255)"
    assert browser.overflow() == 0
    browser.open(page, width=400, dark=True)
    assert browser.run(colour) == "rgb(0, 0, 0)"
    assert browser.overflow() == 100
    browser.press("TAB", "ENTER")
    assert browser.wait("return document.title === 'pressed'")
    assert browser.errors() == []
    browser.screenshot(tmp_path / "seen.png")
    assert (tmp_path / "seen.png").read_bytes().startswith(b"\x89PNG")


def test_errors_of_a_page_are_seen(browser, page):
    page.write_text(PAGE.replace("SCRIPT", "<script>nonsense()</script>"), encoding="utf-8")
    browser.open(page)
    said: list[str] = []
    for _ in range(100):  # the console's log may come late
        said += browser.errors()
        if said:
            break
        time.sleep(0.1)
    assert "nonsense is not defined" in "".join(said)


def test_texts_that_clash_or_are_cut_are_seen(browser, page):
    chart = (
        '<svg class="main-svg" width="100" height="40"><text x="5" y="20">one</text><text x="12" y="22">two</text>'
        '<text x="90" y="35">beyond</text></svg><p style="width:20px;overflow:hidden;white-space:nowrap">much text</p>'
    )
    page.write_text(PAGE.replace("SCRIPT", chart), encoding="utf-8")
    browser.open(page)
    assert browser.clashes() == ["over: two | one", "beyond: beyond", "cut: much text"]
