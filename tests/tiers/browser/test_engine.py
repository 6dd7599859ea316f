"""The live view of the engine: the map shows what /debug/kv reports, queued requests show their reasons, and a busy
engine does not slow the page down."""

import concurrent.futures
import json
import re
import subprocess
import time

import httpx
import pytest
from browser_page import browser, click_seen, keep, send, wait_done, watched  # noqa: F401
from conftest import binary, default_model, serving

SMALL_POOL = (
    "--max-model-len",
    "512",
    "--served-model-name",
    "smol",
    "--kv-cache-memory-bytes",
    "16M",
    "--swap-space",
    "16M",
)


@pytest.fixture(scope="module")
def small():
    with serving(default_model(), *SMALL_POOL) as running:
        yield running


def ask(server, prompt, **more):
    body = {"model": "smol", "prompt": prompt, "temperature": 0.8, "ignore_eos": True, **more}
    return httpx.post(server.url + "/v1/completions", json=body, timeout=120)


def legend(page):
    return page.evaluate(
        "() => Object.fromEntries([...document.querySelectorAll('.legend li[data-kind]')].map((li) => [li.dataset.kind,"
        " Number(li.dataset.count)]))"
    )


def painted(page):
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def move_to(page, at):
    page.evaluate(
        "(at) => { const s = document.querySelector('.engine input[type=range]'); s.value = at; s.dispatchEvent(new"
        " Event('input')); }",
        at,
    )
    painted(page)


def frames(url, seconds, path="/debug/live"):
    """Returns the frames that the stream sends in `seconds`."""
    out, until = [], time.monotonic() + seconds
    with httpx.stream("GET", url + path, timeout=seconds + 5) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        for line in response.iter_lines():
            if line.startswith("data: "):
                out.append(json.loads(line[6:]))
            if time.monotonic() > until:
                break
    return out


def test_the_map_is_what_the_engine_says(small, watched):
    page = watched.open(small.url + "/#engine", wait=".kvmap")
    page.wait_for_function("() => document.querySelector('.live-status').textContent === 'live'")
    ask(small, "The quick brown fox " * 20, max_tokens=8)
    page.wait_for_function("() => document.querySelector('.queue tbody').textContent === 'idle'")
    time.sleep(0.5)
    kv = httpx.get(small.url + "/debug/kv").json()
    counts = legend(page)
    assert counts["free"] + counts["cached"] == kv["num_free_blocks"]
    assert counts["held"] + counts["shared"] == kv["num_blocks"] - kv["num_free_blocks"]
    assert counts["cached"] > 0
    page.focus(".kvmap")
    page.keyboard.press("ArrowRight")
    assert "Block 0" in page.inner_text(".panel >> nth=0")
    keep(page, "engine-idle")


def test_preemption_and_the_queue_are_seen_as_they_happen(small, watched):
    page = watched.open(small.url + "/#engine", wait=".kvmap")
    page.wait_for_function("() => document.querySelector('.live-status').textContent === 'live'")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(ask, small, f"{i} " + "word " * 150, max_tokens=200) for i in range(6)]
        why = page.wait_for_function("""() => {
          const why = [...document.querySelectorAll('.queue-group:not([hidden]) summary')].map((line) => line.textContent);
          return document.querySelector('.queue tr.running') && why.length && why;
        }""").json_value()
        keep(page, "engine-busy")
        assert all(call.result().status_code == 200 for call in calls)
    assert all(re.fullmatch(r"\d+ (waiting|swapped out): \w.+", line) for line in why), why
    page.wait_for_function("() => document.querySelector('.queue tbody').textContent === 'idle'")
    totals = httpx.get(small.url + "/debug/kv").json()["totals"]
    assert totals["preemptions"] > 0


