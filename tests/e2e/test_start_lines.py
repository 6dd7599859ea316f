"""Messages of the server at start with models shaped like popular ones: none that look like errors without an error,
and the values that were chosen automatically."""

import json
import pathlib
import struct

import pytest
from conftest import serving

FAMILIES = pathlib.Path(__file__).resolve().parents[1] / "fixtures/families"
# Keys in config.json on hubs, in addition to those that transformers saves.
QWEN = {"use_sliding_window": False, "sliding_window": 131072, "max_window_layers": 2, "use_mrope": False}
POPULAR = {  # the shape of: (fixture, more of config.json)
    "Qwen2.5-VL": ("qwen2_5_vl", {}),
    "Qwen3": ("qwen3_yarn", {"attention_bias": False, **QWEN}),
    "Qwen3.5": ("qwen3_5_wrapped", {}),
    "Llama-3.x": (
        "llama_yarn",
        {
            "pretraining_tp": 1,
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 32.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
            "rope_parameters": None,
        },
    ),
    "Gemma-3n": ("gemma3n_plain", {}),
    "Mistral-Small-3": ("mistral3_wrapped", {}),
    "Phi-4-mini": ("phi3_long", {"embd_pdrop": 0.0, "resid_pdrop": 0.0}),
    "gpt-oss": ("gpt_oss", {"swiglu_limit": 7.0, "router_aux_loss_coef": 0.9, "output_router_logits": False}),
    "DeepSeek-V3": (
        "deepseek_v3",
        {
            "ep_size": 1,
            "num_nextn_predict_layers": 1,
            "topk_method": "noaux_tc",
            "scoring_func": "sigmoid",
            "seq_aux": True,
            "aux_loss_alpha": 0.001,
            "moe_layer_freq": 1,
        },
    ),
    "SmolLM3": ("smollm3_window", {}),
    "GLM-4.x": ("glm4_moe", {"num_nextn_predict_layers": 1}),
    "Ministral-3": ("ministral3", {}),
}


def write_folder(folder, fixture, more=None, tensors=()):
    """Writes the fixture as a folder of a hub, with zero weights."""
    made = json.loads((FAMILIES / f"{fixture}.json").read_text())
    config = {key: value for key, value in {**made["config"], **(more or {})}.items() if value is not None}
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    vocab = {"a": 0, "b": 1, "</s>": 2, "<|im_end|>": 3}
    (folder / "tokenizer.json").write_text(
        json.dumps(
            {
                "added_tokens": [{"id": 3, "content": "<|im_end|>", "special": True}],
                "model": {"type": "WordLevel", "unk_token": "a", "vocab": vocab},
            }
        )
    )
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"eos_token": "<|im_end|>", "chat_template": "{{ messages[0]['content'] }}"})
    )
    (folder / "generation_config.json").write_text(
        json.dumps(
            {
                "do_sample": True,
                "temperature": 0.7,
                "top_k": 20,
                "top_p": 0.8,
                "eos_token_id": [3, 2],
                "transformers_version": "4.51.0",
            }
        )
    )
    header, at = {}, 0
    for name, shape, *_ in [*made["tensors"], *tensors]:
        size = 1 if name.endswith(("_blocks", "_scales")) else 4
        for extent in shape:
            size *= extent
        header[name] = {
            "dtype": "U8" if name.endswith(("_blocks", "_scales")) else "F32",
            "shape": shape,
            "data_offsets": [at, at + size],
        }
        at += size
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(at))


@pytest.mark.parametrize("shape", POPULAR)
def test_no_false_alarm_and_what_was_chosen(tmp_path, shape):
    fixture, more = POPULAR[shape]
    beside = [("mtp.fc.weight", [64, 128]), ("model.visual.patch_embed.proj.weight", [8, 8])]
    write_folder(tmp_path / shape, fixture, more, beside)
    with serving(tmp_path / shape) as server:
        lines = "".join(server.log).splitlines()
    assert not [line for line in lines if "WARNING" in line or "ERROR" in line], lines
    said = "\n".join(lines)
    assert "for pictures and sounds" in said and "1 tensor of multi-token prediction" in said
    assert "end-of-turn tokens: 3 <|im_end|>, 2 </s>" in said
    assert "default sampling parameters: temperature 0.7, top_p 0.8, top_k 20" in said
    assert "(--dtype auto)" in said and "(--kv-cache-dtype auto)" in said


def test_an_end_outside_the_vocabulary_is_told(tmp_path):
    write_folder(tmp_path / "ends", "llama_yarn", {"eos_token_id": [2, 100000]})
    with serving(tmp_path / "ends") as server:
        warnings = [line for line in "".join(server.log).splitlines() if "WARNING" in line]
    assert len(warnings) == 1, warnings
    assert "eos_token_id is outside the vocabulary of 160 tokens and ends no answer: 100000" in warnings[0]
