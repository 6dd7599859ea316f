"""The program of docs/python.md, unchanged except for the model."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_the_program_of_the_page(pagoda, model):
    page = (ROOT / "docs/python.md").read_text()
    code = "\n".join(line[4:] for line in re.search(r"    from pagoda import.*?\n\n(?=\S)", page, re.S)[0].splitlines())
    assert '"model.gguf"' in code and "1 << 30" in code
    code = code.replace('"model.gguf"', repr(model)).replace("1 << 30", "1 << 24")
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={"PYTHONPATH": str(pathlib.Path(pagoda.__file__).parents[1]), "HOME": "/nonexistent"},
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 2
