"""The packages where they are meant to be used: no compiler, no source, an empty root."""

import shutil
import subprocess
import sys

import pytest


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=600, **options)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
    return done.stdout


def test_the_wheel_answers_where_nothing_else_is(wheel, model, tmp_path):
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", venv)
    run(venv / "bin/pip", "install", "--no-index", "--no-deps", wheel)
    env = {"PATH": str(venv / "bin"), "HOME": str(tmp_path), "PAGODA_CACHE": str(tmp_path / "cache")}
    code = (
        f"from pagoda import LLM, SamplingParams\no, = LLM({model!r}, kv_cache_memory_bytes='16M').generate('once',"
        " SamplingParams(max_tokens=4, ignore_eos=True))\nprint(len(o.outputs[0].token_ids))"
    )
    assert run(venv / "bin/python", "-c", code, env=env, cwd=tmp_path).strip() == "4"
    assert run(venv / "bin/pagoda", "--version", env=env).startswith("pagoda ")
    assert "manylinux_2_36_x86_64" in wheel.name


def test_the_deb_has_what_a_service_needs(deb):
    names = run("dpkg-deb", "-c", deb)
    for wanted in (
        "./usr/bin/pagoda",
        "./etc/pagoda/pagoda.yaml",
        "./lib/systemd/system/pagoda.service",
        "./usr/share/man/man1/pagoda-serve.1.gz",
        "./usr/share/bash-completion/completions/pagoda",
        "./usr/share/zsh/vendor-completions/_pagoda",
        "./usr/share/fish/vendor_completions.d/pagoda.fish",
    ):
        assert wanted in names, wanted


def test_the_deb_is_clean(deb):
    if shutil.which("lintian") is None:
        pytest.skip("lintian is not there")
    done = subprocess.run(
        ["lintian", "--allow-root", "--fail-on", "error", deb], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout
