"""The commands of the README's section "Install", each in an empty Debian 12 root, followed by a chat."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


def commands():
    """Returns the installing commands and the chat command."""
    section = (ROOT / "README.md").read_text().split("## Install\n", 1)[1].split("\n## ", 1)[0]
    lines = [re.sub(r"\s+#.*", "", line.strip()) for line in section.splitlines() if line.startswith("    ")]
    return lines[:-1], lines[-1]


def run(*command, timeout=900, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=timeout, **options)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def empty_debian(tmp_path_factory, pagoda_model):
    """Returns a function that makes an empty root with only what the package's tool needs: Python for pip, apt for a
    .deb."""
    if shutil.which("mmdebstrap") is None or os.geteuid() != 0:
        pytest.skip("mmdebstrap as root makes the empty root")

    def make(*names):
        root = tmp_path_factory.mktemp("root") / "root"
        made = subprocess.run(
            [
                "mmdebstrap",
                "--quiet",
                "--variant=essential",
                *(f"--include={name}" for name in names),
                "bookworm",
                root,
                "/etc/apt/sources.list.d/debian.sources",
            ],
            capture_output=True,
            text=True,
            timeout=900,
        )
        if made.returncode:
            pytest.skip(f"no Debian root could be made here: {made.stderr[-300:]}")
        assert not (root / "usr/bin/cc").exists()
        (root / "dist").mkdir()
        shutil.copy(pagoda_model, root / "model.gguf")
        return root

    return make


def inside(root, command):
    """Runs a shell command in the root, without network, with /proc for the available memory."""
    mounts = f'mount --rbind /proc "{root}/proc" && mount --bind /dev "{root}/dev" && exec chroot "{root}" sh -c "$1"'
    return run(
        "unshare",
        "--mount",
        "--net",
        "sh",
        "-c",
        mounts,
        "sh",
        command,
        env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"},
    )


# The packages that each tool needs in an empty root, and its setting to use no network.
NEEDS = {
    "pip": (("python3-pip",), "PIP_BREAK_SYSTEM_PACKAGES=1 PIP_NO_INDEX=1 PIP_ROOT_USER_ACTION=ignore"),
    "apt": (("apt",), "DEBIAN_FRONTEND=noninteractive"),
    "tar": ((), ""),
}


def test_the_readme_names_the_three():
    installs, ask = commands()
    assert [line.split()[0] for line in installs] == ["pip", "apt", "tar"] and ask.startswith("pagoda chat MODEL")


@pytest.mark.parametrize("tool", sorted(NEEDS))
def test_it_installs_and_answers_a_chat(tool, request, empty_debian):
    installs, ask = commands()
    (command,) = [line for line in installs if line.startswith(tool)]
    package = request.getfixturevalue({"pip": "wheel", "apt": "deb", "tar": "tarball"}[tool])
    names, environment = NEEDS[tool]
    root = empty_debian(*names)
    shutil.copy(package, root / "dist")
    if tool == "apt":
        command = command.replace("apt install", "apt install -y --no-install-recommends")
    inside(root, f"cd / && {environment} {command}")
    path = "$(echo /pagoda-*/bin):$PATH" if tool == "tar" else "$PATH"
    ask = ask.replace("MODEL", "/model.gguf") + " --temperature 0 --kv-cache-memory-bytes 64M"
    answer = inside(root, f"PATH={path} {ask}")
    assert "Tokyo" in answer, answer
    if tool == "pip":
        code = 'from pagoda import LLM; print(LLM("/model.gguf", kv_cache_memory_bytes="64M").kv_manager)'
        assert inside(root, f"python3 -c '{code}'").strip() == "paged"
    if tool == "apt":
        inside(root, "pagoda config check /etc/pagoda/pagoda.yaml")
        assert (root / "lib/systemd/system/pagoda.service").exists()
