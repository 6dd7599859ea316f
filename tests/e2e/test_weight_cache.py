"""The cache of packed weights, from outside: pack, list, clear; the files that a server maps; when files are made."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import httpx
import pytest
from conftest import binary, default_model, serving, small_model


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def run(cache, *arguments, code=0):
    done = subprocess.run(
        [binary(), *map(str, arguments)],
        env={**os.environ, "PAGODA_CACHE": str(cache)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == code, done.stderr
    return done.stdout


def packed(cache):
    return sorted((cache / "weights").glob("*.packed")) if (cache / "weights").exists() else []


def unfinished(cache):
    return list((cache / "weights").glob("*.tmp")) if (cache / "weights").exists() else []


def wait_for(condition, what, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"no {what} after {seconds} s"
        time.sleep(0.005)


def wait_until_packed(cache, count=1):
    wait_for(lambda: len(packed(cache)) == count, "packed file")


def copy_of_model(folder):
    path = folder / "model.gguf"
    shutil.copyfile(small_model(), path)
    return path


def serve(cache, model, *flags, **how):
    return serving(
        model,
        *flags,
        "--served-model-name",
        "model",
        "--kv-cache-memory-bytes",
        "64M",
        env={**os.environ, "PAGODA_CACHE": str(cache)},
        **how,
    )


def maps(server):
    return pathlib.Path(f"/proc/{server.process.pid}/maps").read_text()


def answer(server):
    body = {"model": "model", "prompt": "one two three", "max_tokens": 8, "temperature": 0, "logprobs": 3}
    response = httpx.post(server.url + "/v1/completions", json=body, timeout=60)
    assert response.status_code == 200, response.text
    choice = response.json()["choices"][0]
    return choice["text"], choice["logprobs"]["token_logprobs"]


def test_pack_list_clear(cache, tmp_path):
    model = copy_of_model(tmp_path)
    assert "0.0 MiB" in run(cache, "cache", "list")
    run(cache, "pack", model)
    files = packed(cache)
    assert len(files) == 1 and files[0].stat().st_mode & 0o777 == 0o400
    assert str(model) in run(cache, "cache", "list")
    inode = files[0].stat().st_ino
    run(cache, "pack", model)
    assert packed(cache)[0].stat().st_ino == inode
    run(cache, "cache", "clear")
    assert not list((cache / "weights").iterdir())
    assert str(model) not in run(cache, "cache", "list")


def test_pack_without_a_place_says_so(cache, tmp_path):
    cache.write_text("a file")
    model = copy_of_model(tmp_path)
    run(cache, "pack", model, code=2)
    run(cache, "pack", model, "--no-weight-cache", code=2)


def test_servers_share_the_file_and_let_the_model_go(cache, tmp_path):
    model = copy_of_model(tmp_path)
    with serve(cache, model, "--no-weight-cache") as alone:
        expected = answer(alone)
        assert str(model) not in maps(alone) and ".packed" not in maps(alone)
    assert not packed(cache)
    with serve(cache, model) as first:
        assert answer(first) == expected
        wait_until_packed(cache)
        with serve(cache, model) as second, serve(cache, model) as third:
            (file,) = packed(cache)
            for server in second, third:
                assert str(file) in maps(server) and str(model) not in maps(server)
            model.write_bytes(b"\x55" * model.stat().st_size)
            model.unlink()
            run(cache, "cache", "clear")
            for server in first, second, third:
                assert answer(server) == expected


def test_the_file_is_written_behind_the_first_answer(cache, tmp_path):
    model = copy_of_model(tmp_path)
    with serve(cache, model) as server:
        time.sleep(0.5)
        assert not packed(cache)  # no request has been sent, and the server has just started
        answer(server)
        wait_until_packed(cache)
        wait_for(lambda: server.metric("weight_cache_written_bytes") > 0, "written bytes")
        assert server.metric("weight_cache_written_bytes") == server.metric("weight_cache_write_bytes")
        assert server.metric("weight_cache_write_failures") == 0
        assert sum("packed weights are on disk for later starts" in line for line in server.log) == 1
    with serve(cache, model) as server:
        answer(server)
        assert server.metric("weight_cache_write_bytes") == 0


def test_two_servers_that_start_at_once(cache, tmp_path):
    model = copy_of_model(tmp_path)
    with serve(cache, model) as first, serve(cache, model) as second:
        assert answer(first) == answer(second)
        wait_until_packed(cache)
        assert first.metric("weight_cache_write_failures") == second.metric("weight_cache_write_failures") == 0
    assert len(packed(cache)) == 1 and not unfinished(cache)


def test_a_server_without_a_place_for_the_file_answers_and_says_why_once(cache, tmp_path):
    model = copy_of_model(tmp_path)
    cache.mkdir()
    (cache / "weights").write_text("a file")
    for flags in ((), ("--weight-cache-bytes", "1000")):
        with serve(cache, model, *flags) as server:
            answer(server)
            wait_for(lambda: server.metric("weight_cache_write_failures") == 1, "failure")
            answer(server)
            assert sum("packed weights are not kept on disk: " in line for line in server.log) == 1
        if (cache / "weights").is_file():
            (cache / "weights").unlink()


def test_a_full_disk(cache, tmp_path):
    model = copy_of_model(tmp_path)
    cache.mkdir()
    mount = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs -o size=64k none {cache} && exec "$@"', "sh"]
    if subprocess.run([*mount, "true"], capture_output=True).returncode != 0:
        pytest.skip("no right to mount a small disk")
    with serve(cache, model, "--no-sandbox", launcher=mount) as server:
        answer(server)
        wait_for(lambda: server.metric("weight_cache_write_failures") == 1, "failure")
        (line,) = [line for line in server.log if "packed weights are not kept on disk: " in line]
        assert "has no space for" in line
        answer(server)


def test_ranks(cache, tmp_path):
    model = copy_of_model(tmp_path)
    with serve(cache, model, "--tensor-parallel-size", "2") as server:
        expected = answer(server)
        wait_until_packed(cache, 2)
    with serve(cache, model, "--tensor-parallel-size", "2") as server:
        assert answer(server) == expected
        assert len(packed(cache)) == 2


def test_a_changed_or_damaged_file_is_made_anew(cache, tmp_path):
    model = copy_of_model(tmp_path)
    run(cache, "pack", model)
    (file,) = packed(cache)
    with serve(cache, model) as server:
        expected = answer(server)
    whole = file.read_bytes()
    for damage in (whole[: len(whole) // 2], b"", whole[:9000] + bytes([whole[9000] ^ 1]) + whole[9001:]):
        file.chmod(0o600)
        file.write_bytes(damage)
        file.chmod(0o400)
        with serve(cache, model) as server:
            assert answer(server) == expected
            wait_for(lambda: packed(cache) == [file] and file.stat().st_size == len(whole), "whole file")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_ended_while_writing(cache, number):
    with serve(cache, default_model()) as server:
        expected = answer(server)
        wait_for(lambda: unfinished(cache) or packed(cache), "file in the making", 10)
        began = time.monotonic()
        code = server.stop(number)
        took = time.monotonic() - began
    if number != signal.SIGKILL:
        assert code == 0 and not unfinished(cache)
        assert took < 5
    if packed(cache):
        pytest.skip("the disk was too fast")
    with serve(cache, default_model()) as server:
        assert answer(server) == expected
        wait_until_packed(cache)
    assert [path.suffix for path in (cache / "weights").iterdir()] == [".packed"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ended_while_loading(cache, number):
    """A signal at any moment of the start ends the server at once, with exit code 0 and without leftover files."""
    for wait in (0.01, 0.03, 0.06, 0.1, 0.2, 0.4):
        process = subprocess.Popen(
            [binary(), "serve", default_model(), "--port", "0", "--tensor-parallel-size", "2" if wait > 0.05 else "1"],
            env={**os.environ, "PAGODA_CACHE": str(cache)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(wait)
        # Before the handlers are installed, the signal has its default effect.
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        caught = int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16)
        process.send_signal(number)
        began = time.monotonic()
        said = process.communicate(timeout=60)[1]  # returns after all ranks have ended, since they inherit the pipe
        assert time.monotonic() - began < 5, said
        assert process.returncode == (0 if caught >> (number - 1) & 1 else -number), said
        assert not unfinished(cache)


def test_a_command_that_ends_soon_writes_its_file_first(cache, tmp_path):
    model = copy_of_model(tmp_path)
    run(cache, "generate", model, "one two three", "--max-tokens", "4")
    assert len(packed(cache)) == 1 and not unfinished(cache)


def test_killed_while_packing(cache, tmp_path):
    model = copy_of_model(tmp_path)
    for wait in (0.005, 0.02, 0.05):
        process = subprocess.Popen(
            [binary(), "pack", str(model)],
            env={**os.environ, "PAGODA_CACHE": str(cache)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait()
    run(cache, "pack", model)
    assert len(packed(cache)) == 1
    assert [path.suffix for path in (cache / "weights").iterdir()] == [".packed"]
