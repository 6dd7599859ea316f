"""On every screen, on a desktop and a phone, nothing lies outside the window, nothing is cut off, no control is
covered or too small to hit, and no texts overlap. The tests check rules, not pictures of whole screens, because fonts
differ between machines. axe checks the contrast (test_accessible.py)."""

import pytest
from browser_page import SIZES, browser, click_seen, keep, send, wait_done, watched  # noqa: F401
from fake_api import USAGE, chunk, faking

LONG = "AVeryLongWordWithoutAnySpaces" * 6
PROBLEMS = """() => {
  const found = [];
  const name = (node) => `${node.tagName.toLowerCase()}${node.id ? '#' + node.id : ''}.${String(node.className.baseVal ?? node.className).replaceAll(' ', '.')} “${(node.getAttribute('aria-label') ?? node.textContent).trim().slice(0, 40)}”`;
  const shown = (node) => node.checkVisibility({checkOpacity: true, checkVisibilityCSS: true}) && !node.closest('.unseen, .skip, #announce, [aria-hidden=true]');
  const scrolls = (node) => { const how = getComputedStyle(node); return /auto|scroll/.test(how.overflowX + how.overflowY); };
  const scroller = (node) => { for (let up = node.parentElement; up && up !== document.body; up = up.parentElement) if (scrolls(up)) return up; return null; };
  // The visible part of a box: inside everything that clips or scrolls its contents
  const seen = (box, node) => {
    let [left, top, right, bottom] = [Math.max(box.left, 0), Math.max(box.top, 0), Math.min(box.right, innerWidth), Math.min(box.bottom, innerHeight)];
    for (let up = node; up && up !== document.body; up = up.parentElement) {
      if (getComputedStyle(up).overflowX === 'visible') continue;
      const frame = up.getBoundingClientRect();
      [left, top, right, bottom] = [Math.max(left, frame.left), Math.max(top, frame.top), Math.min(right, frame.right), Math.min(bottom, frame.bottom)];
    }
    return {left, top, right, bottom, some: right - left > 1 && bottom - top > 1};
  };
  if (document.documentElement.scrollWidth > innerWidth) found.push(`the page is ${document.documentElement.scrollWidth} wide`);
  for (const node of document.querySelectorAll('body *'))
    if (shown(node) && scrolls(node) && node.scrollWidth > node.clientWidth + 1 && !node.matches('pre, .wide, .columns, .maths, textarea, input'))
      found.push(`scrolls sideways: ${name(node)}`);

  const modal = document.querySelector('dialog[open]');
  const shade = document.querySelector('.shade:not([hidden])');
  const panel = shade && getComputedStyle(shade).display !== 'none' ? document.querySelector('.chat > aside:not([hidden])') : null;
  const scope = modal ?? panel ?? document.body;  // the rest is covered on purpose
  const controls = [...scope.querySelectorAll('a[href], button, input, select, textarea, summary, canvas[tabindex]')].filter(shown);
  for (const control of controls) {
    const box = control.getBoundingClientRect();
    const inText = control.matches('.markdown a');
    if (!inText && (box.width < 24 || box.height < (control.type === 'range' ? 16 : 24))) found.push(`too small: ${name(control)} ${box.width} × ${box.height}`);
    if (!scroller(control) && (box.left < -1 || box.right > innerWidth + 1 || box.top < -1 || box.bottom > innerHeight + 1)) found.push(`outside: ${name(control)}`);
    const part = seen(box, control);
    if (!part.some) continue;
    const top = document.elementFromPoint((part.left + part.right) / 2, (part.top + part.bottom) / 2);
    if (top && !control.contains(top) && !top.contains(control)) found.push(`covered: ${name(control)} by ${name(top)}`);
  }

  const texts = [];
  const walk = document.createTreeWalker(scope, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const owner = node.parentElement;
    if (!node.textContent.trim() || !shown(owner) || owner.closest('option, math, .tokens')) continue;
    const how = getComputedStyle(owner);
    if (/hidden|clip/.test(how.overflowX) && how.textOverflow !== 'ellipsis' && owner.scrollWidth > owner.clientWidth + 1) found.push(`cut off: ${name(owner)}`);
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) {
      const part = seen(box, owner);
      if (!scroller(owner) && how.textOverflow !== 'ellipsis' && (box.left < -1 || box.right > innerWidth + 1)) found.push(`outside: ${name(owner)}`);
      if (part.some) texts.push({...part, owner});
    }
  }
  for (let i = 0; i < texts.length; ++i) for (let k = i + 1; k < texts.length; ++k) {
    const [a, b] = [texts[i], texts[k]];
    const [wide, high] = [Math.min(a.right, b.right) - Math.max(a.left, b.left), Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)];
    if (wide > 2 && high > 6 && !a.owner.contains(b.owner) && !b.owner.contains(a.owner)) found.push(`over each other: ${name(a.owner)} and ${name(b.owner)}`);
  }
  return [...new Set(found)];
}"""

# The rules are about places, which are the same in both themes.
each = pytest.mark.parametrize("look", [("desk", "light"), ("phone", "dark")], ids="-".join)


@pytest.fixture
def fake(server):
    with faking(server.url) as made:
        made.model = "organisation/a-model-with-quite-a-long-name-Q4_K_M"
        yield made


def check(page, what, look):
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    keep(page, f"layout-{what}-{'-'.join(look)}")
    assert page.evaluate(PROBLEMS) == [], what


def how(look):
    return {"viewport": SIZES[look[0]], "color_scheme": look[1]}


