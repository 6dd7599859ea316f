"""Attached files, continued answers, names and presets, operated by clicks on a desktop and a phone."""

import pytest
from browser_page import SIZES, browser, click_seen, keep, wait_done, watched  # noqa: F401
from fake_api import USAGE, chunk, faking, says

both = pytest.mark.parametrize("size", SIZES)
NOTES = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"The museum opens at nine.\n"}


@pytest.fixture
def fake(server):
    with faking(server.url) as made:
        yield made


def type_and_send(page, text):
    click_seen(page, page.get_by_placeholder("Write a message"))
    page.keyboard.type(text)
    click_seen(page, "Send")


def attach(page, *files):
    with page.expect_file_chooser() as chooser:
        click_seen(page, page.get_by_label("Attach text files"))
    chooser.value.set_files(list(files))


def last_content(fake):
    return fake.requests[-1][0]["messages"][-1]["content"]


@both
def test_a_text_file_goes_with_the_message(fake, watched, size):
    page = watched.open(fake.url, viewport=SIZES[size])
    attach(page, NOTES, {"name": "code.py", "mimeType": "", "buffer": "print('ü')".encode()})
    page.wait_for_selector(".composer .chip >> nth=1")
    keep(page, f"attached-{size}")
    assert page.locator(".composer .chip").all_inner_texts() == ["notes.txt\n26 bytes", "code.py\n11 bytes"]
    click_seen(page, page.get_by_label("Remove code.py"))
    assert page.locator(".composer .chip").count() == 1
    type_and_send(page, "When does it open?")
    wait_done(page)
    assert last_content(fake) == [
        {"type": "text", "text": "--- File: notes.txt ---\nThe museum opens at nine.\n"},
        {"type": "text", "text": "When does it open?"},
    ]
    assert not page.locator(".composer .chips").is_visible()
    chip = page.locator(".message.user .chip")
    click_seen(page, chip.locator("summary"))
    assert "The museum opens at nine." in chip.inner_text()
    # Editing keeps the file, or drops it.
    click_seen(page, page.get_by_label("Edit", exact=True))
    page.keyboard.press("End")
    page.keyboard.type(" Today?")
    page.keyboard.press("Enter")
    wait_done(page)
    assert last_content(fake)[-1]["text"] == "When does it open? Today?" and len(last_content(fake)) == 2
    click_seen(page, page.get_by_label("Edit", exact=True))
    click_seen(page, page.get_by_label("Remove notes.txt"))
    click_seen(page, page.locator(".message.user button.main"))
    wait_done(page)
    assert last_content(fake) == "When does it open? Today?"
    # A stored conversation keeps its files.
    page.reload()
    page.wait_for_selector(".chats li", state="attached")
    if size == "phone":
        click_seen(page, page.locator("#show-side"))
    click_seen(page, page.locator(".chats .open"))
    click_seen(page, page.locator(".message.user").get_by_label("Previous version"))
    assert page.locator(".message.user .chip").count() == 1


@pytest.mark.parametrize(
    "name, content, why",
    [
        ("picture.png", b"\x89PNG\r\n\x1a\n\x00\x00", "“picture.png” is not plain text"),
        ("latin.txt", b"caf\xe9", "“latin.txt” is not plain text"),
        ("paper.pdf", b"%PDF-1.4\nplain", "“paper.pdf” is not plain text"),
        ("zeros.txt", b"a\x00b", "“zeros.txt” is not plain text"),
        ("empty.txt", b"", "“empty.txt” is empty."),
        ("big.log", b"x" * (512 * 1024 + 1), "“big.log” is too large (512 KB); the limit is 512 KB."),
    ],
)
def test_what_is_no_text_is_refused_by_name(fake, watched, name, content, why):
    page = watched.open(fake.url, viewport=SIZES["phone"])
    attach(page, NOTES, {"name": name, "mimeType": "", "buffer": content})
    page.wait_for_selector("#banner:not([hidden])")
    assert why in page.inner_text("#banner")
    assert page.locator(".composer .chip").all_inner_texts() == ["notes.txt\n26 bytes"], "the others are taken"


def test_files_are_dropped_and_pasted_and_few(fake, watched):
    page = watched.open(fake.url)
    give = """([kind, names]) => {
      const data = new DataTransfer();
      for (const name of names) data.items.add(new File([new Uint8Array([0xff, 0xfe, 0x68, 0, 0x69, 0])], name));
      const event = kind === 'drop' ? new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true})
        : new ClipboardEvent('paste', {clipboardData: data, bubbles: true, cancelable: true});
      document.querySelector('#prompt').dispatchEvent(event);
    }"""
    page.evaluate(give, ["drop", ["a.txt"]])
    page.wait_for_selector(".composer .chip")
    page.evaluate(give, ["paste", ["b.txt", "a.txt"]])
    page.wait_for_selector(".composer .chip >> nth=1")
    click_seen(page, "Send")  # files alone are a message
    wait_done(page)
    assert [part["text"] for part in last_content(fake)] == [
        "--- File: a.txt ---\nhi\n",
        "--- File: b.txt ---\nhi\n",
    ], "UTF-16 is text, too"
    assert page.inner_text("h1.title") == "a.txt"
    page.evaluate(give, ["drop", [f"{i}.txt" for i in range(11)]])
    page.wait_for_selector("#banner:not([hidden])")
    assert "“10.txt” is left out: a message takes 10 files at most." in page.inner_text("#banner")


