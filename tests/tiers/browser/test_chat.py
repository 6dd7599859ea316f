"""The chat against the default model, and against exact answers."""

import json

import httpx
import pytest
from browser_page import browser, keep, send, wait_done, watched  # noqa: F401
from conftest import default_model, serving
from fake_api import USAGE, chunk, faking, says


@pytest.fixture
def fake(server):
    with faking(server.url) as made:
        yield made


def last(page):
    return page.locator(".message.assistant").last


def test_a_conversation_streams_is_kept_and_found_again(server, watched):
    page = watched.open(server.url + "/")
    assert page.inner_text("#model") == "smol"
    page.click("#show-settings")
    page.fill("#set-max_tokens", "24")
    page.fill("#set-temperature", "0")
    send(page, "What is the capital of Japan?")
    wait_done(page)
    assert "Tokyo" in last(page).inner_text()
    assert "tokens/s" in last(page).inner_text()
    bar = last(page).locator(".timebar")
    shares = bar.evaluate(
        "(bar) => [...bar.children].map((part) => [part.className, part.clientWidth / bar.clientWidth,"
        " Number(part.style.flexGrow)])"
    )
    assert len(shares) >= 2 and all(abs(wide - share) < 0.03 for _, wide, share in shares), shares
    assert page.inner_text("#announce").startswith("done")
    keep(page, "chat")
    page.reload()
    page.wait_for_selector(".chats li")
    page.click(".chats li .open")
    assert "Tokyo" in last(page).inner_text()
    page.fill(".side input[type=search]", "nothing like it")
    assert page.locator(".chats li").count() == 0
    page.fill(".side input[type=search]", "tokyo")
    assert page.locator(".chats li").count() == 1


def test_stop_ends_the_request_in_the_engine(server, watched):
    page = watched.open(server.url + "/")
    page.click("#show-settings")
    page.fill("#set-max_tokens", "1500")
    page.fill("#set-temperature", "0")
    send(page, "Write a long story about a dragon and a knight.")
    page.wait_for_function("() => document.querySelector('.message.assistant > .markdown')?.textContent.length > 20")
    page.press("#prompt", "Escape")
    wait_done(page)
    assert "stopped" in last(page).inner_text()
    assert server.wait_until_idle()


def test_edit_and_again_make_branches(fake, watched):
    page = watched.open(fake.url)
    fake.reply(chunks=says("first"))
    send(page, "one")
    wait_done(page)
    fake.reply(chunks=says("second"))
    last(page).get_by_label("Answer again").click()
    page.wait_for_function("() => document.querySelector('.message.assistant > .markdown')?.textContent === 'second'")
    wait_done(page)
    assert "2/2" in last(page).inner_text()
    last(page).get_by_label("Previous version").click()
    assert "first" in last(page).inner_text()
    fake.reply(chunks=says("third"))
    page.locator(".message.user").get_by_label("Edit").click()
    page.locator(".message.user textarea").fill("two")
    page.locator(".message.user textarea").press("Enter")
    page.wait_for_function("() => document.querySelector('.message.assistant > .markdown')?.textContent === 'third'")
    wait_done(page)
    assert [m["content"] for m in fake.requests[-1][0]["messages"]] == ["two"]
    page.locator(".message.user").get_by_label("Previous version").click()
    assert "first" in last(page).inner_text()