@each
def test_the_chat(fake, watched, look):
    page = watched.open(fake.url, **how(look))
    page.wait_for_function("() => document.querySelector('#model').textContent")
    check(page, "empty", look)
    with page.expect_file_chooser() as chooser:
        click_seen(page, page.get_by_label("Attach text files"))
    chooser.value.set_files(
        [
            {"name": f"{LONG}.txt", "mimeType": "text/plain", "buffer": b"text\n"},
            {"name": "b.bin", "mimeType": "", "buffer": b"\0"},
        ]
    )
    page.wait_for_selector("#banner:not([hidden])")
    check(page, "attached", look)
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}
    fake.reply(
        chunks=[
            chunk(
                {
                    "content": (
                        f"# Title\n\n{LONG} and `code`.\n\n```python\n{'x = 1; ' * 40}\n```\n\n| a | b |\n|-|-|\n|"
                        f" {LONG} | 2 |"
                    )
                }
            ),
            chunk({}, "length"),
            {**USAGE, "usage": {**USAGE["usage"], "timings": {"queue_ms": 300, "prompt_ms": 200, "predicted_ms": 900}}},
        ]
    )
    fake.reply(chunks=[chunk({"reasoning": "hm", "tool_calls": [call]}), chunk({}, "tool_calls"), USAGE])
    fake.reply(status=400, body={"error": {"message": f"temperature: {LONG}"}})
    watched.allow("400")
    send(page, f"Hello {LONG}")
    wait_done(page)
    page.locator(".log").evaluate("(log) => { log.scrollTop = 0; }")
    check(page, "question", look)
    page.locator(".log").evaluate("(log) => { log.scrollTop = log.scrollHeight; }")
    check(page, "cut", look)
    send(page, "two")
    wait_done(page, 2)
    check(page, "tools", look)
    send(page, "three")
    page.wait_for_selector(".error")
    check(page, "error", look)
    click_seen(page, page.locator("#show-settings"))
    check(page, "settings", look)
    page.fill("#set-system", "Something of my own.")
    click_seen(page, "Save as preset")
    check(page, "preset", look)
    click_seen(page, page.locator("#settings").get_by_label("Close settings"))
    if not page.locator("#side").is_visible():
        click_seen(page, page.locator("#show-side"))
    click_seen(page, page.locator("#side").get_by_label("Rename"))
    check(page, "list", look)
    page.keyboard.press("Enter")
    page.keyboard.press("Escape") if look[0] == "phone" else None
    click_seen(page, page.locator("#tools").get_by_label("API key"))
    check(page, "key", look)


@each
def test_the_engine_and_the_lessons(server, watched, look):
    page = watched.open(server.url + "/#lessons", wait="#lesson-beams", **how(look))
    page.wait_for_function("() => document.querySelector('#model').textContent")
    check(page, "lessons", look)
    click_seen(page, page.locator("#lesson-beams"))
    page.wait_for_selector(".engine .card:visible", timeout=60_000)
    click_seen(page, page.get_by_role("button", name="Pause", exact=True))
    page.evaluate(
        "() => { const s = document.querySelector('.engine input[type=range]'); s.value = 30; s.dispatchEvent(new"
        " Event('input')); }"
    )
    check(page, "lesson", look)
    click_seen(page, "Back to live")
    page.wait_for_function("() => document.querySelector('.live-status').textContent === 'live'")
    check(page, "engine", look)


@each
def test_texts_compared(fake, watched, look):
    fake.props = {"default_generation_settings": {"params": {}}, "pooling_task": "embed"}
    page = watched.open(fake.url, wait="#texts", **how(look))
    check(page, "compare", look)
    page.fill("#texts", "\n".join(f"{i} {LONG}" for i in range(12)))
    fake.reply(body={"data": [{"index": i, "embedding": [1, i, -i * i]} for i in range(12)]})
    click_seen(page, page.locator("#compare"))
    page.wait_for_selector(".matrix")
    page.evaluate("() => { const main = document.querySelector('#main'); main.scrollTop = main.scrollHeight; }")
    check(page, "compared", look)


@pytest.mark.parametrize(
    "fault, what",
    [
        ("document.querySelector('#send').style.transform = 'translateX(900px)'", "scrolls sideways: main#main"),
        (
            (
                "Object.assign(document.querySelector('#show-settings').style, {width: '20px', minWidth: 0, padding: 0,"
                " overflow: 'hidden'})"
            ),
            "too small: button#show-settings",
        ),
        (
            (
                "document.querySelector('.middle').style.position = 'relative'; const lid ="
                " document.createElement('div'); lid.style.cssText = 'position: absolute; inset: 0;';"
                " document.querySelector('.middle').append(lid)"
            ),
            "covered: button#send",
        ),
        (
            (
                "document.querySelector('h1.title').textContent = 'word '.repeat(80);"
                " document.querySelector('h1.title').style.textOverflow = 'clip'"
            ),
            "cut off: h1",
        ),
        ("document.querySelector('.empty h2').style.marginBottom = '-70px'", "over each other"),
        (
            (
                "const wide = document.createElement('div'); wide.style.cssText = 'width: 2000px; height: 1px; flex:"
                " none'; document.body.append(wide)"
            ),
            "the page is 2000 wide",
        ),
    ],
)
def test_the_rules_see_what_is_wrong(fake, watched, fault, what):
    page = watched.open(fake.url, viewport=SIZES["phone"])
    page.evaluate(f"() => {{ {fault}; }}")
    found = page.evaluate(PROBLEMS)
    assert any(what in line for line in found), found
