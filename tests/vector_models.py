"""Folders of the small models that make vectors (tests/fixtures/encoders), with a tokenizer of letters."""
import json
import math
import pathlib
import struct

ENCODERS = pathlib.Path(__file__).resolve().parent / "fixtures" / "encoders"
MASK = 2**64 - 1
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def weights(seed, name, count, offset, scale):
    """As tests/fixtures/make_families.py says."""
    x = 0xCBF29CE484222325
    for byte in f"{seed}/{name}".encode():
        x = (x ^ byte) * 0x100000001B3 & MASK
    values = []
    for _ in range(count):
        y = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
        y = (y ^ (y >> 27)) * 0x94D049BB133111EB & MASK
        y ^= y >> 31
        values.append(offset + scale * ((y >> 40) / 2**23 - 1))
        x = x + 0x9E3779B97F4A7C15 & MASK
    return struct.pack(f"<{count}f", *values)


def tokenizer():
    letters = "abcdefghijklmnopqrstuvwxyz"
    vocab = [*SPECIAL, *letters, *("##" + c for c in letters), *"0123456789.,?!"]

    def token(name, kind):
        return {"SpecialToken": {"id": name, "type_id": kind}}

    def text(name, kind):
        return {"Sequence": {"id": name, "type_id": kind}}
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": name, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i, name in enumerate(SPECIAL)],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                       "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [token("[CLS]", 0), text("A", 0), token("[SEP]", 0)],
            "pair": [token("[CLS]", 0), text("A", 0), token("[SEP]", 0), text("B", 1), token("[SEP]", 1)],
            "special_tokens": {name: {"id": name, "ids": [SPECIAL.index(name)], "tokens": [name]}
                               for name in ("[CLS]", "[SEP]")}},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": {piece: i for i, piece in enumerate(vocab)}}}


def write_tensors(path, seed, tensors):
    header, data = {}, b""
    for key, shape, offset, scale in tensors:
        values = weights(seed, key, math.prod(shape), offset, scale)
        header[key] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write(name, folder, pooling=None, normalize=True, dense=None):
    """`pooling`: "mean", "cls" or "lasttoken", in sentence-transformers' folders; without: as the model's family does it.
    `dense`: a layer of so many outputs behind the pooling."""
    model = json.loads((ENCODERS / f"{name}.json").read_text())
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(model["config"]))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]",
        "sep_token": "[SEP]", "model_max_length": model["config"].get("max_position_embeddings", 320) - 8,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"] if name.startswith("bert") else ["input_ids", "attention_mask"]}))
    write_tensors(folder / "model.safetensors", model["seed"], model["tensors"])
    if not pooling:
        return folder, model
    width = model["config"]["hidden_size"]
    kind = "sentence_transformers.models."
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({
        "word_embedding_dimension": width, "pooling_mode_cls_token": pooling == "cls",
        "pooling_mode_mean_tokens": pooling == "mean", "pooling_mode_lasttoken": pooling == "lasttoken",
        "pooling_mode_max_tokens": False}))
    if dense:
        modules.append(("2_Dense", "Dense"))
        (folder / "2_Dense").mkdir(exist_ok=True)
        (folder / "2_Dense" / "config.json").write_text(json.dumps({
            "in_features": width, "out_features": dense, "bias": True, "activation_function": "torch.nn.modules.activation.Tanh"}))
        write_tensors(folder / "2_Dense" / "model.safetensors", model["seed"],
                      [["linear.weight", [dense, width], 0.0, 0.3], ["linear.bias", [dense], 0.0, 0.2]])
    if normalize:
        modules.append((f"{len(modules)}_Normalize", "Normalize"))
    (folder / "modules.json").write_text(json.dumps([
        {"idx": i, "name": str(i), "path": path, "type": kind + module} for i, (path, module) in enumerate(modules)]))
    return folder, model
