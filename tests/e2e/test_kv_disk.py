"""--kv-disk: what a server computed is found by the next one, to the bit; and kill -9 at any moment does no harm."""

import os
import shutil
import subprocess

import httpx
import pytest
from conftest import binary, serving, small_model
from kv_disk import FLAGS, answer, kill_and_compare, kv, serve, tokens_on_disk, wait_for

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
    # The model's name and place are no part of what it computes.
    moved = tmp_path / "elsewhere.gguf"
    shutil.copyfile(small_model(), moved)
    with serve(folder, model=moved) as third:
        same, cached = answer(third)
        assert same == expected and cached >= 160
    # Other bits are another fingerprint.
    with serve(folder, "--kv-cache-dtype", "float32") as other:
        assert answer(other)[1] == 0
    assert "0 are damaged" in kv("verify", folder)


def test_resetting_the_prefix_cache_erases_it(folder):
    with serve(folder) as server:
        answer(server)
        wait_for(folder, 160)
        assert httpx.post(server.url + "/reset_prefix_cache", timeout=30).status_code == 200
        assert tokens_on_disk(folder) == 0
        assert sorted(path.name for path in folder.iterdir()) == ["lock"]
    with serve(folder) as server:
        assert answer(server)[1] == 0


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
        (["--device", "emulated"], "--kv-disk"),
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
