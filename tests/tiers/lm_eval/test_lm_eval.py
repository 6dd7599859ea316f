"""lm-eval's unchanged vLLM backend over Pagoda's classes: `import vllm` finds them under vLLM's names. Its results
equal those of lm-eval over HTTP, which uses a separate server process."""

import json
import os
import struct
import sys

import numpy as np
import pytest
from conftest import serving
from wheel_package import package, unpacked_wheel

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
WIDTH, LAYERS, HEADS, HIDDEN, CONTEXT, END = 32, 2, 4, 64, 256, 256

# In vLLM, too, all imports of the backend except the engine are from Hugging Face.
AS_VLLM = {
    "vllm/__init__.py": "from pagoda import LLM, SamplingParams, TokensPrompt\n",
    "vllm/lora/__init__.py": "",
    "vllm/lora/request.py": "class LoRARequest:\n    pass\n",
    "vllm/tokenizers.py": (
        "from transformers import AutoTokenizer\n\n\ndef get_tokenizer(name, tokenizer_mode, trust_remote_code,"
        " revision, **more):\n    return AutoTokenizer.from_pretrained(name, revision=revision, **more)\n"
    ),
    "vllm/renderers/__init__.py": "",
    "vllm/renderers/hf.py": "def resolve_chat_template(tokenizer, **more):\n    return tokenizer.chat_template\n",
    "vllm-0.30.dist-info/METADATA": "Metadata-Version: 2.1\nName: vllm\nVersion: 0.30\n",
}


@pytest.fixture(scope="session")
def as_vllm(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    unpacked_wheel(package("wheel", "PAGODA_WHEEL", folder), folder)
    for name, text in AS_VLLM.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    sys.path.insert(0, str(folder))
    import pagoda

    assert pagoda.__file__.startswith(str(folder))


def letters():
    """Returns GPT-2's 256 characters that represent bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    table = {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    return [table[byte] for byte in range(256)]


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """Makes a Hugging Face folder of a Llama with random weights whose tokens are bytes."""
    folder = tmp_path_factory.mktemp("model")
    vocabulary = END + 1
    (folder / "config.json").write_text(
        json.dumps(
            {
                "architectures": ["LlamaForCausalLM"],
                "model_type": "llama",
                "vocab_size": vocabulary,
                "hidden_size": WIDTH,
                "intermediate_size": HIDDEN,
                "num_hidden_layers": LAYERS,
                "num_attention_heads": HEADS,
                "num_key_value_heads": HEADS,
                "hidden_act": "silu",
                "rms_norm_eps": 1e-5,
                "max_position_embeddings": CONTEXT,
                "rope_theta": 10000.0,
                "tie_word_embeddings": False,
                "bos_token_id": END,
                "eos_token_id": END,
                "torch_dtype": "float32",
            }
        )
    )
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    (folder / "tokenizer.json").write_text(
        json.dumps(
            {
                "version": "1.0",
                "truncation": None,
                "padding": None,
                "normalizer": None,
                "post_processor": None,
                "added_tokens": [
                    {
                        "id": END,
                        "content": "<|end|>",
                        "single_word": False,
                        "lstrip": False,
                        "rstrip": False,
                        "normalized": False,
                        "special": True,
                    }
                ],
                "pre_tokenizer": byte_level,
                "decoder": byte_level,
                "model": {
                    "type": "BPE",
                    "dropout": None,
                    "unk_token": None,
                    "continuing_subword_prefix": None,
                    "end_of_word_suffix": None,
                    "fuse_unk": False,
                    "byte_fallback": False,
                    "vocab": {letter: i for i, letter in enumerate(letters())},
                    "merges": [],
                },
            }
        )
    )
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "bos_token": "<|end|>",
                "eos_token": "<|end|>",
                "model_max_length": CONTEXT,
                "chat_template": (
                    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
                    "{% if add_generation_prompt %}assistant:{% endif %}"
                ),
            }
        )
    )
    random = np.random.default_rng(1)
    tensors = {
        "model.embed_tokens.weight": (vocabulary, WIDTH),
        "lm_head.weight": (vocabulary, WIDTH),
        "model.norm.weight": (WIDTH,),
    }
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        tensors |= {f"{at}self_attn.{name}_proj.weight": (WIDTH, WIDTH) for name in "qkvo"}
        tensors |= {
            f"{at}mlp.gate_proj.weight": (HIDDEN, WIDTH),
            f"{at}mlp.up_proj.weight": (HIDDEN, WIDTH),
            f"{at}mlp.down_proj.weight": (WIDTH, HIDDEN),
            f"{at}input_layernorm.weight": (WIDTH,),
            f"{at}post_attention_layernorm.weight": (WIDTH,),
        }
    header, data = {}, b""
    for name, shape in tensors.items():
        values = (random.normal(0, 0.5, shape) + (len(shape) == 1)).astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    packed = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(packed)) + packed + data)
    return folder


@pytest.fixture(scope="session")
def tasks(tmp_path_factory):
    """Returns a task manager and the task names: multiple choice, log-likelihood of texts, and generation."""
    from lm_eval.tasks import TaskManager

    folder = tmp_path_factory.mktemp("tasks")
    rows = [
        {
            "question": f"How many legs have {count} {animal}?",
            "choices": [str(count * legs), "none", f"about {count}"],
            "answer": 0,
            "text": f"There were {count} {animal} in the garden. " * (1 + count),
        }
        for count, (animal, legs) in enumerate(
            [("cats", 4), ("birds", 2), ("ants", 6), ("spiders", 8), ("fish", 0), ("men", 2)], 1
        )
    ]
    (folder / "rows.json").write_text("\n".join(map(json.dumps, rows)))
    common = {
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(folder / "rows.json")}},
        "test_split": "test",
        "num_fewshot": 0,
    }
    for name, more in {
        "own_choices": {
            "output_type": "multiple_choice",
            "doc_to_text": "{{question}}",
            "doc_to_choice": "choices",
            "doc_to_target": "answer",
            "metric_list": [{"metric": "acc"}],
        },
        "own_texts": {
            "output_type": "loglikelihood_rolling",
            "doc_to_text": "",
            "doc_to_target": "{{text}}",
            "metric_list": [{"metric": "word_perplexity"}],
        },
        "own_answers": {
            "output_type": "generate_until",
            "doc_to_text": "{{question}}",
            "doc_to_target": "{{choices[0]}}",
            "generation_kwargs": {"max_gen_toks": 12, "until": ["e"], "do_sample": False},
            "metric_list": [{"metric": "exact_match"}],
        },
    }.items():
        (folder / f"{name}.yaml").write_text(json.dumps({"task": name, **common, **more}))
    return TaskManager(include_path=str(folder), include_defaults=False), ["own_choices", "own_texts", "own_answers"]


def evaluate(model, arguments, tasks, **more):
    import lm_eval

    manager, names = tasks
    return lm_eval.simple_evaluate(
        model=model, model_args=arguments, tasks=names, task_manager=manager, bootstrap_iters=0, **more
    )


def answers(results):
    """Returns the model's results for each row, by task."""
    return {
        name: [sample["resps"] for sample in sorted(samples, key=lambda s: s["doc_id"])]
        for name, samples in results["samples"].items()
    }


def near(one, other):
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(near, one, other))
    if isinstance(one, float) and not isinstance(one, bool):
        return abs(one - other) < 1e-3
    return one == other


