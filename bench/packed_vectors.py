#!/usr/bin/env python3
"""Embeddings packed without padding beside batches padded to their longest text, on one server.

    bench/packed_vectors.py MODEL [--texts 256] [--repeat 3] [--pagoda build/pagoda]

What a padded batch costs is measured on the same server: the same texts, each made as long as the longest of its batch
of 32, as an engine that pads computes them. The two loads alternate, and the median of each is told with its spread.
Nothing is assumed of other engines: bench/peers/ compares with those.
"""
import argparse
import json
import random
import statistics
import subprocess
import time
import urllib.request


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.load(answer)


def start(args):
    server = subprocess.Popen([args.pagoda, "serve", args.model, "--runner", "pooling", "--port", str(args.port),
                               "--no-enable-prefix-caching"])
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{args.port}/health", timeout=1)
            return server
        except OSError:
            if server.poll() is not None:
                raise SystemExit("the server has ended")
            time.sleep(0.1)
    raise SystemExit("the server does not come up")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--pagoda", default="build/pagoda")
    parser.add_argument("--port", type=int, default=8765)
    args = parser.parse_args()
    server = start(args)
    try:
        url = f"http://127.0.0.1:{args.port}"
        longest = post(url + "/tokenize", {"prompt": "a"})["max_model_len"]
        token = post(url + "/tokenize", {"prompt": "a", "add_special_tokens": False})["tokens"][0]
        # Lengths as of sentences and paragraphs: most are short, some are many times as long.
        draw = random.Random(1)
        lengths = [max(1, min(longest, int(draw.lognormvariate(3.3, 0.9)))) for _ in range(args.texts)]
        batches = [lengths[i:i + args.batch] for i in range(0, len(lengths), args.batch)]
        seconds = {"packed": [], "padded": []}
        for _ in range(args.repeat):
            for way in seconds:
                begin = time.perf_counter()
                for batch in batches:
                    each = batch if way == "packed" else [max(batch)] * len(batch)
                    post(url + "/v1/embeddings", {"input": [[token] * length for length in each],
                                                  "encoding_format": "base64"})
                seconds[way].append(time.perf_counter() - begin)
        for way, values in seconds.items():
            median = statistics.median(values)
            print(f"{way}: {args.texts / median:.1f} texts/s, {sum(lengths) / median:.0f} tokens/s of the texts' own "
                  f"(median of {len(values)}, {min(values):.2f}..{max(values):.2f} s)")
        print(f"packed / padded: {statistics.median(seconds['padded']) / statistics.median(seconds['packed']):.2f}")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
