"""A real headless Chromium for tests: pages as people see them, with what the browser has to say about them."""

import shutil
from pathlib import Path

import pytest

_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars"),
    "--force-color-profile=srgb",
)


class Browser:
    """One browser with one page at a time; ``driver`` is selenium's, for all that is not here."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, page, *, width=1000, height=800, dark=False):
        """Open a file or an address in a window of so many CSS pixels, in the light or the dark scheme."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.driver.get_log("browser")  # what the page before said
        self.driver.get(Path(page).resolve().as_uri() if isinstance(page, Path) else page)

    def run(self, script, *arguments):
        """Run JavaScript with ``arguments`` and return what it returns."""
        return self.driver.execute_script(script, *arguments)

    def find(self, selector):
        """Return the first element of a CSS selector; an error where there is none."""
        return self.driver.find_element("css selector", selector)

    def find_all(self, selector):
        """Return every element of a CSS selector."""
        return self.driver.find_elements("css selector", selector)

    def press(self, *keys):
        """Press keys, as names of selenium's ``Keys`` ("TAB", "ENTER") or characters, where the focus is."""
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.keys import Keys

        for key in keys:
            ActionChains(self.driver).send_keys(getattr(Keys, key) if len(key) > 1 else key).perform()

    def wait(self, script, *arguments, seconds=60.0):
        """Wait until JavaScript returns something true, and return that; what it asks for may not be there yet."""
        from selenium.common.exceptions import JavascriptException
        from selenium.webdriver.support.wait import WebDriverWait

        waiting = WebDriverWait(self.driver, seconds, poll_frequency=0.05, ignored_exceptions=[JavascriptException])
        return waiting.until(lambda driver: driver.execute_script(script, *arguments), f"never true: {script}")

    def errors(self):
        """Return what the console said since the page was opened, but for mere information."""
        said = self.driver.get_log("browser")
        return [entry["message"] for entry in said if entry["level"] in ("SEVERE", "WARNING")]

    def overflow(self):
        """Return by how many pixels the page is wider than the window."""
        return self.run("return document.documentElement.scrollWidth - window.innerWidth")

    def clashes(self):
        """Return the texts of charts that lie over one another or beyond their chart, and those that a box cuts off."""
        return self.run(_CLASHES)

    def screenshot(self, path, *, whole=True):
        """Write a PNG of the whole page, or of what is in the window."""
        import base64

        found = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": whole, **(
            {"clip": {**self.run(_SIZE), "x": 0, "y": 0, "scale": 1}} if whole else {}
        )})  # fmt: skip
        Path(path).write_bytes(base64.b64decode(found["data"]))


_CLASHES = """
const found = [], opaque = {checkOpacity: true, checkVisibilityCSS: true};
const shown = e => e.checkVisibility(opaque) && e.textContent.trim();
for (const svg of document.querySelectorAll('svg.main-svg, div.chart svg')) {
  const frame = svg.getBoundingClientRect(), texts = [...svg.querySelectorAll('text')].filter(shown);
  const boxes = texts.map(e => e.getBoundingClientRect());
  boxes.forEach((b, i) => {
    const aside = b.left < frame.left - 2 || b.right > frame.right + 2;
    if (b.width && (aside || b.top < frame.top - 2 || b.bottom > frame.bottom + 2))
      found.push('beyond: ' + texts[i].textContent);
    for (let j = 0; j < i; j++) {
      const c = boxes[j], wide = Math.min(b.right, c.right) - Math.max(b.left, c.left);
      const high = Math.min(b.bottom, c.bottom) - Math.max(b.top, c.top);
      if (wide > 2 && high > 3) found.push('over: ' + texts[i].textContent + ' | ' + texts[j].textContent);
    }
  });
}
for (const e of document.querySelectorAll('body *')) {
  const style = getComputedStyle(e), cut = style.overflowX === 'hidden' || style.overflowX === 'clip';
  if (cut && !e.closest('svg') && shown(e) && e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 1)
    found.push('cut: ' + e.textContent.slice(0, 60));
}
return found;
"""
_SIZE = "const d = document.documentElement; return {width: d.clientWidth, height: d.scrollHeight}"


def start(profile):
    """Start Chromium with an empty profile in ``profile``, or skip the test and say what is missing."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: no test in a browser")
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        missing = "chromium" if browser is None else "chromedriver"
        pytest.skip(f"no {missing} here: no test in a browser (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
