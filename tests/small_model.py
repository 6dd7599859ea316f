"""A GGUF file of a tiny random Llama with a tokenizer, so that load tests measure the server and not the model.

The shape is that of stories260K (5 layers, 8 heads over 4, 512 tokens of vocabulary and of context), without a chat
template. The file has the same bytes on every machine.
"""

import array
import random
import struct

LAYERS, WIDTH, HEADS, KV_HEADS, HIDDEN, VOCAB, CONTEXT = 5, 64, 8, 4, 192, 512, 512
UINT32, INT32, FLOAT32, STRING, ARRAY = 4, 5, 6, 8, 9
F32, Q8_0 = 0, 8  # tensor types
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4


def byte_alphabet():
    """Returns GPT-2's alphabet: a visible character for each byte."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = (b for b in range(256) if b not in visible)
    return [chr(b) for b in visible] + [chr(256 + i) for i, _ in enumerate(others)]


def vocabulary(markers=(), without=""):
    tokens, merges = ["<|endoftext|>", *(c for c in byte_alphabet() if c not in without)], []
    letters = "etaoinshrdlucmfwygpb"
    for first, second in [("Ġ", c) for c in letters] + [(a, b) for a in letters for b in letters if a != b]:
        if len(tokens) == VOCAB - len(markers):
            break
        merges.append(f"{first} {second}")
        tokens.append(first + second)
    return [*tokens, *markers], merges


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, kind, value):
    pack = {
        UINT32: lambda v: struct.pack("<I", v),
        INT32: lambda v: struct.pack("<i", v),
        FLOAT32: lambda v: struct.pack("<f", v),
        STRING: string,
    }
    if isinstance(value, list):
        return string(key) + struct.pack("<IIQ", ARRAY, kind, len(value)) + b"".join(map(pack[kind], value))
    return string(key) + struct.pack("<I", kind) + pack[kind](value)


def tensors():
    head = WIDTH // HEADS
    yield "token_embd.weight", (WIDTH, VOCAB), 1.0
    yield "output.weight", (WIDTH, VOCAB), 0.3
    yield "output_norm.weight", (WIDTH,), None
    for layer in range(LAYERS):
        for name, shape in {
            "attn_q": (WIDTH, WIDTH),
            "attn_k": (WIDTH, KV_HEADS * head),
            "attn_v": (WIDTH, KV_HEADS * head),
            "attn_output": (WIDTH, WIDTH),
            "ffn_gate": (WIDTH, HIDDEN),
            "ffn_up": (WIDTH, HIDDEN),
            "ffn_down": (HIDDEN, WIDTH),
        }.items():
            yield f"blk.{layer}.{name}.weight", shape, shape[0] ** -0.5
        for name in "attn_norm", "ffn_norm":
            yield f"blk.{layer}.{name}.weight", (WIDTH,), None


def tokenizer_entries(markers=(), without="", control=False):
    tokens, merges = vocabulary(markers, without)
    return [
        entry("tokenizer.ggml.model", STRING, "gpt2"),
        entry("tokenizer.ggml.pre", STRING, "gpt-2"),
        entry("tokenizer.ggml.tokens", STRING, tokens),
        entry("tokenizer.ggml.merges", STRING, merges),
        entry(
            "tokenizer.ggml.token_type",
            INT32,
            [CONTROL] + [NORMAL] * (VOCAB - 1 - len(markers)) + [CONTROL if control else USER_DEFINED] * len(markers),
        ),
        entry("tokenizer.ggml.bos_token_id", UINT32, 0),
        entry("tokenizer.ggml.eos_token_id", UINT32, 0),
    ]


def write_small_model(path, markers=(), without="", control=False):
    """`markers`: additional tokens, such as those that begin and end reasoning; `control`: they are special tokens;
    `without`: characters that occur in no token."""
    entries = [
        entry("general.architecture", STRING, "llama"),
        entry("general.name", STRING, "small"),
        entry("general.alignment", UINT32, 32),
        entry("llama.block_count", UINT32, LAYERS),
        entry("llama.embedding_length", UINT32, WIDTH),
        entry("llama.feed_forward_length", UINT32, HIDDEN),
        entry("llama.attention.head_count", UINT32, HEADS),
        entry("llama.attention.head_count_kv", UINT32, KV_HEADS),
        entry("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5),
        entry("llama.context_length", UINT32, CONTEXT),
        entry("llama.rope.dimension_count", UINT32, WIDTH // HEADS),
        entry("llama.vocab_size", UINT32, VOCAB),
        *tokenizer_entries(markers, without, control),
    ]
    draw = random.Random(1)

    def written():
        for name, shape, deviation in tensors():
            count = shape[0] * (shape[1] if len(shape) > 1 else 1)
            values = [1.0] * count if deviation is None else [draw.gauss(0, deviation) for _ in range(count)]
            yield name, shape, F32, array.array("f", values).tobytes()

    write_gguf(path, entries, written())


def write_gguf(path, entries, tensors):
    """`tensors`: (name, shape with the innermost axis first, GGUF type, bytes) of each tensor."""
    infos, data = [], bytearray()
    for name, shape, kind, stored in tensors:
        infos.append(string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, len(data)))
        data += stored
        data += bytes(-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(entries)) + b"".join(entries) + b"".join(infos)
    path.write_bytes(head + bytes(-len(head) % 32) + data)
