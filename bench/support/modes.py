"""The five systems of the paper's comparison, as flags of one program with the same bytes of KV cache."""

from support.program import Program

SYSTEMS = {
    "vLLM": ["--scheduler", "vllm"],
    "Orca (Oracle)": ["--scheduler", "orca", "--reserve", "oracle"],
    "Orca (Pow2)": ["--scheduler", "orca", "--reserve", "pow2"],
    "Orca (Max)": ["--scheduler", "orca", "--reserve", "max"],
    "FasterTransformer": ["--scheduler", "fastertransformer", "--reserve", "max"],
}


def kv_bytes(slots):
    """Returns the bytes of `slots` token slots with the default model."""
    with Program("--kv-cache-memory-bytes", "256MiB") as program:
        held = program.kv()
    return slots * (256 << 20) // (held["num_blocks"] * held["block_size"]) + (1 << 16)


def start(system, slots, bytes_of_slots, max_model_len):
    return Program(
        "--kv-cache-memory-bytes",
        bytes_of_slots,
        "--max-model-len",
        max_model_len,
        "--max-num-seqs",
        256,
        "--max-queue",
        4096,
        *SYSTEMS[system],
    )
