"""The container image: it is small, and serves as an unprivileged user on a read-only root."""

import contextlib
import gzip
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time

import httpx
import pytest
from conftest import ROOT, default_model

MOST_BYTES = 60_000_000  # unpacked


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """Returns the settings and the root folder of the image."""
    if shutil.which("mmdebstrap") is None or os.geteuid() != 0:
        pytest.skip("mmdebstrap as root makes the image")
    folder = tmp_path_factory.mktemp("image")
    given = os.environ.get("PAGODA_IMAGE")
    if not given:
        made = subprocess.run(
            [ROOT / "script/package", "--to", folder, "image"], capture_output=True, text=True, timeout=1200
        )
        if made.returncode and "E: " in made.stderr:
            pytest.skip(f"no Debian root could be made here: {made.stderr[-300:]}")
        assert made.returncode == 0, made.stderr[-2000:]
        given = made.stdout.strip().splitlines()[-1]
    with tarfile.open(given) as archive:
        archive.extractall(folder / "image")  # a trusted archive
    (manifest,) = json.loads((folder / "image/manifest.json").read_text())
    settings = json.loads((folder / "image" / manifest["Config"]).read_text())
    (layer,) = (folder / "image" / name for name in manifest["Layers"])
    root = folder / "root"
    root.mkdir()
    subprocess.run(["tar", "-xf", layer, "-C", root], check=True, timeout=120)
    return settings, root, layer, manifest["RepoTags"][0]


def test_it_is_small_and_says_how_it_is_run(image):
    settings, _, layer, name = image
    unpacked = layer.stat().st_size
    print(
        f"{name}: {unpacked / 1e6:.1f} MB unpacked, {len(gzip.compress(layer.read_bytes(), 6)) / 1e6:.1f} MB compressed"
        " by gzip"
    )
    assert unpacked < MOST_BYTES
    config = settings["config"]
    assert (
        config["User"] == "65532:65532"
        and config["Entrypoint"] == ["pagoda"]
        and config["ExposedPorts"] == {"8000/tcp": {}}
    )
    assert config["Healthcheck"]["Test"][0] == "CMD" and config["Healthcheck"]["Interval"] == 10_000_000_000
    assert "HF_HOME=/models/huggingface" in config["Env"]


def test_it_holds_what_the_program_needs_and_no_more(image):
    _, root, _, _ = image
    names = {path.name for folder in ("usr/bin", "usr/sbin") for path in (root / folder).iterdir()}
    assert "pagoda" in names and not names & {"perl", "dpkg", "apt", "apt-get", "openssl", "mount", "su"}, names
    set_uid = [
        path for path in root.rglob("*") if not path.is_symlink() and path.is_file() and path.stat().st_mode & 0o6000
    ]
    assert not set_uid
    assert (root / "etc/ssl/certs/ca-certificates.crt").read_text().count("BEGIN CERTIFICATE") > 50
    # The list of packages, for scanners and licences.
    listed = {path.name for path in (root / "var/lib/dpkg/status.d").iterdir()}
    assert {"pagoda", "libc6", "libzmq5", "libedit2", "bash"} <= listed
    for name in listed - {"gcc-12-base"}:
        assert (root / f"usr/share/doc/{name}/copyright").resolve().exists() or (
            root / f"usr/share/doc/{name}"
        ).is_symlink(), name


@contextlib.contextmanager
def container(root, settings, models, port, events):
    """Runs the entry point as the image's user, without privileges: its root is read-only, with separate /models and
    /tmp."""
    user = settings["config"]["User"].split(":")[0]
    shutil.copy(default_model(), models / "model.gguf")
    os.chown(models, int(user), int(user))
    command = [
        *settings["config"]["Entrypoint"],
        "serve",
        "/models/model.gguf",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--kv-cache-memory-bytes",
        "64MiB",
        "--kv-events-config",
        json.dumps({"enable_kv_cache_events": True, "endpoint": f"tcp://*:{events}"}),
    ]
    # As in a container engine; the image itself has no chroot or setpriv.
    mounts = (
        f'mount --bind "{root}" "{root}" && mount --rbind /proc "{root}/proc" && mount --bind "{models}"'
        f' "{root}/models" && mount -t tmpfs tmpfs "{root}/tmp" && mount -o remount,bind,ro "{root}" && exec "$@"'
    )
    enter = "import ctypes, os, sys, warnings; " + "; ".join(
        [
            "root, user, *env = sys.argv[1:sys.argv.index('--')]",
            "command = sys.argv[sys.argv.index('--') + 1:]",
            "env = dict(pair.split('=', 1) for pair in env)",
            "os.chroot(root)",
            "os.chdir('/')",
            "os.setgroups([])",
            "ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)",  # no new privileges
            "os.setgid(int(user))",
            "os.setuid(int(user))",
            "os.execvpe(command[0], command, env)",
        ]
    )
    inside = [sys.executable, "-c", enter, str(root), user, *settings["config"]["Env"], "--", *command]
    process = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", mounts, "sh", *inside],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def health(root, settings):
    check = settings["config"]["Healthcheck"]["Test"][1:]
    return subprocess.run(["chroot", str(root), *check], capture_output=True, timeout=30).returncode


def test_it_answers_read_only_and_as_nobody(image, tmp_path):
    settings, root, _, _ = image
    port = 8000  # the port of the health check
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            pytest.skip("port 8000 is taken, and the health check is about it")
    assert health(root, settings) != 0, "nothing serves yet"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        events = probe.getsockname()[1]
    with container(root, settings, tmp_path, port, events) as process:
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"http://127.0.0.1:{port}/health", timeout=5).status_code == 200:
                    break
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        assert "Uid:\t65532\t65532" in status and "CapEff:\t0000000000000000" in status
        answer = httpx.post(
            f"http://127.0.0.1:{port}/v1/chat/completions",
            timeout=120,
            json={
                "messages": [{"role": "user", "content": "What is the capital of Japan?"}],
                "temperature": 0,
                "max_tokens": 20,
            },
        )
        assert answer.status_code == 200 and "Tokyo" in answer.json()["choices"][0]["message"]["content"], answer.text
        assert health(root, settings) == 0
    assert process.returncode == 0, "drained"