def test_settings_reach_the_request(fake, watched):
    page = watched.open(fake.url)
    page.click("#show-settings")
    for name, value in {
        "system": "Be brief.",
        "temperature": "0.3",
        "top_p": "0.9",
        "top_k": "7",
        "max_tokens": "11",
        "seed": "5",
        "stop": "END\nSTOP",
        "schema": '{"type": "object"}',
    }.items():
        page.fill(f"#set-{name}", value)
    page.fill("#set-top_p", "7")  # out of range: the previous value stays
    page.press("#set-top_p", "Tab")
    assert page.get_attribute("#set-top_p", "aria-invalid") == "true"
    send(page, "hello")
    wait_done(page)
    request = fake.requests[-1][0]
    assert request["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]
    assert (request["temperature"], request["top_p"], request["top_k"], request["max_tokens"], request["seed"]) == (
        0.3,
        0.9,
        7,
        11,
        5,
    )
    assert request["stop"] == ["END", "STOP"]
    assert request["response_format"]["json_schema"]["schema"] == {"type": "object"}


def props(params, template=""):
    return {"default_generation_settings": {"n_ctx": 512, "params": params}, "chat_template": template}


def shown_defaults(page):
    return {
        name: page.get_attribute(f"#set-{name}", "placeholder")
        for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
    }


def test_sampling_starts_from_the_models_defaults(fake, watched):
    fake.props = props({"temperature": 0.2, "top_p": 0.9, "repeat_penalty": 1.1})
    page = watched.open(fake.url)
    page.click("#show-settings")
    page.wait_for_function("() => document.querySelector('#set-temperature').placeholder === '0.2'")
    assert shown_defaults(page) == {
        "temperature": "0.2",
        "top_p": "0.9",
        "top_k": "-1",
        "min_p": "0",
        "repetition_penalty": "1.1",
    }
    assert "default: the model’s" in page.inner_text("#set-temperature-note")
    send(page, "hello")
    wait_done(page)
    assert not {"temperature", "top_p", "top_k", "min_p"} & set(fake.requests[-1][0]), "the server applies them"


def test_sampling_starts_from_llama_cpps_defaults_where_the_model_has_none(fake, watched):
    fake.props = props({})
    page = watched.open(fake.url)
    page.click("#show-settings")
    page.wait_for_function("() => document.querySelector('#set-temperature').placeholder === '0.8'")
    assert shown_defaults(page) == {
        "temperature": "0.8",
        "top_p": "0.95",
        "top_k": "40",
        "min_p": "0.05",
        "repetition_penalty": "1",
    }
    page.fill("#set-top_k", "7")
    send(page, "hello")
    wait_done(page)
    request = fake.requests[-1][0]
    assert {name: request[name] for name in ("temperature", "top_p", "top_k", "min_p")} == {
        "temperature": 0.8,
        "top_p": 0.95,
        "top_k": 7,
        "min_p": 0.05,
    }


def test_thinking_is_switched_where_the_template_knows_it(fake, watched):
    fake.props = props({}, "{% if enable_thinking %}<think>{% endif %}")
    page = watched.open(fake.url)
    page.click("#show-settings")
    for count, (choice, sent) in enumerate(
        (("", None), ("off", {"enable_thinking": False}), ("on", {"enable_thinking": True})), 1
    ):
        page.select_option("#set-thinking", choice)
        send(page, "hello")
        wait_done(page, count)
        assert fake.requests[-1][0].get("chat_template_kwargs") == sent
    fake.props = props({}, "plain")
    other = watched.open(fake.url)
    other.click("#show-settings")
    other.wait_for_function("() => document.querySelector('#set-temperature').placeholder === '0.8'")
    assert not other.locator("#set-thinking").is_visible()


def test_defaults_that_come_late_leave_what_is_being_typed(fake, watched):
    fake.props = props({"temperature": 0.25})
    fake.props_ready.clear()
    page = watched.open(fake.url)
    page.click("#show-settings")
    page.fill("#set-system", "Answer briefly.")
    page.focus("#set-top_k")
    page.keyboard.type("1")
    fake.props_ready.set()
    page.wait_for_function("() => document.querySelector('#set-temperature').placeholder === '0.25'")
    page.keyboard.type("2")
    send(page, "hello")
    wait_done(page)
    assert page.input_value("#set-top_k") == "12"
    sent = fake.requests[-1][0]
    assert sent["top_k"] == 12 and sent["messages"][0] == {"role": "system", "content": "Answer briefly."}


def test_reasoning_is_folded_and_tools_are_cards(fake, watched):
    page = watched.open(fake.url)
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":'}}
    fake.reply(
        chunks=[
            chunk({"role": "assistant", "reasoning": "Let me *think*."}),
            chunk({"tool_calls": [call]}),
            chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"Oslo"}'}}]}),
            chunk({}, "tool_calls"),
            USAGE,
        ]
    )
    send(page, "How is the weather in Oslo?")
    wait_done(page)
    assert not page.locator(".reasoning .markdown").is_visible()
    page.click(".reasoning summary")
    assert page.inner_text(".reasoning em") == "think"
    assert '"city": "Oslo"' in page.inner_text(".card.tool pre")
    fake.reply(chunks=says("It snows."))
    page.fill(".card.tool textarea", "snow")
    page.click("text=Submit result")
    wait_done(page, 2)
    assert fake.requests[-1][0]["messages"][-1] == {"role": "tool", "tool_call_id": "c1", "content": "snow"}
    assert fake.requests[-1][0]["messages"][-2]["tool_calls"][0]["function"]["arguments"] == '{"city":"Oslo"}'


