"""The page as users operate it: clicks at visible positions, on a desktop and a phone, with API keys."""

import pytest
from browser_page import SIZES, browser, click_seen, keep, wait_done, watched  # noqa: F401
from conftest import default_model, serving
from fake_api import faking

both = pytest.mark.parametrize("size", SIZES)


@pytest.fixture
def fake(server):
    with faking(server.url) as made:
        yield made


@pytest.fixture(scope="module")
def locked():
    flags = ("--max-model-len", "512", "--served-model-name", "smol", "--api-key", "s3cret")
    with serving(default_model(), *flags) as running:
        yield running


def ask(page, text):
    click_seen(page, page.get_by_placeholder("Write a message"))
    page.keyboard.type(text)
    click_seen(page, "Send")


@both
def test_a_key_is_typed_into_the_dialog(locked, watched, size):
    watched.allow("401")
    page = watched.open(locked.url + "/", wait=".key-dialog", viewport=SIZES[size])
    keep(page, f"key-{size}")
    box = page.locator(".key-dialog").bounding_box()
    assert box["width"] > 250 and box["height"] > 120, box
    click_seen(page, page.get_by_label("API key", exact=True).locator("visible=true").last)
    page.keyboard.type("s3cret")
    click_seen(page, page.locator(".key-dialog button.main"))
    page.wait_for_function("() => document.querySelector('#model').textContent.includes('smol')")
    assert page.locator(".key-dialog").count() == 0
    ask(page, "hello")
    wait_done(page)
    # The button at the top right asks for the key again, and the dialog can be closed.
    click_seen(page, page.locator("#tools").get_by_label("API key"))
    click_seen(page, "Cancel")
    page.wait_for_selector(".key-dialog", state="detached")


@both
@pytest.mark.parametrize("panel", ["settings", "side"])
@pytest.mark.parametrize("way", ["close", "escape", "outside"])
def test_a_panel_that_was_opened_can_be_closed(fake, watched, size, panel, way):
    page = watched.open(fake.url, viewport=SIZES[size])
    part = page.locator(f"#{panel}")
    if not part.is_visible():
        click_seen(page, page.locator(f"#show-{panel}"))
    assert part.is_visible()
    if way == "close":
        click_seen(page, part.get_by_label("Close"))
    elif way == "escape":
        if size == "desk":  # panels are next to the chat there: the panel that has the focus
            part.locator("input, textarea").first.focus()
        page.keyboard.press("Escape")
    elif size == "phone":
        page.mouse.click(380 if panel == "side" else 10, 400)
    else:
        click_seen(page, page.locator(f"#show-{panel}"))
    assert not part.is_visible()
    ask(page, "hello")
    wait_done(page)


def test_a_panel_on_a_phone_does_not_outlive_its_view(fake, watched):
    page = watched.open(fake.url, viewport=SIZES["phone"])
    click_seen(page, page.locator("#show-settings"))
    click_seen(page, "Engine")
    page.wait_for_selector(".kvmap")
    click_seen(page, "Chat")
    ask(page, "hello")
    wait_done(page)


@both
def test_escape_stops_a_second_answer_wherever_the_focus_is(server, watched, size):
    page = watched.open(server.url + "/", viewport=SIZES[size])
    click_seen(page, page.locator("#show-settings"))
    for name, value in {"max_tokens": "3", "temperature": "0"}.items():
        page.fill(f"#set-{name}", value)
    click_seen(page, page.locator("#settings").get_by_label("Close settings"))
    ask(page, "Write a long story about a dragon and a knight.")
    wait_done(page)
    click_seen(page, page.locator("#show-settings"))
    page.fill("#set-max_tokens", "1500")
    click_seen(page, page.locator("#settings").get_by_label("Close settings"))
    click_seen(page, "Answer again")
    page.wait_for_function("() => document.querySelector('.message.assistant > .markdown')?.textContent.length > 40")
    page.evaluate("() => document.activeElement.blur()")
    page.keyboard.press("Escape")
    wait_done(page)
    assert "stopped" in page.locator(".message.assistant").last.inner_text()
    assert server.wait_until_idle()


# A map of five blocks, one of each kind, at the size of the legend's swatches.
PAINTED = """async () => {
  const folder = document.querySelector('script[type=module]').src.replace(/[^/]*$/, '');
  const {LiveState} = await import(folder + 'livestate.js');
  const {KvMap} = await import(folder + 'kvmap.js');
  const state = new LiveState();
  const map = new KvMap(state, () => {});
  document.querySelector('.engine').append(map.node);
  state.apply({type: 'hello', boot: 'x', blocks: 5, block_size: 16, groups: [{}]});
  state.apply({type: 'snap', n: 0, step: 1, now: 1, available: 1, swap_free: 0, steps: [], events: [], ended: [], missed: 0, cached: [1],
    prefixes: [['p', [4]]], requests: [], sequences: [[0, 0, 0, 'resident', 32, 32, 0, -1, 0, 0, [2, 3]], [1, 0, 1, 'resident', 32, 32, 0, -1, 0, 0, [3]]]});
  map.setZoom(3);
  const size = map.cell;
  const cells = Object.fromEntries(['free', 'cached', 'held', 'shared', 'pinned'].map((kind, i) => {
    const swatch = document.querySelector(`.legend li[data-kind=${kind}] canvas`);
    const pixels = (canvas, x) => [...canvas.getContext('2d').getImageData(x, 0, size, size).data];
    return [kind, {map: pixels(map.canvas, i * size), legend: pixels(swatch, 0), same: swatch.width === size}];
  }));
  map.node.remove();
  return cells;
}"""


@both
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_legend_is_what_the_map_paints(server, watched, scheme, size):
    """Compares the pictures of each kind of block, and again after switching the theme."""
    watched.allow("willReadFrequently")
    page = watched.open(server.url + "/#engine", wait=".kvmap", color_scheme=scheme, viewport=SIZES[size])
    page.wait_for_function("() => document.querySelector('.live-status').textContent === 'live'")
    seen = []
    for _ in range(3):
        page.wait_for_selector(".legend li[data-kind=pinned] canvas")
        cells = page.evaluate(PAINTED)
        for kind, cell in cells.items():
            assert cell["same"] and cell["map"] == cell["legend"], kind
        assert len({str(cell["map"]) for cell in cells.values()}) == 5, "each kind has a look of its own"
        seen.append(str(cells["held"]["map"]))
        click_seen(page, page.locator("#tools").get_by_role("button").first)
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert len(set(seen)) == 2, "two themes"
