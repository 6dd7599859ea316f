"""A model file that changes while the server runs does not change answers, and is reported."""

import os
import shutil
import time

import httpx
import pytest
from conftest import serving, small_model


def ask(server):
    answer = httpx.post(
        server.url + "/v1/completions",
        json={"prompt": [3, 5, 7, 11], "max_tokens": 20, "temperature": 0, "return_token_ids": True},
    )
    assert answer.status_code == 200
    return answer.json()["choices"][0]["token_ids"]


def told(server, text, seconds=15):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if any(text in line for line in server.log):
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("flags", [(), ("--no-weight-cache",)])
def test_answers_stay_and_the_log_says_so(tmp_path, flags):
    path = tmp_path / "model.gguf"
    shutil.copy(small_model(), path)
    with serving(path, *flags) as server:
        before = ask(server)
        with open(path, "r+b") as file:  # in place: the same inode, other bytes
            file.seek(os.path.getsize(path) // 2)
            file.write(bytes(os.path.getsize(path) // 2))
        assert told(server, "was changed after it was loaded")
        assert ask(server) == before
        assert "pagoda:model_files_unchanged" in (metrics := httpx.get(server.url + "/metrics").text)
        assert [
            line.split()[-1] for line in metrics.splitlines() if line.startswith("pagoda:model_files_unchanged")
        ] == ["0"]
        os.truncate(path, 100)
        assert ask(server) == before
        os.remove(path)
        assert told(server, "was deleted after it was loaded")
        assert ask(server) == before