def test_several_answers_stand_side_by_side(server, watched):
    page = watched.open(server.url + "/")
    page.click("#show-settings")
    page.fill("#set-n", "3")
    page.fill("#set-max_tokens", "12")
    send(page, "Name an animal.")
    wait_done(page, 3)
    boxes = [page.locator(".columns .message").nth(i).bounding_box() for i in range(3)]
    assert boxes[0]["x"] < boxes[1]["x"] < boxes[2]["x"]
    page.locator(".columns .message").nth(1).get_by_text("Use this answer").click()
    assert page.locator(".columns").count() == 0 or page.locator(".columns .message").count() == 2


def test_tokens_show_their_probabilities_and_alternatives(server, watched):
    page = watched.open(server.url + "/")
    page.click("#show-settings")
    page.check("#set-logprobs")
    page.fill("#set-max_tokens", "12")
    send(page, "Say something surprising.")
    wait_done(page)
    token = page.locator(".token").first
    token.hover()
    assert "%" in page.inner_text(".alternatives")
    token.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("() => document.activeElement === document.querySelectorAll('.token')[1]")
    keep(page, "tokens")


def test_beam_search_shows_its_best_so_far(server, watched):
    page = watched.open(server.url + "/")
    page.click("#show-settings")
    page.fill("#set-beam_width", "3")
    page.fill("#set-max_tokens", "128")
    send(page, "The capital of Japan is")
    page.wait_for_selector(".markdown.guess")
    wait_done(page)
    assert len(last(page).locator("> .markdown").inner_text()) > 3


def test_a_full_server_is_waited_for_once(fake, watched):
    page = watched.open(fake.url)
    watched.allow("429")
    fake.reply(status=429, body={"error": {"message": "The queue is full."}}, headers=[("retry-after", "1")])
    fake.reply(chunks=says("now"))
    send(page, "hello")
    page.wait_for_selector("text=Retrying in 1 s")
    wait_done(page)
    assert "now" in last(page).inner_text() and len(fake.requests) == 2
    for _ in range(2):
        fake.reply(status=429, body={"error": {"message": "The queue is full."}}, headers=[("retry-after", "1")])
    send(page, "again")
    page.wait_for_selector(".error")
    assert "The queue is full." in page.inner_text(".error") and len(fake.requests) == 4


def test_an_error_keeps_the_text_and_can_be_tried_again(fake, watched):
    page = watched.open(fake.url)
    watched.allow("400")
    fake.reply(status=400, body={"error": {"message": "temperature: <b>must</b> be smaller"}})
    send(page, "hello")
    page.wait_for_selector(".error")
    assert "<b>must</b>" in page.inner_text(".error")
    fake.reply(chunks=[chunk({"content": "half an ans"})], cut=True)
    page.click("text=Retry")
    page.wait_for_function("() => /was lost|ended before/.test(document.querySelector('.error')?.textContent)")
    assert "half an ans" in last(page).inner_text()


def test_a_key_is_asked_for_and_stays_in_the_tab(watched):
    with serving(
        default_model(), "--max-model-len", "512", "--served-model-name", "smol", "--api-key", "s3cret"
    ) as server:
        watched.allow("401")
        page = watched.open(server.url + "/", wait=".key-dialog")
        page.fill("dialog input", "wrong")
        page.press("dialog input", "Enter")
        page.wait_for_selector(".key-dialog")
        page.fill(".key-dialog input", "s3cret")
        page.press(".key-dialog input", "Enter")
        page.wait_for_function("() => document.querySelector('#model').textContent === 'smol'")
        page.click("#show-settings")
        page.fill("#set-max_tokens", "3")
        send(page, "hello")
        wait_done(page)
        assert "s3cret" not in page.evaluate("() => JSON.stringify({...localStorage}) + location.href")
        assert httpx.get(server.url + "/").status_code == 200
        assert httpx.get(server.url + "/ui/anything").status_code == 401


