"""A model with scripted answers: a Llama of one layer as a Hugging Face folder, whose next token follows from a table.

Each token of a script has its own place in the hidden state, and the head maps the place to the next token. The
attention looks for one token, the marker, which the template writes before the result of a tool. If the prompt contains
the marker, the neurons move each token to a second place, from which the second script continues instead of the first.
A conversation of two turns can thus be scripted in advance, whatever its prompts contain. The rest of the vocabulary is
bytes and words of this repository's docs, so that long prompts have few tokens.
"""

import array
import json
import pathlib
import struct

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parents[3]
WIDTH, HEAD, WORDS = 256, 64, 4096
SURE = 60.0  # logits apart: certain at any temperature that programs ask for


def words():
    """A tokenizer of bytes and frequent words; the same on every machine."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split("\n", "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=WORDS, show_progress=False, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())
    )
    tokenizer.train_from_iterator([path.read_text() for path in sorted(ROOT.glob("docs/*.md"))], trainer)
    return tokenizer


class Matrix:
    def __init__(self, rows, columns):
        self.shape, self.values = (rows, columns), array.array("f", bytes(4 * rows * columns))

    def __setitem__(self, place, value):
        row, column = place
        self.values[row * self.shape[1] + column] = value


def ones(count):
    matrix = Matrix(1, count)
    matrix.values, matrix.shape = array.array("f", [1.0] * count), (count,)
    return matrix


def save(path, tensors):
    head, data = {}, bytearray()
    for name, matrix in tensors.items():
        begin = len(data)
        data += matrix.values.tobytes()
        head[name] = {"dtype": "F32", "shape": list(matrix.shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def build(folder, template, *, special, begins, marker, first, second, context=131072):
    """special: the tokens of the template, the last of which ends an answer. begins: the texts that prompts end with.
    marker: the token that only tool results contain. first, second: the answers without and with the marker, as lists
    of texts of one token each."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = words()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in special])
    tokenizer.add_tokens(
        [
            AddedToken(text, normalized=False)
            for text in [*first, *second, marker]
            if tokenizer.token_to_id(text) is None
        ]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    end = tokenizer.token_to_id(special[-1])
    starts = {tokenizer.encode(text, add_special_tokens=False).ids[-1] for text in begins}
    scripts = [[tokenizer.token_to_id(text) for text in script] for script in (first, second)]
    steps = []  # for each script: the successor of each token
    for script in scripts:
        assert len({*starts, *script}) == len(starts) + len(script), (
            "a token of a script stands twice: what follows it would not be known"
        )
        steps.append({**dict.fromkeys(starts, script[0]), **dict(zip(script, [*script[1:], end]))})

    vocabulary = tokenizer.get_vocab_size()
    embedding, head = Matrix(vocabulary, WIDTH), Matrix(vocabulary, WIDTH)
    constant, found, is_marker = WIDTH - 1, WIDTH - 2, WIDTH - 3
    place = {token: index for index, token in enumerate(steps[0] | steps[1])}
    place_after = {token: len(place) + index for index, token in enumerate(steps[1])}  # places of found markers
    assert len(place) + len(place_after) < is_marker, "the scripts are too long"
    for token in range(vocabulary):
        embedding[token, constant] = 1.0
    for token, index in place.items():
        embedding[token, index] = 1.0
    embedding[tokenizer.token_to_id(marker), is_marker] = 1.0
    for token, following in steps[0].items():
        head[following, place[token]] = 4 * SURE
    for token, following in steps[1].items():
        head[following, place_after[token]] = 8 * SURE
    head[end, constant] = SURE / 4  # after any other token

    # One head whose last pair of coordinates, which hardly rotates, compares a constant with the marker.
    query, key, value, output = Matrix(HEAD, WIDTH), Matrix(HEAD, WIDTH), Matrix(HEAD, WIDTH), Matrix(WIDTH, HEAD)
    coordinate = HEAD // 2 - 1
    scale = (2 / WIDTH) ** 0.5  # a hidden state with two ones, before its norm
    query[coordinate, constant] = 40.0 * scale
    key[coordinate, is_marker] = 40.0 * scale
    value[0, is_marker] = scale
    output[found, 0] = 1.0
    # A neuron for each token of the second script: active if both the token and the marker are present.
    gate, up, down = Matrix(WIDTH, WIDTH), Matrix(WIDTH, WIDTH), Matrix(WIDTH, WIDTH)
    for neuron, (token, index) in enumerate(place_after.items()):
        gate[neuron, place[token]], gate[neuron, found], gate[neuron, constant] = 10.0, 10.0, -15.0
        up[neuron, constant] = 1.0
        down[index, neuron] = 3 / WIDTH / 5
    layer = "model.layers.0."
    save(
        folder / "model.safetensors",
        {
            "model.embed_tokens.weight": embedding,
            "lm_head.weight": head,
            "model.norm.weight": ones(WIDTH),
            layer + "input_layernorm.weight": ones(WIDTH),
            layer + "post_attention_layernorm.weight": ones(WIDTH),
            layer + "self_attn.q_proj.weight": query,
            layer + "self_attn.k_proj.weight": key,
            layer + "self_attn.v_proj.weight": value,
            layer + "self_attn.o_proj.weight": output,
            layer + "mlp.gate_proj.weight": gate,
            layer + "mlp.up_proj.weight": up,
            layer + "mlp.down_proj.weight": down,
        },
    )
    (folder / "config.json").write_text(
        json.dumps(
            {
                "architectures": ["LlamaForCausalLM"],
                "model_type": "llama",
                "hidden_size": WIDTH,
                "intermediate_size": WIDTH,
                "num_hidden_layers": 1,
                "num_attention_heads": 1,
                "num_key_value_heads": 1,
                "head_dim": HEAD,
                "vocab_size": vocabulary,
                "max_position_embeddings": context,
                "rms_norm_eps": 1e-6,
                "rope_theta": 1e12,
                "hidden_act": "silu",
                "tie_word_embeddings": False,
                "bos_token_id": end,
                "eos_token_id": end,
                "torch_dtype": "float32",
            }
        )
    )
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": special[-1], "chat_template": template})
    )
