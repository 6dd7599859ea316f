"""A real browser with strict pages: a console message, an error, a violation of the content security policy, or a
request to any host but the server fails the test that caused it."""

import atexit
import functools
import os
import pathlib
import shutil

import pytest
from playwright.sync_api import sync_playwright

ARTEFACTS = pathlib.Path(
    os.environ.get("PAGODA_ARTEFACTS", pathlib.Path(__file__).resolve().parents[3] / "build/browser")
)
SIZES = {"desk": {"width": 1280, "height": 800}, "phone": {"width": 390, "height": 800}}
VIOLATIONS = """addEventListener('securitypolicyviolation', (event) =>
    console.error('policy violated: ' + event.violatedDirective + ' ' + event.blockedURI));"""


def chromium():
    for name in ("chromium-headless-shell", "chromium"):
        if path := shutil.which(name):
            return path
    pytest.skip("no Chromium here (apt-get install chromium-headless-shell): the page is not tested in a browser")


@functools.cache
def launched():
    path = chromium()
    playwright = sync_playwright().start()
    atexit.register(playwright.stop)
    return playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])


@pytest.fixture(scope="session")
def browser():
    return launched()


class Watched:
    """Opens pages in separate contexts, and records errors that must not occur."""

    def __init__(self, browser):
        self.browser, self.contexts, self.complaints, self.allowed = browser, [], [], ()

    def open(self, url, wait="#prompt", **how):
        context = self.browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **how})
        context.set_default_timeout(15_000)
        context.add_init_script(VIOLATIONS)
        self.contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: self.complaints.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on(
            "request",
            lambda request: (
                request.url.startswith((url.split("#")[0], "blob:", "data:"))
                or self.complaints.append(f"request: {request.url}")
            ),
        )
        page.goto(url)
        if wait:
            page.wait_for_selector(wait)
        return page

    def allow(self, *texts):
        self.allowed += texts

    def check(self):
        bad = [line for line in self.complaints if not any(text in line for text in self.allowed)]
        assert not bad, "\n".join(bad)


@pytest.fixture
def watched(browser):
    made = Watched(browser)
    yield made
    for context in made.contexts:
        context.close()
    made.check()


def keep(page, name):
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=ARTEFACTS / f"{name}.png")


def click_seen(page, target):
    """Clicks in the middle of a visible element. `target` is a locator, or a text or label on the screen. Fails if the
    middle lies outside the window or is covered by another element."""
    if isinstance(target, str):
        target = (
            page.get_by_text(target, exact=True)
            .or_(page.get_by_label(target, exact=True))
            .locator("visible=true")
            .first
        )
    target.wait_for()
    # A pending frame may still move the element.
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    box = target.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    size = page.viewport_size
    assert 0 <= x < size["width"] and 0 <= y < size["height"], f"{target} lies outside the window: {box}"
    top = target.evaluate(
        """(node, [x, y]) => {
      const top = document.elementFromPoint(x, y);
      return node.contains(top) || top?.contains(node) ? '' : top?.outerHTML.slice(0, 200) ?? 'nothing';
    }""",
        [x, y],
    )
    assert not top, f"{target} is covered by {top}"
    page.mouse.click(x, y)


def send(page, text):
    page.fill("#prompt", text)
    page.press("#prompt", "Enter")


def wait_done(page, count=1):
    """Waits until `count` answers have ended."""
    page.wait_for_function(
        "(count) => document.querySelectorAll('.message.assistant[aria-busy=false]').length >= count "
        "&& document.querySelector('#send').textContent === 'Send'",
        arg=count,
        timeout=60_000,
    )
