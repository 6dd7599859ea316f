"""`pagoda generate` and the sources of its input."""

import json
import os
import subprocess

from conftest import binary, small_model


def test_a_pipe_is_read(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    program = subprocess.Popen(
        [binary(), "generate", small_model(), "--input", pipe, "--output", "-"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    pipe.write_text('{"prompt": "Once", "max_tokens": 2}\n' * 3)
    out, _ = program.communicate(timeout=60)
    assert program.returncode == 0
    assert out.count('"text_completion"') == 3


def test_a_folder_is_no_input(tmp_path):
    done = subprocess.run(
        [binary(), "generate", small_model(), "--input", tmp_path, "--output", "-"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert f"cannot read {tmp_path}" in done.stderr


def test_lines_of_a_pipe_are_answered_before_the_next_comes():
    program = subprocess.Popen(
        [binary(), "generate", small_model(), "-i", "-", "--temperature", "0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    texts = []
    for _ in range(3):
        program.stdin.write('{"prompt": "Once", "max_tokens": 4}\n')
        program.stdin.flush()
        texts.append(json.loads(program.stdout.readline())["choices"][0]["text"])
    out, error = program.communicate(timeout=60)
    assert (program.returncode, out, len(set(texts))) == (0, "", 1)
    assert "%" not in error and "2 lines" in error, error
