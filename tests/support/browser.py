"""Chromium under Playwright, with two rules: no error in the console, and no request that leaves this host."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.support.optional_tools import find_chromium
from tests.support.services import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Locator, Page

ARTIFACTS = ROOT / "artifacts"
PATIENCE = 30_000  # milliseconds; a page is slow on a busy machine
PHONE: Any = {"width": 390, "height": 844}
LOCAL = {"127.0.0.1", "localhost", "[::1]", "::1", ""}
# The last three are parts of a window that nobody sees: each new window loads them as pages, which takes as long as two
# pages of ours.
UNUSED = (
    "OptimizationHints", "MediaRouter", "Translate", "AutofillServerCommunication",
    "PreloadTopChromeWebUI", "WebUIOmniboxPopup", "WebUIOmniboxAimPopup",
)  # fmt: skip
# Chromium sends requests for updates, suggestions and safe browsing; a test machine may have no internet access.
QUIET = [
    "--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-sync",
    "--disable-domain-reliability", "--disable-client-side-phishing-detection", "--no-first-run", "--no-pings",
    "--disable-dev-shm-usage", "--disable-gpu", f"--disable-features={','.join(UNUSED)}",
]  # fmt: skip

_END_TRANSITIONS = """
document.getAnimations().filter(each => each instanceof CSSTransition).forEach(each => each.finish())
"""
_STRUCTURE = """(without) => axe.run({resultTypes: ['violations'], selectors: false,
  rules: Object.fromEntries(without.map(each => [each, {enabled: false}]))}).then(found => found.violations)"""
# The contrast takes five times longer than all other rules together, once for each text. The 40th row of a list has the
# contrast of the first, and the navigation that of the page before, so parts that look alike are looked at once in a
# session: with the same elements, colours and sizes inside them and in all elements around them.
_LOOKS = """() => {
  const styles = ['backgroundColor', 'backgroundImage', 'color', 'display', 'filter', 'fontSize', 'fontWeight',
    'mixBlendMode', 'opacity', 'position', 'textShadow', 'visibility', 'zIndex'];
  const hashes = new Map(), looks = new Map(), wholes = new Map();
  const hash = (text) => {
    let known = hashes.get(text);
    if (known === undefined) {
      let [high, low] = [0xdeadbeef, 0x41c6ce57];
      for (let at = 0; at < text.length; at++) {
        high = Math.imul(high ^ text.charCodeAt(at), 2654435761);
        low = Math.imul(low ^ text.charCodeAt(at), 1597334677);
      }
      high = Math.imul(high ^ (high >>> 16), 2246822507) ^ Math.imul(low ^ (low >>> 13), 3266489909);
      low = Math.imul(low ^ (low >>> 16), 2246822507) ^ Math.imul(high ^ (high >>> 13), 3266489909);
      known = 4294967296 * (2097151 & low) + (high >>> 0);
      hashes.set(text, known);
    }
    return known;
  };
  const describe = (part) => {
    const style = getComputedStyle(part);
    const hasText = [...part.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
    const look = [part.tagName, part.checkVisibility(), part.disabled, part.control?.disabled, part.ariaDisabled,
      hasText, ...styles.map((name) => style[name])];
    looks.set(part, hash(look.join('|')));
    wholes.set(part, hash([looks.get(part), ...[...part.children].map(describe)].join(',')));
    return wholes.get(part);
  };
  describe(document.documentElement);
  const keys = new Map();
  const visit = (part, around) => {
    keys.set(part, hash(`${around}>${wholes.get(part)}`));
    const inside = hash(`${around}>${looks.get(part)}`);
    [...part.children].forEach((child) => visit(child, inside));
  };
  visit(document.documentElement, '');
  window.looksOfParts = keys;
  return [...new Set(keys.values())];
}"""
_CONTRAST = """(known) => {
  const seen = new Set(known), exclude = [], keys = window.looksOfParts;
  const visit = (part) => {
    if (seen.has(keys.get(part))) {
      exclude.push(part);
    } else {
      seen.add(keys.get(part));
      [...part.children].forEach(visit);
    }
  };
  visit(document.documentElement);
  if (exclude[0] === document.documentElement) return [];
  return axe.run({include: document, exclude}, {resultTypes: ['violations'], runOnly: ['color-contrast']})
    .then(found => found.violations);
}"""
_looks_with_contrast: set[int] = set()


@contextmanager
def launch_chromium() -> Iterator[Browser]:
    """One Chromium for the session."""
    from playwright.sync_api import sync_playwright

    # Root cannot use Chromium's sandbox; other users keep it.
    arguments = [*QUIET, "--no-sandbox"] if os.geteuid() == 0 else QUIET
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=arguments)
        yield browser
        browser.close()


def expect(subject: Any, message: str | None = None) -> Any:
    """Playwright's assertions, which wait: a click returns before the next page is there and its scripts ran."""
    from playwright.sync_api import expect as playwright_expect

    playwright_expect.set_options(timeout=PATIENCE)
    return playwright_expect(subject, message)


def expect_text(part: Locator, *texts: str | re.Pattern[str]) -> None:
    """Each text is read in the part of a page, where it is visible; white space counts as one space."""
    for text in texts:
        expect(part).to_contain_text(text, use_inner_text=True)


@functools.cache
def _axe_script() -> str:
    from axe_playwright_python.sync_playwright import Axe

    return str(Axe().axe_script)


@functools.cache
def _rules_apart() -> list[str]:
    """The rules without a serious finding, a quarter of the time, and the one for contrast, which has its own run."""
    return ["color-contrast", *re.findall(r'{id:"([a-z-]+)",impact:"(?:minor|moderate)"', _axe_script())]


class Tab:
    """One browser context of one test. `page` is Playwright's page; `faults` violations of the two rules."""

    def __init__(self, context: BrowserContext, base_url: str, test: str) -> None:
        self.context = context
        self.base_url = base_url
        self.page: Page = context.new_page()
        self.faults: list[str] = []
        self._has_been_checked = False
        self._test = re.sub(r"[^A-Za-z0-9_.-]+", "-", test)
        context.on("request", lambda request: self._watch(request.url))
        self.page.on("console", lambda message: self._check_console(message.type, message.text))
        self.page.on("pageerror", lambda error: self.faults.append(f"script error: {error}"))

    def _watch(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"data", "blob", "about"} and (parts.hostname or "") not in LOCAL:
            self.faults.append(f"request left the host: {url}")

    def _check_console(self, kind: str, text: str) -> None:
        # The browser reports a refused form (400, 403, 409) as a console error too: the test expects it.
        if kind == "error" and not re.search(r"status of (400|401|403|404|409|412|429)", text):
            self.faults.append(f"console error: {text}")

    def open(self, path: str) -> Page:
        """Go to a path of the installation."""
        self.page.goto(self.base_url + path)
        return self.page

    def login(self, username: str, password: str) -> Page:
        """Log in by the login form."""
        page = self.open("/login/?next=/")
        page.fill("input[name=username]", username)
        page.fill("input[name=password]", password)
        page.press("input[name=password]", "Enter")
        page.wait_for_url(self.base_url + "/")
        return page

    def take_session(self, cookie: tuple[str, str]) -> None:
        """Be signed in by the name and value of a session's cookie, see `Stack.sign_in`."""
        name, value = cookie
        self.context.add_cookies([{"name": name, "value": value, "url": self.base_url}])

    def screenshot(self, name: str) -> None:
        """With the variable SCREENSHOTS: store a picture under `artifacts/`, for people."""
        if os.environ.get("SCREENSHOTS"):
            ARTIFACTS.mkdir(exist_ok=True)
            self.page.screenshot(path=ARTIFACTS / f"{self._test}-{name}.png", full_page=True)

    def assert_accessible(self) -> None:
        """Raises AssertionError for each serious or critical finding of axe."""
        self._expect_no_finding(_STRUCTURE, _rules_apart())
        self._expect_contrast()

    def assert_accessible_in_both_colours(self) -> None:
        """The same in the light and in the dark scheme. Only the contrast depends on it, so that one page serves both:
        it follows the scheme while it is open."""
        self.assert_accessible()
        is_dark = self.page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
        self.page.emulate_media(color_scheme="light" if is_dark else "dark")
        self.page.evaluate(_END_TRANSITIONS)
        self._expect_contrast()
        self.page.emulate_media(color_scheme="dark" if is_dark else "light")

    def assert_accessible_on_desk_and_phone(self) -> None:
        """As it is, and then as wide as a phone, in the dark scheme, where nothing is wider than the window."""
        self.assert_accessible()
        size = self.page.viewport_size
        self.page.set_viewport_size(PHONE)
        self.page.emulate_media(color_scheme="dark")
        self.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        self.page.evaluate(_END_TRANSITIONS)
        assert self.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], self.page.url
        self.assert_accessible()
        self.page.set_viewport_size(size)
        self.page.emulate_media(color_scheme="light")

    def _expect_contrast(self) -> None:
        looks = self.page.evaluate(_LOOKS)
        self._expect_no_finding(_CONTRAST, [look for look in looks if look in _looks_with_contrast])
        _looks_with_contrast.update(looks)

    def _expect_no_finding(self, run: str, argument: Any = None) -> None:
        """Only the violations cross from the browser: a whole answer takes longer than the rules themselves."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(_axe_script())
            if self._has_been_checked:  # most tests check one page; a page of many loads it in a sixth of the time
                self.context.add_init_script(_axe_script())
            self._has_been_checked = True
        found = self.page.evaluate(run, argument)
        serious = [f"{each['id']}: {each['help']}" for each in found if each["impact"] in {"serious", "critical"}]
        assert not serious, f"axe on {self.page.url}: {serious}"
