"""GGUF files of small random models in Q8_0 whose keys or activations have outliers like those of published models,
where rounding loses accuracy. The files have the same bytes on every machine."""

import array
import random
import struct

from small_model import F32, FLOAT32, Q8_0, STRING, UINT32, entry, tokenizer_entries, write_gguf

LAYERS, WIDTH, HEADS, KV_HEADS, HEAD, HIDDEN, VOCAB, CONTEXT = 6, 256, 4, 2, 64, 512, 512, 1024

# In addition to normally distributed weights, each model has:
#   key_biases  the norm of a head's key biases in each layer, in four pairs of channels that rotate slowly, as in
#               Qwen2 and Qwen2.5 (llama.cpp issue 21385: 302 and 460 per head in the first and the last layer)
#   queries     a factor on queries
#   massive     the size of the embedding's channels 7 and 130; all others are about 1 (arXiv 2402.17762)
#   spikes      a factor on one in 64 of the feed-forward's rows of gate and up (arXiv 2405.14428)
MODELS = {
    "plain": {},
    "key biases": {"key_biases": [302, 20, 20, 20, 20, 460]},
    "key biases in every layer": {"key_biases": [200] * LAYERS},
    "large keys and queries": {"queries": 4},
    "massive channels": {"massive": 40},
    "spikes of gates": {"spikes": 6},
}


def q8_0(values):
    """Returns blocks of 32 values with a half-precision scale."""
    blocks = bytearray()
    for i in range(0, len(values), 32):
        block = values[i : i + 32]
        scale = max(map(abs, block)) / 127
        inverse = 1 / scale if scale else 0
        blocks += struct.pack("<e32b", scale, *[round(x * inverse) for x in block])
    return bytes(blocks)


def tensors(draw, key_biases=None, queries=1, massive=0, spikes=1):
    def gaussian(count, deviation):
        return [draw.gauss(0, deviation) for _ in range(count)]

    def matrix(name, inputs, outputs, deviation, factors=None):
        values = []
        for row in range(outputs):
            values += gaussian(inputs, deviation * (factors[row] if factors else 1))
        return name, (inputs, outputs), Q8_0, q8_0(values)

    def vector(name, values):
        return name, (len(values),), F32, array.array("f", values).tobytes()

    embedding = gaussian(VOCAB * WIDTH, 1)
    for row in range(VOCAB if massive else 0):
        for channel in (7, 130):
            embedding[row * WIDTH + channel] = massive * (1 + draw.gauss(0, 0.05))
    yield "token_embd.weight", (WIDTH, VOCAB), Q8_0, q8_0(embedding)
    yield matrix("output.weight", WIDTH, VOCAB, 2.5 * WIDTH**-0.5)
    yield vector("output_norm.weight", [1.0] * WIDTH)
    spiking = [spikes if row % 64 == 5 else 1 for row in range(HIDDEN)]
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        yield matrix(block + "attn_q.weight", WIDTH, HEADS * HEAD, queries * 1.5 * WIDTH**-0.5)
        yield matrix(block + "attn_k.weight", WIDTH, KV_HEADS * HEAD, 1.5 * WIDTH**-0.5)
        yield matrix(block + "attn_v.weight", WIDTH, KV_HEADS * HEAD, WIDTH**-0.5)
        yield matrix(block + "attn_output.weight", HEADS * HEAD, WIDTH, WIDTH**-0.5)
        yield matrix(block + "ffn_gate.weight", WIDTH, HIDDEN, WIDTH**-0.5, spiking)
        yield matrix(block + "ffn_up.weight", WIDTH, HIDDEN, WIDTH**-0.5, spiking)
        yield matrix(block + "ffn_down.weight", HIDDEN, WIDTH, HIDDEN**-0.5)
        yield vector(block + "attn_norm.weight", [1.0] * WIDTH)
        yield vector(block + "ffn_norm.weight", [1.0] * WIDTH)
        if key_biases is None:
            continue
        biases = gaussian(KV_HEADS * HEAD, 0.1)
        for head in range(KV_HEADS):
            for pair in draw.sample(range(16, 32), 4):
                for channel in (pair, pair + HEAD // 2):
                    biases[head * HEAD + channel] = draw.choice((-1, 1)) * key_biases[layer] / 8**0.5
        yield vector(block + "attn_k.bias", biases)
        yield vector(block + "attn_q.bias", gaussian(HEADS * HEAD, 0.1))
        yield vector(block + "attn_v.bias", gaussian(KV_HEADS * HEAD, 0.1))


def write_outlier_model(path, name):
    how = MODELS[name]
    family = "qwen2" if "key_biases" in how else "llama"
    entries = [entry("general.architecture", STRING, family), entry("general.name", STRING, name)]
    for key, value in {
        "block_count": LAYERS,
        "embedding_length": WIDTH,
        "feed_forward_length": HIDDEN,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
        "context_length": CONTEXT,
        "rope.dimension_count": HEAD,
        "vocab_size": VOCAB,
    }.items():
        entries.append(entry(f"{family}.{key}", UINT32, value))
    entries += [
        entry(f"{family}.attention.layer_norm_rms_epsilon", FLOAT32, 1e-6),
        entry(f"{family}.rope.freq_base", FLOAT32, 1e6),
        *tokenizer_entries(),
    ]
    write_gguf(path, entries, tensors(random.Random(name), **how))