def test_the_vllm_backend_gives_what_comes_over_http(as_vllm, model, tasks):
    # The backend leaves one token of the context free, so that both truncate texts alike.
    engine = {"dtype": "float32", "kv_cache_memory_bytes": "16M", "max_num_seqs": 8}
    ours = evaluate("vllm", {"pretrained": str(model), "max_model_len": CONTEXT, **engine}, tasks, batch_size="auto")
    with serving(
        model,
        "--dtype",
        "float32",
        "--kv-cache-memory-bytes",
        "16MiB",
        "--max-model-len",
        str(CONTEXT),
        "--served-model-name",
        "own",
    ) as server:
        http = evaluate(
            "local-completions",
            {
                "model": "own",
                "base_url": server.url + "/v1/completions",
                "tokenizer": str(model),
                "tokenizer_backend": "huggingface",
                "max_length": CONTEXT - 1,
                "num_concurrent": 1,
                "tokenized_requests": True,
            },
            tasks,
        )
    for name, given in answers(http).items():
        assert near(answers(ours)[name], given), (name, answers(ours)[name], given)
    assert set(ours["results"]) == set(tasks[1])
    assert 1 < ours["results"]["own_texts"]["word_perplexity,none"] < float("inf")
    assert all(len(row[0][0]) <= 12 and "e" not in row[0][0] for row in answers(ours)["own_answers"])


def test_it_asks_in_batches_and_by_the_chat_template(as_vllm, model, tasks):
    arguments = {"pretrained": str(model), "dtype": "float32", "kv_cache_memory_bytes": "16M", "max_num_seqs": 8}
    whole = evaluate("vllm", arguments, tasks, batch_size="auto")
    pairs = evaluate("vllm", arguments, tasks, batch_size=2)
    assert answers(whole) == answers(pairs), "the same bits in any batch"
    chat = evaluate("vllm", arguments, tasks, batch_size="auto", apply_chat_template=True)
    assert answers(chat)["own_answers"] != answers(whole)["own_answers"]
