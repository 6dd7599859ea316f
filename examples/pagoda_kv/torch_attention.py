#!/usr/bin/env python3
"""torch's attention, unchanged, over a KV cache that is committed as sequences grow (vAttention, arXiv 2405.04437).

  examples/pagoda_kv/torch_attention.py [--device cpu] [--requests 8] [--seed 1]

A small decoder with random weights serves requests that arrive and finish. Its keys and values are tensors of
pagoda_kv, which are contiguous in virtual memory; pages are mapped before each step. scaled_dot_product_attention and
its FlashAttention see plain tensors. Every call is repeated with ordinary tensors and must give identical bits.
With --device cuda the pages are in GPU memory; this mode has not been run on a GPU yet.
"""

import argparse
import random
import sys

import pagoda_kv
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

LAYERS, HEADS, HEAD_SIZE, VOCAB = 4, 8, 64, 512
HIDDEN = HEADS * HEAD_SIZE
SLOTS, CONTEXT = 6, 4096


class Memory:
    """A KV cache in virtual memory, and ordinary tensors of the same shape for comparison."""

    def __init__(self, device, dtype):
        on_cpu = device == "cpu"
        self.kv = pagoda_kv.init(
            *(LAYERS, HEADS, HEAD_SIZE, dtype, SLOTS, CONTEXT),
            page_size=1 << 16 if on_cpu else 1 << 21,  # the smallest page that GPU drivers map
            capacity_bytes=(14 << 20) if on_cpu else (48 << 20),  # too little for all requests, so some are preempted
            slicing=True,  # the layers of a token are adjacent, so that one page covers all of them
            map_ahead=True,
            deferred_reclaim=True,
            device=device,
        )
        self.plain = torch.zeros(LAYERS, 2, SLOTS, CONTEXT, HEADS, HEAD_SIZE, device=device, dtype=dtype)
        self.calls, self.different = 0, 0

    def attend(self, layer, reqid, q, k, v):
        """Appends the new keys and values of a sequence and returns attention over all of its tokens. Shapes: [new
        tokens, heads, head size]."""
        keys, values = (torch.from_dlpack(of(layer, reqid)) for of in (self.kv.key, self.kv.value))
        plain_keys, plain_values = (self.plain[layer, which, reqid, : len(keys)] for which in (0, 1))
        for cache, new in ((keys, k), (values, v), (plain_keys, k), (plain_values, v)):
            cache[-len(new) :] = new
        out, expected = attention(q, keys, values), attention(q, plain_keys, plain_values)
        self.calls += 1
        self.different += not torch.equal(out, expected)
        return out


def attention(q, keys, values):
    q, keys, values = (x.transpose(0, 1).unsqueeze(0) for x in (q, keys, values))  # views, no copies
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        out = F.scaled_dot_product_attention(q, keys, values, is_causal=q.shape[2] > 1)
    return out.squeeze(0).transpose(0, 1)


class Decoder:
    def __init__(self, device, dtype):
        def weights(*shape):
            return (torch.randn(*shape) / shape[-1] ** 0.5).to(device, dtype)

        self.embedding = weights(VOCAB, HIDDEN)
        self.qkv, self.out = weights(LAYERS, 3 * HIDDEN, HIDDEN), weights(LAYERS, HIDDEN, HIDDEN)

    def next_token(self, memory, reqid, tokens):
        """Returns the token after `tokens`, the tokens of the sequence that are not computed yet."""
        x = self.embedding[torch.tensor(tokens, device=self.embedding.device)]
        for layer in range(LAYERS):
            q, k, v = F.linear(x, self.qkv[layer]).view(len(tokens), 3, HEADS, HEAD_SIZE).unbind(1)
            attended = memory.attend(layer, reqid, q, k, v).reshape(len(tokens), HIDDEN)
            x = F.rms_norm(x + F.linear(attended, self.out[layer]), (HIDDEN,))
        return int((x[-1] @ self.embedding.T).argmax())


class Sequence:
    def __init__(self, prompt, length):
        self.tokens, self.length, self.computed, self.reqid = prompt, length, 0, None


def make_space(kv, running, waiting):
    """Admits sequences while slots and pages are free, and maps memory for the tokens of every running sequence. If
    memory is short, preempts the latest sequence, which is recomputed later."""
    room = kv.stats().free_pages * kv.layout.tokens_per_page
    while waiting and len(running) < SLOTS and (room := room - len(waiting[0].tokens)) > 64:
        sequence = waiting.pop(0)
        sequence.reqid = kv.alloc_reqid(len(sequence.tokens))
        running.append(sequence)
    while True:
        try:
            return kv.step({sequence.reqid: len(sequence.tokens) for sequence in running})
        except pagoda_kv.Full as full:
            victim = running.pop()
            print(f"    {full}: preempted")
            kv.free_reqid(victim.reqid)
            victim.computed = 0
            waiting.insert(0, victim)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--requests", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    chance = random.Random(options.seed)
    dtype = torch.float32 if options.device == "cpu" else torch.bfloat16
    memory, model = Memory(options.device, dtype), Decoder(options.device, dtype)
    kv, peak, step, running = memory.kv, 0, 0, []
    waiting = []
    for _ in range(options.requests):
        prompt = [chance.randrange(VOCAB) for _ in range(chance.randrange(1, 200))]
        waiting.append(Sequence(prompt, len(prompt) + chance.randrange(10, 200)))
    mib = 1 << 20
    with torch.inference_mode():
        while waiting or running:
            make_space(kv, running, waiting)
            peak = max(peak, kv.mapped_bytes)
            if step % 50 == 0:
                tokens = sum(len(sequence.tokens) for sequence in running)
                print(f"step {step}: {len(running)} sequences, {tokens} tokens, {kv.mapped_bytes / mib:.1f} MiB mapped")
            for sequence in list(running):
                new = sequence.tokens[sequence.computed :]
                sequence.computed = len(sequence.tokens)
                sequence.tokens.append(model.next_token(memory, sequence.reqid, new))
                if len(sequence.tokens) >= sequence.length:
                    kv.free_reqid(sequence.reqid)
                    running.remove(sequence)
            step += 1
    reserved, stats = kv.reserved_bytes, kv.stats()
    print(f"{memory.calls} calls of attention, {memory.different} with other bits than over plain tensors")
    print(f"plain: {memory.plain.nbytes / mib:.0f} MiB; virtual: {reserved / mib:.0f} MiB of addresses, of which")
    ahead = stats.map_calls_background
    print(f"{peak / mib:.1f} MiB mapped at most, in {stats.map_calls} calls, {ahead} of them ahead")
    return 1 if memory.different else 0


if __name__ == "__main__":
    sys.exit(main())
