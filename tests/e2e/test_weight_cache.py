"""The cache of packed weights, from outside: pack, list, clear; what a server maps; who makes a file."""

import os
import pathlib
import shutil
import signal
import subprocess
import time

import httpx
import pytest
from conftest import binary, serving, small_model


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


def copy_of_model(folder):
    path = folder / "model.gguf"
    shutil.copyfile(small_model(), path)
    return path


def serve(cache, model, *flags):
    return serving(
        model,
        *flags,
        "--served-model-name",
        "model",
        "--kv-cache-memory-bytes",
        "64M",
        env={**os.environ, "PAGODA_CACHE": str(cache)},
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
    with serve(cache, model) as first, serve(cache, model) as second:
        assert answer(first) == expected and answer(second) == expected
        (file,) = packed(cache)
        for server in first, second:
            assert str(file) in maps(server) and str(model) not in maps(server)
        model.write_bytes(b"\x55" * model.stat().st_size)
        model.unlink()
        run(cache, "cache", "clear")
        assert answer(first) == expected and answer(second) == expected


def test_ranks(cache, tmp_path):
    model = copy_of_model(tmp_path)
    for _ in range(2):
        with serve(cache, model, "--tensor-parallel-size", "2") as server:
            answer(server)
        assert len(packed(cache)) == 2


def test_a_changed_or_damaged_file_is_made_anew(cache, tmp_path):
    model = copy_of_model(tmp_path)
    with serve(cache, model) as server:
        expected = answer(server)
    (file,) = packed(cache)
    whole = file.read_bytes()
    for damage in (whole[: len(whole) // 2], b"", whole[:9000] + bytes([whole[9000] ^ 1]) + whole[9001:]):
        file.chmod(0o600)
        file.write_bytes(damage)
        file.chmod(0o400)
        with serve(cache, model) as server:
            assert answer(server) == expected
        assert packed(cache) == [file] and file.stat().st_size == len(whole)


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