@pytest.mark.parametrize("width", [1280, 390])
def test_one_screen_shows_the_engine_under_a_queue(watched, width):
    """The map, every curve and the reasons for waiting are all inside the window, with no column cut off."""
    with serving(default_model(), *SMALL_POOL, "--max-num-seqs", "2") as server:
        page = watched.open(server.url + "/#engine", wait=".kvmap", viewport={"width": width, "height": 800})
        page.wait_for_function("() => document.querySelector('.live-status').textContent === 'live'")
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            calls = [pool.submit(ask, server, f"{i} word", max_tokens=100) for i in range(12)]
            page.wait_for_function(
                r"() => /^\d+ waiting: no free sequence slot \(--max-num-seqs"
                r" 2\)$/.test(document.querySelector('.queue-group summary').textContent)"
            )
            page.wait_for_function("() => document.querySelectorAll('.queue tr.running').length === 2")
            click_seen(page, "Pause")
            keep(page, f"engine-queue-{width}")
            size = page.evaluate("""() => {
              const area = document.querySelector('.queue-area');
              const parts = [...document.querySelectorAll('.mapbox, .legend, .timeline, .curvebox, .queue-group:not([hidden]), .queue tr.running')];
              return {low: parts.map((part) => [part.className, part.getBoundingClientRect().bottom]).filter(([, bottom]) => bottom > innerHeight),
                small: parts.filter((part) => part.clientHeight < 15).map((part) => part.className),
                cut: [area.scrollWidth - area.clientWidth, document.documentElement.scrollWidth - innerWidth],
                cells: [...document.querySelectorAll('.queue tbody td')].filter((cell) => cell.scrollWidth > cell.clientWidth).length};
            }""")
            assert size == {"low": [], "small": [], "cut": [0, 0], "cells": 0}
            click_seen(page, page.locator(".queue-group summary >> visible=true"))
            waiting = int(page.inner_text(".queue-group summary").split()[0])
            page.wait_for_function(
                "(waiting) => document.querySelectorAll('.queue-group[open] li').length === waiting", arg=waiting
            )
            click_seen(page, "Resume")
            # A queue as long as this may be refused in part.
            assert all(call.result().status_code in (200, 429, 503) for call in calls)


def test_the_stream_follows_the_engine_step_by_step(small):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        reading = pool.submit(frames, small.url, 6)
        time.sleep(0.5)
        for call in [pool.submit(ask, small, "Once upon a time", max_tokens=64, n=3) for _ in range(2)]:
            assert call.result().status_code == 200
        httpx.get(small.url + "/health")
        time.sleep(0.3)
        ask(small, "x", max_tokens=4)
        time.sleep(5)
        ask(small, "y", max_tokens=4)  # so that the reader sees its time is over
        got = reading.result()
    assert [frame["type"] for frame in got[:2]] == ["hello", "snap"]
    assert got[0]["manager"] == "paged"
    deltas = list(got[1:])
    assert all(b["n"] == a["n"] + 1 for a, b in zip(deltas, deltas[1:]) if b["type"] == "delta")
    steps = [step[0] for frame in deltas for step in frame["steps"]]
    assert steps == list(range(steps[0], steps[0] + len(steps))), "every step is told once"
    kinds = {event[1] for frame in deltas for event in frame["events"]}
    assert {"fork", "copy"} <= kinds
    ended = [row for frame in deltas for row in frame["ended"]]
    assert len(ended) >= 3 and all(row[2] <= row[3] <= row[4] <= row[5] for row in ended)


def test_a_reader_of_every_step_gets_a_frame_for_each(small):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        reading = pool.submit(frames, small.url, 4, "/debug/live?every=step")
        time.sleep(0.5)
        assert ask(small, "Once upon a time", max_tokens=60).status_code == 200
        time.sleep(4)
        ask(small, "y", max_tokens=2)  # so that the reader sees its time is over
        got = reading.result()
    told = [frame["steps"] for frame in got[2:]]
    assert [frame["type"] for frame in got[:2]] == ["hello", "snap"] and all(
        frame["type"] == "delta" for frame in got[2:]
    )
    assert max(map(len, told)) == 1
    numbers = [step[0] for steps in told for step in steps]
    assert len(numbers) >= 60 and numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    wrong = httpx.get(small.url + "/debug/live?every=tenth")
    assert wrong.status_code == 400 and "'every' must be 'step'" in wrong.json()["error"]["message"]


def test_places_for_readers_are_few_and_come_back(small):
    streams = []
    for _ in range(4):
        stream = httpx.stream("GET", small.url + "/debug/live")
        streams.append(stream)
        assert stream.__enter__().status_code == 200
    assert httpx.get(small.url + "/debug/live").status_code == 429
    for stream in streams:
        stream.__exit__(None, None, None)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        with httpx.stream("GET", small.url + "/debug/live") as again:
            if again.status_code == 200:
                break
        time.sleep(0.1)
    else:
        pytest.fail("the places did not come back")
    assert httpx.get(small.url + "/debug/live", headers={"sec-fetch-site": "cross-site"}).status_code == 400


@pytest.mark.parametrize("manager", ["virtual", "reserved"])
def test_other_managers_are_drawn_as_they_are(manager, watched):
    flags = ["--scheduler", "orca"] if manager == "reserved" else []
    with serving(
        default_model(),
        "--max-model-len",
        "512",
        "--served-model-name",
        "smol",
        "--kv-cache-memory-bytes",
        "24M",
        "--kv-manager",
        manager,
        *flags,
    ) as server:
        page = watched.open(server.url + "/#engine", wait=".kvmap")
        page.wait_for_function("() => document.querySelector('.live-status').textContent === 'live'")
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            calls = [pool.submit(ask, server, "Tell me a story.", max_tokens=300) for _ in range(3)]
            page.wait_for_function("() => document.querySelectorAll('.queue tr.running').length >= 2")
            if manager == "virtual":
                page.wait_for_selector(".slot .mapped")
            keep(page, f"engine-{manager}")
            assert manager in page.inner_text(".engine")
            assert all(call.result().status_code == 200 for call in calls)


def test_ten_thousand_blocks_at_thirty_frames_a_second(server, watched):
    page = watched.open(server.url + "/#engine", wait=".kvmap")
    rate = page.evaluate("""async () => {
      const folder = document.querySelector('script[type=module]').src.replace(/[^/]*$/, '');
      const {LiveState} = await import(folder + 'livestate.js');
      const {KvMap} = await import(folder + 'kvmap.js');
      const state = new LiveState();
      const map = new KvMap(state, () => {});
      document.querySelector('.engine').append(map.node);
      state.apply({type: 'hello', boot: 'x', blocks: 10000, block_size: 16, groups: [{}]});
      const sequences = Array.from({length: 256}, (_, i) => [i, i, 0, 'resident', 600, 599, 0, -1, 0, 0, Array.from({length: 38}, (_, k) => (i * 38 + k) % 10000)]);
      const base = {step: 1, now: 1, available: 1, swap_free: 0, steps: [], events: [], ended: [], missed: 0, cached: [], prefixes: []};
      state.apply({type: 'snap', n: 0, requests: [], sequences, ...base});
      map.update();
      const begin = performance.now();
      const took = [];
      let frames = 0;
      while (performance.now() - begin < 1500) {
        const from = performance.now();
        const advance = sequences.flatMap((row) => [row[0], 600 + frames, 599 + frames, 0]);
        state.apply({type: 'delta', n: ++frames, requests: [], sequences: [], advance, ...base, prefixes: undefined});
        if (frames % 10 === 0) map.paint();
        map.update();
        took.push(performance.now() - from);
        await new Promise(requestAnimationFrame);
      }
      map.node.remove();
      return {rate: frames / 1.5, work: took.sort((a, b) => a - b)[took.length / 2 | 0]};
    }""")
    # The frame rate depends on the machine and its other load; the work per frame depends on the page.
    assert rate["work"] < 1000 / 30, rate


