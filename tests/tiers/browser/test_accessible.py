"""axe reports no violations on any screen, in the light and dark themes, on a desktop and a phone."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser_page import browser, send, wait_done, watched  # noqa: F401
from fake_api import USAGE, chunk, faking, says

TEXT = (
    "# Title\n\nSome `code`, [a link](https://a.example).\n\n```python\ndef f(x): return 'a' # 1\n```\n\n| a | b"
    " |\n|-|-|\n| 1 | 2 |"
)


def violations(page):
    found = Axe().run(page).response["violations"]
    return [f"{v['id']}: {v['help']}: {[n['html'][:160] for n in v['nodes'][:3]]}" for v in found]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_chat(server, watched, scheme, width):
    with faking(server.url) as fake:
        page = watched.open(fake.url, viewport={"width": width, "height": 800}, color_scheme=scheme)
        assert violations(page) == []
        watched.allow("400")
        call = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        one = chunk({"content": "tok"})
        one["choices"][0]["logprobs"] = {"content": [{"token": "tok", "logprob": -2.0, "top_logprobs": []}]}
        for reply in (
            {"chunks": says(TEXT)},
            {"chunks": [one, chunk({"reasoning": "hm", "tool_calls": [call]}), USAGE]},
            {"status": 400, "body": {"error": {"message": "no"}}},
        ):
            fake.reply(**reply)
        send(page, "one")
        wait_done(page, 1)
        send(page, "two")
        wait_done(page, 2)
        send(page, "three")
        page.wait_for_selector(".error")
        page.click("#show-settings")
        assert violations(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_files_presets_and_compared_texts(server, watched, scheme):
    with faking(server.url) as fake:
        page = watched.open(fake.url, color_scheme=scheme)
        with page.expect_file_chooser() as chooser:
            page.get_by_label("Attach text files").click()
        chooser.value.set_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"text"})
        page.wait_for_selector(".composer .chip")
        page.click("#show-settings")
        page.fill("#set-system", "x")
        page.get_by_text("Save as preset").click()
        assert violations(page) == []
        fake.props = {"default_generation_settings": {"params": {}}, "pooling_task": "embed"}
        page = watched.open(fake.url, wait="#texts", color_scheme=scheme)
        fake.reply(body={"data": [{"index": i, "embedding": [1, i]} for i in range(3)]})
        page.click("#compare")
        page.wait_for_selector(".matrix")
        assert violations(page) == []
        page.goto(fake.url + "#lessons")
        page.wait_for_selector("#lesson-beams")
        assert violations(page) == []


def test_what_a_screen_reader_is_told(server, watched):
    with faking(server.url) as fake:
        page = watched.open(fake.url)
        assert page.get_attribute(".log", "aria-live") == "off"
        fake.reply(chunks=says("one two three"))
        send(page, "x")
        wait_done(page)
        page.wait_for_function("() => document.querySelector('#announce').textContent === 'done, 3 words'")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_engine(server, watched, scheme, width):
    page = watched.open(
        server.url + "/#engine", wait=".kvmap", viewport={"width": width, "height": 800}, color_scheme=scheme
    )
    page.wait_for_function("() => document.querySelector('.live-status').textContent === 'live'")
    assert violations(page) == []
