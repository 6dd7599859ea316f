"""Scripts with the calls of vLLM's users and of its offline examples (vllm_scripts/, written for these tests), in
which only the import is changed."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
import vector_models

SCRIPTS = pathlib.Path(__file__).parent / "vllm_scripts"
TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{%"
    " endif %}"
)


@pytest.fixture(scope="module")
def arguments(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    (folder / "chat.jinja").write_text(TEMPLATE)
    vectors, _ = vector_models.write("bert", folder / "bert", pooling="mean")
    cross, _ = vector_models.write("bert_cross", folder / "cross")
    by_flags = ["--model", model, "--kv_cache_memory_bytes", "16M"]
    return {
        "basic": [*by_flags, "--temperature", "0.5", "--top-k=3"],
        "engine_steps": by_flags,
        "chat": [model, folder / "chat.jinja"],
        "vectors": [vectors, cross],
    }


@pytest.mark.parametrize("name", sorted(path.stem for path in SCRIPTS.glob("*.py")))
def test_only_the_import_changes(pagoda, model, arguments, name, tmp_path):
    text, changed = re.subn(
        r"^from vllm(\S*) import", r"from pagoda\1 import", (SCRIPTS / f"{name}.py").read_text(), flags=re.MULTILINE
    )
    assert changed >= 1 and not re.search(r"^\s*(from|import) vllm", text, re.MULTILINE)
    script = tmp_path / f"{name}.py"
    script.write_text(text)
    site = pathlib.Path(pagoda.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, script, *map(str, arguments.get(name, [model]))],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(site)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip(), "it tells what it found"
