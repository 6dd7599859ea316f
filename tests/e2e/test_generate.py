"""`pagoda generate` and where its input comes from."""
import os
import subprocess

from conftest import binary, small_model


def test_a_pipe_is_read(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    program = subprocess.Popen([binary(), "generate", small_model(), "--input", pipe, "--output", "-"], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    pipe.write_text('{"prompt": "Once", "max_tokens": 2}\n' * 3)
    out, _ = program.communicate(timeout=60)
    assert program.returncode == 0
    assert out.count('"text_completion"') == 3


def test_a_folder_is_no_input(tmp_path):
    done = subprocess.run([binary(), "generate", small_model(), "--input", tmp_path, "--output", "-"], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 2
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert f"cannot read {tmp_path}" in done.stderr