def test_a_server_that_goes_is_told_and_chats_stay_readable(watched):
    server = serving(default_model(), "--max-model-len", "512", "--served-model-name", "smol")
    running = server.__enter__()
    try:
        page = watched.open(running.url + "/")
        watched.allow("ERR_", "Failed to load")
        page.click("#show-settings")
        page.fill("#set-max_tokens", "400")
        send(page, "Write a long story about a dragon and a knight.")
        page.wait_for_function("() => document.querySelector('.message.assistant > .markdown')?.textContent.length > 5")
        running.process.kill()
        page.wait_for_selector("#banner.error")
        page.wait_for_selector(".message.assistant .error")
        assert len(last(page).locator("> .markdown").inner_text()) > 5
    finally:
        server.__exit__(None, None, None)


def test_conversations_go_out_and_come_back_as_json(fake, watched, tmp_path):
    page = watched.open(fake.url)
    fake.reply(chunks=says("**kept**"))
    send(page, "keep this")
    wait_done(page)
    with page.expect_download() as download:
        page.get_by_label("Export all conversations").click()
    file = tmp_path / "chats.json"
    download.value.save_as(file)
    assert "s3cret" not in file.read_text() and json.loads(file.read_text())["format"] == "pagoda-chats"
    other = watched.open(fake.url)
    with other.expect_file_chooser() as chooser:
        other.get_by_label("Import conversations").click()
    chooser.value.set_files(file)
    other.wait_for_selector("text=1 conversation imported.")
    assert other.locator(".message.assistant > .markdown strong").inner_text() == "kept"
    for text in ("{", '{"format":"pagoda-chats","chats":[{"id":1}]}', "[]"):
        file.write_text(text)
        with other.expect_file_chooser() as chooser:
            other.get_by_label("Import conversations").click()
        chooser.value.set_files(file)
        other.wait_for_selector("#banner:has-text('file')")
    assert other.locator(".chats li").count() == 1


def test_keys_and_a_phone(fake, watched):
    page = watched.open(fake.url, viewport={"width": 390, "height": 800})
    assert not page.locator("#side").is_visible()
    page.keyboard.press("Control+b")
    assert page.locator("#side").is_visible()
    page.keyboard.press("Control+b")
    page.keyboard.press("Control+k")
    assert page.evaluate("() => document.activeElement.type") == "search"
    page.keyboard.press("Control+Shift+O")
    assert page.evaluate("() => document.activeElement.id") == "prompt"
    page.keyboard.type("one")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("two")
    page.keyboard.press("Enter")
    wait_done(page)
    assert fake.requests[-1][0]["messages"][-1]["content"] == "one\ntwo"
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    keep(page, "phone")


def test_under_a_prefix_of_a_proxy(server, watched):
    with faking(server.url, prefix="/deep/er") as fake:
        page = watched.open(fake.url)
        send(page, "hello")
        wait_done(page)
        assert "ok" in last(page).inner_text()


def test_the_first_paint_is_quick(server, watched):
    page = watched.open(server.url + "/")
    paints = []
    for _ in range(5):
        page.goto("about:blank")
        page.goto(server.url + "/")
        page.wait_for_selector("#prompt")
        paints.append(
            page.evaluate(
                "() => performance.getEntriesByType('paint').find((e) => e.name ==="
                " 'first-contentful-paint')?.startTime ?? 1e9"
            )
        )
    assert sorted(paints)[2] < 400, paints  # 200 on a quiet machine; this one may be busy


def test_the_files_are_few_and_small(server):
    total = 0
    index = httpx.get(server.url + "/")
    assert "trusted-types 'none'" in index.headers["content-security-policy"]
    folder = index.text.split('src="ui/')[1].split("/")[0]
    for name in ("app.js", "app.css", "marked.js", "prism.js", "chat.js"):
        got = httpx.get(f"{server.url}/ui/{folder}/{name}")
        if got.status_code == 200:
            total += len(got.content)
            assert "immutable" in got.headers["cache-control"]
    assert total < 400_000
    assert httpx.get(server.url + "/", headers={"if-none-match": index.headers["etag"]}).status_code == 304
    plain = httpx.get(server.url + "/", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers and plain.text == index.text


def test_without_ui_there_is_no_page():
    with serving(default_model(), "--max-model-len", "512", "--no-ui") as server:
        page = httpx.get(server.url + "/")  # text-generation-inference's POST / is still there
        assert page.status_code == 405 and "POST" in page.headers["allow"]
        assert page.headers["content-type"].startswith("application/json")
        assert httpx.get(server.url + "/health").status_code == 200
