"""`pagoda kv` on folders that were not written by a server: output and errors."""

import os
import subprocess

import pytest
from conftest import binary


def kv(action, path, code=0):
    done = subprocess.run([binary(), "kv", action, str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    assert code == 0 or len(done.stderr.splitlines()) == 1
    return done.stdout + done.stderr


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "kv"
    path.mkdir(mode=0o700)
    return path


def test_an_empty_folder(folder):
    assert "0.0 MiB  in 0 files" in kv("list", folder)
    assert "0 rows, of which 0 are damaged; 0 bytes are torn" in kv("verify", folder)
    assert "removed 0.0 MiB" in kv("clear", folder)


@pytest.mark.parametrize("action", ["list", "verify", "clear"])
def test_no_folder_of_ours(action, folder, tmp_path):
    assert "No such file" in kv(action, tmp_path / "missing", code=2)
    assert not (tmp_path / "missing").exists()
    (tmp_path / "link").symlink_to(folder)
    assert "is a link" in kv(action, tmp_path / "link", code=2)
    (tmp_path / "file").write_text("x")
    assert "is not a folder" in kv(action, tmp_path / "file", code=2)
    folder.chmod(0o755)
    assert "mode 0700" in kv(action, folder, code=2)


def test_what_is_not_whole_is_seen_and_removed(folder):
    torn = folder / "0000000000000007.kv"
    torn.write_bytes(b"PDKVSEG1" + os.urandom(9000))
    torn.chmod(0o600)
    other = folder / "notes.txt"
    other.write_text("mine")
    other.chmod(0o600)
    assert "1 files" in kv("list", folder)
    assert "0 rows, of which 0 are damaged; 9008 bytes are torn" in kv("verify", folder)
    kv("clear", folder)
    assert sorted(path.name for path in folder.iterdir()) == ["lock", "notes.txt"]
