"""GGUF files of encoders, written by the gguf package with its own names for keys and tensors: what llama.cpp's converter writes.
Their vectors against what transformers gives."""
import gguf
import httpx
import numpy as np
import pytest

import vector_models
from conftest import serving


def write(name, arch, path):
    folder, model = vector_models.write(name, path.parent / "folder")
    config = model["config"]
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[arch])
    writer.add_name(name)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config.get("layer_norm_eps", 1e-12))
    writer.add_token_type_count(config.get("type_vocab_size", 2))
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    if arch == gguf.MODEL_ARCH.NOMIC_BERT:
        writer.add_rope_freq_base(config.get("rope_parameters", {}).get("rope_theta", config.get("rope_theta", 1000.0)))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    names = gguf.get_tensor_name_map(arch, config["num_hidden_layers"])
    for key, shape, offset, scale in model["tensors"]:
        if key.startswith("pooler."):
            continue  # not of the file, in llama.cpp's converter either
        known = names.get_name(key, try_suffixes=(".weight", ".bias"))
        assert known, key
        values = np.frombuffer(vector_models.weights(model["seed"], key, int(np.prod(shape)), offset, scale), dtype=np.float32)
        writer.add_tensor(known, values.reshape(shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return folder, model


@pytest.mark.parametrize("name, arch", [("bert", gguf.MODEL_ARCH.BERT), ("nomic_bert", gguf.MODEL_ARCH.NOMIC_BERT)])
def test_vectors_are_those_of_transformers(tmp_path, name, arch):
    folder, model = write(name, arch, tmp_path / "m.gguf")
    goldens = [golden for golden in model["goldens"] if not golden["second"]]
    with serving(tmp_path / "m.gguf", "--tokenizer", str(folder), "--dtype", "float32", "--served-model-name", "m") as server:
        data = httpx.post(server.url + "/v1/embeddings", json={"input": [golden["ids"] for golden in goldens]}, timeout=120).json()["data"]
    for entry, golden in zip(data, goldens):
        got, wanted = np.array(entry["embedding"]), np.array(golden["mean"])
        assert got @ wanted / np.linalg.norm(got) / np.linalg.norm(wanted) >= 0.9999
