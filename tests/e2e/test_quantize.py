"""`pagoda quantize`: converts a model to another type, and the result is served like the original."""

import json
import os
import pathlib
import re
import signal
import subprocess

import pytest
import vector_models
from conftest import binary, default_model, small_model

TEXT = (pathlib.Path(__file__).resolve().parents[2] / "README.md").read_text()[:2000]


def quantize(*arguments, cwd=None, timeout=600):
    done = subprocess.run([binary(), "quantize", *arguments], capture_output=True, text=True, timeout=timeout, cwd=cwd)
    return done.returncode, done.stdout, done.stderr


def perplexity(model, folder):
    text = folder / "text.txt"
    text.write_text(TEXT)
    run = subprocess.run(
        [binary(), "perplexity", model, "-f", text, "--no-weight-cache"], capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 0, run.stderr
    return float(re.search(r"perplexity (\S+)", run.stdout)[1])


@pytest.mark.parametrize("kind,most", [("F16", 0.005), ("bf16", 0.01), ("Q8_0", 0.01), ("Q6_K", 0.01), ("Q4_K", 0.1)])
def test_the_model_stays_the_same(kind, most, tmp_path):
    out = tmp_path / "out.gguf"
    code, told, error = quantize(small_model(), "--type", kind, "-o", out)
    assert code == 0, error
    assert told.startswith(f"{out}: ")
    before, after = perplexity(small_model(), tmp_path), perplexity(out, tmp_path)
    assert abs(after / before - 1) < most
    inspected = subprocess.run([binary(), "inspect", out], capture_output=True, text=True, timeout=60)
    assert inspected.returncode == 0, inspected.stderr
    written = {"Q4_K": "Q5_0", "Q6_K": "Q8_0"}.get(kind, kind.upper())  # its rows are not whole blocks of 256
    assert written in inspected.stdout


def test_a_real_model_in_q4_k(tmp_path):
    out = tmp_path / "out.gguf"
    code, _, error = quantize(default_model(), "--type", "Q4_K", "-o", out)
    assert code == 0, error
    assert "were quantised before" in error  # the default model is Q4_1
    before, after = perplexity(default_model(), tmp_path), perplexity(out, tmp_path)
    assert after / before < 1.15
    assert out.stat().st_size < 1.1 * default_model().stat().st_size


def test_a_file_that_is_there_stays(tmp_path):
    out = tmp_path / "out.gguf"
    out.write_text("mine")
    code, told, error = quantize(small_model(), "--type", "Q8_0", "-o", out)
    assert (code, told, error.count("\n")) == (2, "", 1)
    assert "File exists" in error and str(out) in error
    assert out.read_text() == "mine"
    assert quantize(small_model(), "--type", "Q8_0", "-o", small_model())[0] == 2


def test_without_a_name_the_file_is_named_after_the_model(tmp_path):
    assert quantize(small_model(), "--type", "Q8_0", cwd=tmp_path)[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["small.Q8_0.gguf"]


def test_what_is_not_supported_is_named(tmp_path):
    assert "'Q3_K' is not one of Q4_K, Q6_K, Q8_0, Q4_0, BF16, F16, F32" in quantize(small_model(), "--type", "Q3_K")[2]
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    code, _, error = quantize(tmp_path, "--type", "Q8_0")
    assert (code, error.count("\n")) == (2, 1)
    assert quantize(small_model(), "--type", "Q8_0", "-o", tmp_path / "no/such/folder.gguf")[0] == 2
    assert quantize(tmp_path / "absent.gguf", "--type", "Q8_0")[0] == 2


def test_an_interrupt_leaves_nothing(tmp_path):
    program = subprocess.Popen(
        [binary(), "quantize", default_model(), "--type", "Q4_K", "-o", tmp_path / "out.gguf"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    os.read(program.stderr.fileno(), 1)  # the first line of progress
    program.send_signal(signal.SIGINT)
    program.wait(timeout=60)
    assert program.returncode != 0
    assert list(tmp_path.iterdir()) == []


TINY_MODELS = pathlib.Path(__file__).resolve().parents[1] / "fixtures/tiny_models"
LLAMA, OPT = TINY_MODELS / "llama", TINY_MODELS / "opt"


@pytest.mark.parametrize("kind", ["w8a8", "fp8"])
def test_a_folder_becomes_a_folder(kind, tmp_path):
    out = tmp_path / "out"
    code, told, error = quantize(LLAMA, "--type", kind, "-o", out)
    assert code == 0, error
    assert told.startswith(f"{out}: ")
    config = json.loads((out / "config.json").read_text())
    assert config["quantization_config"]["quant_method"] == "compressed-tensors"
    assert "lm_head" in config["quantization_config"]["ignore"]
    assert {**config, "quantization_config": None} == {
        **json.loads((LLAMA / "config.json").read_text()),
        "quantization_config": None,
    }
    inspected = subprocess.run([binary(), "inspect", out], capture_output=True, text=True, timeout=60)
    assert inspected.returncode == 0, inspected.stderr
    assert f"activations {'int8' if kind == 'w8a8' else 'e4m3'} by token" in inspected.stdout
    code, told, error = quantize(LLAMA, "--type", kind, "-o", out)
    assert (code, told, error.count("\n")) == (2, "", 1)
    assert "it exists" in error


def test_types_belong_to_their_format(tmp_path):
    code, _, error = quantize(small_model(), "--type", "w8a8", "-o", tmp_path / "out")
    assert code == 2 and "--type w8a8 is for Hugging Face folders" in error
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["F32", "Q8_0"])
def test_a_folder_becomes_a_gguf_file(kind, tmp_path):
    out = tmp_path / "out.gguf"
    code, told, error = quantize(LLAMA, "--type", kind, "-o", out)
    assert code == 0, error
    assert told.startswith(f"{out}: ")
    assert "has no tokenizer, so neither has the new file" in error
    inspected = subprocess.run([binary(), "inspect", out], capture_output=True, text=True, timeout=60)
    assert inspected.returncode == 0, inspected.stderr
    assert re.search(r"architecture +llama", inspected.stdout)


def test_a_folder_that_no_gguf_file_can_hold_is_named(tmp_path):
    code, told, error = quantize(OPT, "--type", "Q8_0", "-o", tmp_path / "out.gguf")
    assert (code, told, error.count("\n")) == (2, "", 1)
    assert "a folder of 'opt' cannot become a GGUF file: its family has no such files" in error
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "there").mkdir()
    code, _, error = quantize(LLAMA, "--type", "w8a8", "-o", tmp_path / "no/such/folder")
    assert code == 2 and "cannot make the folder" in error
    assert quantize(LLAMA, "--type", "w8a8", "-o", tmp_path / "there")[0] == 2
    assert list(tmp_path.iterdir()) == [tmp_path / "there"]


def vectors(model, folder):
    (folder / "in").write_text(
        json.dumps(
            {
                "custom_id": "0",
                "method": "POST",
                "url": "/v1/embeddings",
                "body": {"model": "m", "input": ["a cat, 12 dogs", "Where?"]},
            }
        )
    )
    done = subprocess.run(
        [binary(), "run-batch", model, "-i", folder / "in", "-o", folder / "out", "--served-model-name", "m"]
        + ["--dtype", "float32", "--no-weight-cache"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    body = json.loads((folder / "out").read_text())["response"]["body"]
    return [one["embedding"] for one in body["data"]]


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_an_encoder_becomes_a_gguf_file(pooling, tmp_path):
    folder, _ = vector_models.write("bert", tmp_path / "bert", pooling=pooling)
    code, _, error = quantize(folder, "--type", "F32", "-o", tmp_path / "out.gguf")
    assert code == 0, error
    expected, made = vectors(folder, tmp_path), vectors(tmp_path / "out.gguf", tmp_path)
    assert [pytest.approx(one, abs=1e-5) for one in expected] == made


def test_an_encoder_that_scores_is_refused(tmp_path):
    folder, _ = vector_models.write("bert_cross", tmp_path / "cross")
    code, _, error = quantize(folder, "--type", "F32", "-o", tmp_path / "out.gguf")
    assert (code, error.count("\n")) == (2, 1)
    assert "the head that scores ('classifier.weight') is not written" in error