@both
def test_a_cut_answer_is_continued(fake, watched, size):
    page = watched.open(fake.url, viewport=SIZES[size])
    fake.reply(chunks=[chunk({"content": "One, two,"}), chunk({}, "length"), USAGE])
    type_and_send(page, "Count.")
    wait_done(page)
    assert "stopped at max tokens" in page.inner_text(".message.assistant")
    fake.reply(chunks=says(" three."))
    click_seen(page, "Continue")
    page.wait_for_function(
        "() => document.querySelector('.message.assistant > .markdown').textContent === 'One, two, three.'"
    )
    wait_done(page)
    request = fake.requests[-1][0]
    assert request["continue_final_message"] is True and request["add_generation_prompt"] is False
    assert request["messages"][-1] == {"role": "assistant", "content": "One, two,"}
    assert page.locator(".message.assistant").count() == 1 and page.get_by_text("Continue", exact=True).count() == 0
    # A stopped stream can be continued, too; an answer that another message follows cannot.
    fake.reply(chunks=[chunk({"content": "half"})], cut=True)
    type_and_send(page, "More.")
    page.wait_for_selector(".error")
    assert page.get_by_text("Continue", exact=True).is_visible()
    type_and_send(page, "Something else.")
    wait_done(page, 3)
    assert not page.get_by_text("Continue", exact=True).is_visible()


def test_a_cut_answer_of_the_model_goes_on_where_it_stopped(server, watched):
    page = watched.open(server.url + "/")
    click_seen(page, page.locator("#show-settings"))
    page.fill("#set-temperature", "0")
    for limit in ("40", "10"):
        page.keyboard.press("Control+Shift+O")
        page.fill("#set-max_tokens", limit)
        type_and_send(page, "Name the months of the year in order.")
        wait_done(page)
        if limit == "40":
            whole = page.inner_text(".message.assistant > .markdown")
    before = page.inner_text(".message.assistant > .markdown")
    click_seen(page, "Continue")
    page.wait_for_function(
        "(before) => document.querySelector('.message.assistant > .markdown').textContent.length > before.length + 5",
        arg=before,
    )
    wait_done(page)
    after = page.inner_text(".message.assistant > .markdown")
    assert after.startswith(before) and whole.startswith(after.rstrip()), (before, after, whole)


@both
def test_answers_are_made_again_and_conversations_renamed(fake, watched, size):
    page = watched.open(fake.url, viewport=SIZES[size])
    type_and_send(page, "hello")
    wait_done(page)
    fake.reply(chunks=says("another"))
    click_seen(page, "Answer again")
    page.wait_for_function("() => document.querySelector('.message.assistant > .markdown')?.textContent === 'another'")
    wait_done(page)
    if not page.locator("#side").is_visible():
        click_seen(page, page.locator("#show-side"))
    for text, key, title in (
        ("Greetings", "Enter", "Greetings"),
        ("dropped", "Escape", "Greetings"),
        ("", "Enter", "Greetings"),
    ):
        click_seen(page, page.locator("#side").get_by_label("Rename"))
        page.keyboard.press("Control+A")
        page.keyboard.type(text) if text else page.keyboard.press("Delete")
        page.keyboard.press(key)
        assert page.inner_text(".chats .open") == title
    click_seen(page, page.locator("#side").get_by_label("Close the list"))
    assert page.inner_text("h1.title") == "Greetings"
    page.reload()
    page.wait_for_selector(".chats li", state="attached")
    assert page.text_content(".chats .open") == "Greetings"


@both
def test_system_prompts_are_chosen_kept_and_deleted(fake, watched, size):
    page = watched.open(fake.url, viewport=SIZES[size])
    click_seen(page, page.locator("#show-settings"))
    page.select_option("#preset", "Code review")
    assert page.input_value("#set-system").startswith("Review the code")
    assert not page.get_by_text("Save as preset").is_visible()
    page.fill("#set-system", "Answer like a pirate.")
    assert page.input_value("#preset") == ""
    click_seen(page, "Save as preset")
    page.keyboard.type("Pirate")
    keep(page, f"preset-{size}")
    click_seen(page, page.locator("#settings").get_by_role("button", name="Save", exact=True))
    assert page.input_value("#preset") == "own:Pirate"
    page.reload()
    page.wait_for_selector("#prompt")
    click_seen(page, page.locator("#show-settings"))
    page.select_option("#preset", "Summary")
    page.select_option("#preset", "own:Pirate")
    click_seen(page, page.locator("#settings").get_by_label("Close settings"))
    type_and_send(page, "hello")
    wait_done(page)
    assert fake.requests[-1][0]["messages"][0] == {"role": "system", "content": "Answer like a pirate."}
    click_seen(page, page.locator("#show-settings"))
    click_seen(page, "Delete preset")
    assert page.locator("#preset option").all_inner_texts()[-1] == "Tutor"
    assert page.input_value("#set-system") == "Answer like a pirate.", "what a conversation uses stays"


@both
def test_the_model_is_shown_with_its_context(server, watched, size):
    page = watched.open(server.url + "/", viewport=SIZES[size])
    page.wait_for_function("() => document.querySelector('#model').textContent === 'smol'")
    assert page.inner_text("#context") == "context 2,048 tokens"
    assert page.locator("#model").is_visible() and page.locator("#context").is_visible()
