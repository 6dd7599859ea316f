#!/usr/bin/env python3
"""Makes the pictures of the page in README and docs: a real server with a small pool, a real browser, real load.

    $(script/setup --tier browser) docs/pictures/make.py

Wants build/pagoda, the default model and Chromium. Writes page-*.png beside this file."""

import concurrent.futures
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/tiers/browser")]

import httpx  # noqa: E402
from browser_page import launched, send, wait_done  # noqa: E402
from conftest import default_model, serving  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
FLAGS = (
    "--max-model-len",
    "1024",
    "--served-model-name",
    "SmolLM2-135M-Instruct",
    "--kv-cache-memory-bytes",
    "60M",
    "--swap-space",
    "16M",
    "--max-num-seqs",
    "16",
    "--max-queue-time",
    "600",
)
DESK, PHONE = {"viewport": {"width": 1280, "height": 800}}, {"viewport": {"width": 390, "height": 800}}
DARK = {"color_scheme": "dark"}
LOOKS = {
    "": DESK,
    "-dark": {**DESK, **DARK},
    "-phone": PHONE,
    "-phone-dark": {**PHONE, **DARK},
}  # by what a file's name ends with
RULES = (
    "You are a guide of a museum of clocks and answer each visitor in a few friendly sentences, never more than five of"
    " them. " * 3
)
QUESTIONS = [
    "What is the oldest clock here?",
    "Why do pendulums keep time?",
    "Who made the first watch?",
    "How does a quartz clock work?",
    "Where can I eat?",
    "What should children see?",
    "Tell me of water clocks.",
    "When do you close?",
]


def ask(url, question, **more):
    body = {
        "messages": [{"role": "system", "content": RULES}, {"role": "user", "content": question}],
        "max_tokens": 400,
        "ignore_eos": True,
        "temperature": 0.9,
        **more,
    }
    try:
        answer = httpx.post(url + "/v1/chat/completions", json=body, timeout=60)
        if answer.status_code != 200:
            print(answer.text, file=sys.stderr)
    except httpx.HTTPError:
        pass  # the server has gone: the pictures are taken


def open_page(url, where, look):
    """`look`: of LOOKS."""
    page = launched().new_context(**LOOKS[look]).new_page()
    page.goto(url + where)
    return page


def chat(url, look):
    page = open_page(url, "/", look)
    page.wait_for_selector("#prompt")
    page.wait_for_function("() => document.querySelector('#model').textContent")
    with page.expect_file_chooser() as chooser:
        page.get_by_label("Attach text files").click()
    chooser.value.set_files([{"name": "years.txt", "mimeType": "text/plain", "buffer": b"1900 2000 2023 2024\n"}])
    page.wait_for_selector(".composer .chip")
    send(page, "Write a Python function that says whether a year is a leap year.")
    wait_done(page)
    page.screenshot(path=HERE / f"page-chat{look}.png")


def engine(url):
    pages = {look: open_page(url, "/#engine", look) for look in LOOKS}
    for page in pages.values():
        page.wait_for_function("() => document.querySelector('.live-status').textContent === 'live'")
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        for question in QUESTIONS:
            pool.submit(ask, url, question)
        pool.submit(ask, url, "Name ten kinds of clocks.", n=4)
        pool.submit(
            ask, url, "How old is the museum?", beam_width=4, use_beam_search=True, temperature=0, max_tokens=200
        )
        page.wait_for_function("() => document.querySelectorAll('.queue tr.running').length >= 8", timeout=60_000)
        time.sleep(1)
        for question in QUESTIONS * 2:
            pool.submit(ask, url, question)
        page.wait_for_function(
            "() => document.querySelectorAll('.queue-group:not([hidden])').length >= 1", timeout=60_000
        )
        time.sleep(1.5)
        for page in pages.values():
            page.get_by_role("button", name="Pause", exact=True).click()
        for look, page in pages.items():
            page.screenshot(path=HERE / f"page-engine{look}.png")


def lesson(url):
    page = open_page(url, "/#lessons", "")
    page.wait_for_selector("#lesson-beams")
    page.wait_for_function("() => document.querySelector('#model').textContent")
    page.click("#lesson-beams")
    page.wait_for_function(
        "() => / step [1-9]/.test(document.querySelector('.live-status')?.textContent)", timeout=60_000
    )
    page.evaluate(
        "() => { const s = document.querySelector('.engine input[type=range]'); s.value = 40; s.dispatchEvent(new"
        " Event('input')); }"
    )
    page.wait_for_timeout(300)
    page.screenshot(path=HERE / "page-lesson.png")


def compare(url):
    page = open_page(url, "/", "")
    page.wait_for_selector("#texts")
    page.fill(
        "#texts",
        "A cat sleeps on the sofa.\nA kitten naps on the couch.\nA dog runs through the park.\nThe train to Berlin"
        " leaves at nine.\nTrains from Paris arrive in the evening.",
    )
    page.click("#compare")
    page.wait_for_selector(".matrix")
    page.wait_for_function("() => / in \\d/.test(document.querySelector('.compare [role=status]').textContent)")
    page.screenshot(path=HERE / "page-compare.png")


def main():
    with serving(default_model(), *FLAGS) as server:
        for look in LOOKS:
            chat(server.url, look)
        engine(server.url)
    with serving(default_model(), *FLAGS[:4], "--kv-cache-memory-bytes", "24M") as server:
        lesson(server.url)
    with serving(
        default_model(), *FLAGS[:4], "--runner", "pooling", "--pooler-config", '{"pooling_type": "MEAN"}'
    ) as server:
        compare(server.url)


if __name__ == "__main__":
    main()
