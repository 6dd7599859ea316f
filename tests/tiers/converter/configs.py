"""Random configs for converter tests: a family's row of tests/fixtures/make_families.py with up to four changed
options, all determined by a seed."""

import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "fixtures"))
import make_families as families
from transformers import AutoConfig

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
    "mamba_dt_rank": [3, 8],
    "attn_layer_offset": [0, 1],
    "expert_layer_period": [1, 3],
    "state_size": [8, 32],
    "conv_kernel": [2, 3],
    "time_step_rank": [3, 8],
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
    """Changes one option of the row and returns its description; None if the drawn option does not apply to the
    family."""
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
    """Returns transformers' config of a row, wrapped in a config with a vision part for models that have one."""
    if name in families.SEES:
        kind, vision = families.SEES[name]
        return AutoConfig.for_model(kind, text_config=row, vision_config=vision)
    return AutoConfig.for_model(row["model_type"], **{key: value for key, value in row.items() if key != "model_type"})


def draw(seed, names):
    """Returns a family, its row with changes, and the descriptions of the changes. The first seeds give the unchanged
    rows."""
    if seed < len(names):
        return names[seed], dict(families.FAMILIES[names[seed]]), []
    rng = random.Random(seed)
    name = rng.choice(names)
    row = json.loads(json.dumps(families.FAMILIES[name]))
    known = config_of(name, row).get_text_config().to_dict()
    changes = [made for _ in range(rng.randint(1, 4)) if (made := change(rng, row, known))]
    return name, row, changes
