"""The packages in their target environment: an empty root without compiler or source."""

import base64
import csv
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

# Debian 12 has 3.11; other versions are tried if pyenv or the PATH has them.
CPYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]
USE = """
import asyncio, json, sys
from pagoda import LLM, AsyncLLM, RequestOutputKind, SamplingParams

model = sys.argv[1]
params = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True, logprobs=1, output_kind=RequestOutputKind.DELTA)
with LLM(model, kv_cache_memory_bytes="16M") as llm:
    (whole,) = llm.generate("once", params, use_tqdm=False)
    assert llm.get_tokenizer().decode(whole.outputs[0].token_ids) == whole.outputs[0].text
    assert llm.facts()["max_model_len"] == 512 and llm.stats()["num_running"] == 0 and llm.get_metrics()

async def stream():
    engine = AsyncLLM(model, kv_cache_memory_bytes="16M")
    pieces = [output.outputs[0] async for output in engine.generate("once", params)]
    engine.shutdown()
    return "".join(piece.text for piece in pieces), [piece.logprobs[0] for piece in pieces for _ in piece.token_ids]

text, logprobs = asyncio.run(stream())
assert text == whole.outputs[0].text and len(logprobs) == 8
kept = LLM(model, kv_cache_memory_bytes="16M")  # the interpreter's end shuts it down
print(json.dumps([text, whole.outputs[0].token_ids]))
"""


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
    assert wheel.name.endswith("-py3-none-manylinux_2_36_x86_64.whl")


def cpython(version):
    """Returns the interpreter of this version; None if it is not installed."""
    pyenv = pathlib.Path.home() / ".pyenv/versions"
    for path in [*sorted(pyenv.glob(f"{version}.*/bin/python3")), shutil.which(f"python{version}")]:
        if path is None:
            continue
        said = subprocess.run([path, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True, text=True)
        if said.stdout.strip() == str(tuple(map(int, version.split(".")))):
            return path
    return None


@pytest.mark.parametrize("version", CPYTHONS)
def test_one_wheel_for_every_cpython(wheel, model, tmp_path, version):
    python = cpython(version)
    if python is None:
        pytest.skip(f"no CPython {version} here")
    venv = tmp_path / "venv"
    run(python, "-m", "venv", venv)
    run(venv / "bin/pip", "install", "--no-index", "--no-deps", wheel)
    done = subprocess.run(
        [venv / "bin/python", "-W", "error", "-c", USE, model],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        env={"PATH": str(venv / "bin"), "HOME": str(tmp_path), "PAGODA_CACHE": str(tmp_path / "cache")},
    )
    assert done.returncode == 0 and done.stdout.startswith("["), done.stdout + done.stderr
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr, done.stderr


def test_the_record_has_every_file(wheel):
    with zipfile.ZipFile(wheel) as files:
        names = {name for name in files.namelist() if not name.endswith("/")}
        (record,) = (name for name in names if name.endswith(".dist-info/RECORD"))
        rows = {name: (digest, size) for name, digest, size in csv.reader(files.read(record).decode().splitlines())}
        assert set(rows) == names and rows.pop(record) == ("", "")
        for name, (digest, size) in rows.items():
            content = files.read(name)
            found = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            assert (digest, int(size)) == (f"sha256={found}", len(content)), name
        (about,) = (files.read(name).decode() for name in names if name.endswith(".dist-info/METADATA"))
    assert "\nName: pagoda-llm\n" in about and "\nRequires-Python: >=3.10\n" in about
    assert 'Requires-Dist: tqdm; extra == "progress"' in about and "# Python" in about


@pytest.mark.parametrize("name", ["Facts", "Stats"])
def test_structs_are_those_of_the_header(pagoda, name):
    header = (pathlib.Path(pagoda.__file__).parent / "include/pagoda.h").read_text()
    (body,) = re.findall(r"typedef struct \{([^}]*)\} pagoda_" + name.lower(), header)
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL)
    types = {"int64_t": "c_long", "int32_t": "c_int", "const char": "c_char_p"}
    wanted = []
    for declaration in filter(str.strip, body.split(";")):
        kind, names = re.fullmatch(r"\s*(int64_t|int32_t|const char)\s*(.*)", declaration, re.DOTALL).groups()
        wanted += [(field.strip(" *\n"), types[kind]) for field in names.split(",")]
    found = [(field, kind.__name__) for field, kind in getattr(pagoda._native, name)._fields_]
    assert found == wanted


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