@pytest.mark.parametrize("lesson", ["samples", "beams", "prefix", "preemption"])
def test_a_lesson_shows_what_it_says(small, watched, lesson):
    page = watched.open(small.url + "/#lessons", wait=f"#lesson-{lesson}")
    page.wait_for_function("() => document.querySelector('#model').textContent === 'smol'")
    page.click(f"#lesson-{lesson}")
    page.wait_for_selector(".engine .card:visible", timeout=60_000)
    click_seen(page, page.get_by_role("button", name="Pause", exact=True))
    last = int(page.get_attribute(".engine input[type=range]", "max"))
    assert last >= {"samples": 160, "beams": 64, "prefix": 120, "preemption": 200}[lesson], "every step is recorded"
    seen = {"shared": 0, "pinned": 0, "beams": False, "waits": False}
    for at in range(0, last + 1, max(1, last // 30)):
        move_to(page, at)
        assert page.inner_text(".live-status").endswith(f"step {at} of {last}")
        counts = legend(page)
        seen["shared"] = max(seen["shared"], counts.get("shared", 0))
        seen["pinned"] = max(seen["pinned"], counts.get("pinned", 0))
        seen["beams"] |= page.locator(".beams li").count() >= 2
        seen["waits"] |= page.locator(".queue-group:visible").count() > 0
    assert {
        "samples": seen["shared"] > 0,
        "beams": seen["beams"] and seen["shared"] > 0,
        "prefix": seen["pinned"] > 0 and seen["shared"] > 0,
        "preemption": seen["waits"],
    }[lesson], seen
    keep(page, f"lesson-{lesson}")
    page.get_by_text("Back to live").click()
    page.wait_for_function("() => document.querySelector('.live-status').textContent === 'live'")


@pytest.mark.parametrize("width", [1280, 390])
def test_a_lesson_is_stepped_forth_and_back(small, watched, width, tmp_path):
    """Each step looks the same when reached forward, backward, and from a file of the recording."""
    page = watched.open(small.url + "/#lessons", wait="#lesson-beams", viewport={"width": width, "height": 800})
    page.wait_for_function("() => document.querySelector('#model').textContent === 'smol'")
    click_seen(page, page.locator("#lesson-beams"))
    page.wait_for_selector(".engine .card:visible", timeout=60_000)
    click_seen(page, page.get_by_role("button", name="Pause", exact=True))
    move_to(page, 0)
    forth = [(legend(page), page.inner_text(".beams"))]
    for _ in range(12):
        click_seen(page, "Step ▸")
        painted(page)
        forth.append((legend(page), page.inner_text(".beams")))
    assert len({json.dumps(one) for one in forth}) > 8
    for one in reversed(forth[:-1]):
        click_seen(page, "◂ Back")
        painted(page)
        assert (legend(page), page.inner_text(".beams")) == one
    with page.expect_download() as download:
        click_seen(page, page.get_by_label("Save the recording"))
    download.value.save_as(tmp_path / "beams.jsonl")
    with page.expect_file_chooser() as chooser:
        click_seen(page, page.get_by_label("Open a recording"))
    chooser.value.set_files(tmp_path / "beams.jsonl")
    page.wait_for_function("() => document.querySelector('.live-status').textContent.startsWith('beams.jsonl: step 0')")
    move_to(page, 12)
    assert (legend(page), page.inner_text(".beams")) == forth[12]


def test_a_simulated_run_is_a_file_that_the_page_steps_through(server, watched, tmp_path):
    file = tmp_path / "run.jsonl"
    subprocess.run(
        [
            binary(),
            "simulate",
            "--cost-model",
            "a100-40gb/opt-13b/tp1",
            "--workload",
            "sharegpt:rate=4,duration=10",
            "--live-out",
            file,
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    lines = file.read_text().splitlines()
    page = watched.open(server.url + "/#engine", wait=".kvmap")
    with page.expect_file_chooser() as chooser:
        page.get_by_label("Open a recording").click()
    chooser.value.set_files(file)
    page.wait_for_function("() => document.querySelector('.live-status').textContent.includes('run.jsonl')")
    last = sum(bool(json.loads(line)["steps"]) for line in lines[2:])
    assert int(page.get_attribute(".engine input[type=range]", "max")) == last > 100
    page.get_by_text("Step ▸").click()
    assert f"1 of {last}" in page.inner_text(".live-status")
    move_to(page, last // 2)
    page.wait_for_function("() => document.querySelectorAll('.queue tr.running').length > 0")
    keep(page, "engine-file")
    for text in ("{", '{"type":"hello"}', "[]"):
        file.write_text(text)
        with page.expect_file_chooser() as chooser:
            page.get_by_label("Open a recording").click()
        chooser.value.set_files(file)
        page.wait_for_selector("#banner:has-text('file')")
