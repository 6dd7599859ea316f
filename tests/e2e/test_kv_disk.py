"""--kv-disk: a server finds the rows computed by an earlier one, bit-identical; kill -9 at any moment does no harm."""

import os
import re
import shutil
import subprocess
import time

import httpx
import pytest
from conftest import binary, serving, small_model
from kv_disk import FLAGS, PROMPT, answer, kill_and_compare, kv, serve, tokens_on_disk, wait_for

KILLS = int(os.environ.get("PAGODA_KV_KILLS", "30"))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "kv"


def test_a_restart_finds_what_was_computed(folder, tmp_path):
    with serving(small_model(), *FLAGS) as plain:
        expected, cached = answer(plain)
        assert cached == 0
    with serve(folder) as first:
        assert answer(first) == (expected, 0)
        wait_for(folder, 160)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in folder.iterdir())
    with serve(folder) as second:
        same, cached = answer(second)
        assert same == expected and cached >= 160
        assert answer(second, cache_salt="another")[1] == 0, "nobody else finds it"
    # The name and path of the model do not affect its K/V.
    moved = tmp_path / "elsewhere.gguf"
    shutil.copyfile(small_model(), moved)
    with serve(folder, model=moved) as third:
        same, cached = answer(third)
        assert same == expected and cached >= 160
    # A different type gives a different fingerprint.
    with serve(folder, "--kv-cache-dtype", "float32") as other:
        assert answer(other)[1] == 0
    assert "0 are damaged" in kv("verify", folder)


def test_resetting_the_prefix_cache_erases_it(folder):
    with serve(folder) as server:
        answer(server)
        wait_for(folder, 160)
        assert httpx.post(server.url + "/reset_prefix_cache", timeout=30).status_code == 200
        assert tokens_on_disk(folder) == 0
        metrics = httpx.get(server.url + "/metrics", timeout=30).text
        values = dict(re.findall(r"^pagoda:kv_disk_(\w+)(?:\{.*\})? (\S+)$", metrics, re.M))
        assert float(values["written_bytes_total"]) > float(values["bytes"]) == 0
        assert float(values["erased_blocks_total"]) >= 10 and float(values["errors_total"]) == 0
        assert sorted(path.name for path in folder.iterdir()) == ["lock"]
    with serve(folder) as server:
        assert answer(server)[1] == 0


def test_a_session_is_erased_and_others_stay(folder):
    text = PROMPT[: len(PROMPT) // 2]
    first, second = text + "One: " + text, text + "Two: " + text
    with serve(folder) as server:
        answer(server, first, prompt_cache_key="s1")
        answer(server, second, cache_hint={"session": "s2"})
    # The next process knows the owners of rows: the common prefix belonged to the first session when it was written.
    with serve(folder) as server:
        whole = answer(server, first, prompt_cache_key="s1")[1]
        kept = answer(server, second, cache_hint={"session": "s2"})[1]
        assert whole >= 160 and kept >= 160
        before = tokens_on_disk(folder)
        assert httpx.delete(server.url + "/admin/sessions/s1", timeout=30).status_code == 200
        assert 0 < tokens_on_disk(folder) < before
        assert answer(server, second, cache_hint={"session": "s2"})[1] == kept
        shared = answer(server, first, cache_hint={"session": "s3"})[1]
        assert 0 < shared < whole, "the beginning alone, which the second has used, too"
    assert "0 are damaged" in kv("verify", folder)


def test_removing_a_key_erases_what_it_left(folder, tmp_path):
    keys = tmp_path / "keys.yaml"
    names = ("alice", "bob", "carol")
    keys.write_text("keys:\n" + "".join(f"- {{name: {name}, key: {name}s-secret}}\n" for name in names))
    with serve(folder, "--api-key-file", str(keys)) as server:
        for name in names:
            answer(server, headers={"Authorization": f"Bearer {name}s-secret"})
        wait_for(folder, 3 * 320)
        before = tokens_on_disk(folder)
        keys.write_text("keys:\n" + "".join(f"- {{name: {name}, key: {name}s-secret}}\n" for name in names[1:]))
        deadline = time.monotonic() + 30
        while tokens_on_disk(folder) == before:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert tokens_on_disk(folder) == before * 2 // 3
        for name in names[1:]:
            assert answer(server, headers={"Authorization": f"Bearer {name}s-secret"})[1] == 304


def test_what_was_queued_is_written_when_the_server_ends(folder):
    with serve(folder) as server:
        answer(server)
        server.process.terminate()
        assert server.process.wait(30) == 0
    assert tokens_on_disk(folder) == 320


def test_sleeping_keeps_it(folder):
    with serve(folder) as server:
        expected, _ = answer(server)
        wait_for(folder, 304)
        for level in (1, 2):
            assert httpx.post(f"{server.url}/sleep?level={level}", timeout=30).status_code == 200
            assert httpx.post(server.url + "/wake_up", timeout=60).status_code == 200
            same, cached = answer(server)
            assert same == expected and cached >= 160


def test_what_was_edited_is_computed_again(folder):
    with serve(folder) as server:
        expected, _ = answer(server)
        wait_for(folder, 160)
    for path in folder.glob("*.kv"):
        data = bytearray(path.read_bytes())
        for at in range(5000, len(data), 3000):
            data[at] ^= 1
        path.write_bytes(data)
    assert "damaged" in kv("verify", folder, code=2)
    with serve(folder) as server:
        assert answer(server)[0] == expected


def test_one_server_has_the_folder(folder):
    with serve(folder):
        for arguments in (
            ["serve", str(small_model()), "--kv-disk", str(folder), "--port", "0"],
            ["kv", "clear", folder],
        ):
            done = subprocess.run([binary(), *arguments], capture_output=True, text=True, timeout=60)
            assert done.returncode == 2 and "another process uses" in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--no-enable-prefix-caching"], "needs --enable-prefix-caching"),
        (["--tensor-parallel-size", "2"], "needs --tensor-parallel-size 1"),
        (["--scheduler", "orca"], "needs --scheduler vllm"),
        (["--kv-disk-bytes", "1"], "--kv-disk-bytes"),
    ],
)
def test_flags_that_do_not_go_with_it(folder, flags, message):
    arguments = ["serve", str(small_model()), "--kv-disk", str(folder), "--port", "0", *flags]
    done = subprocess.run([binary(), *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and message in done.stderr, done.stderr


def test_a_folder_of_others_is_refused(folder):
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    arguments = ["serve", str(small_model()), "--kv-disk", str(folder), "--port", "0"]
    done = subprocess.run([binary(), *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "mode 0700" in done.stderr, done.stderr


def test_killed_at_any_moment(folder):
    hits = kill_and_compare(folder, KILLS)
    assert hits > 0
    print(f"{KILLS} kills, {hits} answers of {2 * KILLS} from the disk")
