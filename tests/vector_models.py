"""Folders of the small embedding models (tests/fixtures/encoders), with a tokenizer of letters."""

import json
import math
import pathlib
import struct

ENCODERS = pathlib.Path(__file__).resolve().parent / "fixtures" / "encoders"
MASK = 2**64 - 1
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def weights(seed, name, count, offset, scale):
    """Returns weights as defined in tests/fixtures/make_families.py."""
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
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": i,
                "content": name,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for i, name in enumerate(SPECIAL)
        ],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [token("[CLS]", 0), text("A", 0), token("[SEP]", 0)],
            "pair": [token("[CLS]", 0), text("A", 0), token("[SEP]", 0), text("B", 1), token("[SEP]", 1)],
            "special_tokens": {
                name: {"id": name, "ids": [SPECIAL.index(name)], "tokens": [name]} for name in ("[CLS]", "[SEP]")
            },
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {piece: i for i, piece in enumerate(vocab)},
        },
    }


def write(name, folder, pooling=None):
    """`pooling`: "mean", "cls" or "lasttoken", stored in sentence-transformers' folders; None: the default of the
    model's family."""
    model = json.loads((ENCODERS / f"{name}.json").read_text())
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(model["config"]))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
    header, data = {}, b""
    for key, shape, offset, scale in model["tensors"]:
        values = weights(model["seed"], key, math.prod(shape), offset, scale)
        header[key] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    if pooling:
        kind = "sentence_transformers.models."
        (folder / "modules.json").write_text(
            json.dumps(
                [
                    {"idx": 0, "name": "0", "path": "", "type": kind + "Transformer"},
                    {"idx": 1, "name": "1", "path": "1_Pooling", "type": kind + "Pooling"},
                    {"idx": 2, "name": "2", "path": "2_Normalize", "type": kind + "Normalize"},
                ]
            )
        )
        (folder / "1_Pooling").mkdir(exist_ok=True)
        (folder / "1_Pooling" / "config.json").write_text(
            json.dumps(
                {
                    "word_embedding_dimension": 64,
                    "pooling_mode_cls_token": pooling == "cls",
                    "pooling_mode_mean_tokens": pooling == "mean",
                    "pooling_mode_lasttoken": pooling == "lasttoken",
                    "pooling_mode_max_tokens": False,
                }
            )
        )
    return folder, model
