#!/usr/bin/env python3
"""Compares embeddings packed without padding, batches padded to their longest text on the same server, and llama.cpp.

    bench/packed_vectors.py MODEL [--texts 256] [--repeat 3] [--pagoda build/pagoda]
        [--llama-server "$(bench/peers/llama_cpp)/llama-server"]

The cost of padding is measured on the same server: each text is made as long as the longest of its batch of 32, as an
engine that pads would compute it. llama.cpp's server gets the same texts, with a slot for each text of a batch. The
loads alternate; the median of each is printed with its spread.
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


def start(command, port):
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1)
            return server
        except OSError:
            if server.poll() is not None:
                raise SystemExit(f"{command[0]} has ended") from None
            time.sleep(0.1)
    raise SystemExit(f"{command[0]} does not come up")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--pagoda", default="build/pagoda")
    parser.add_argument("--llama-server", help="path of llama.cpp's server, for comparison")
    parser.add_argument("--port", type=int, default=8765)
    args = parser.parse_args()
    servers = [
        start(
            [
                args.pagoda,
                "serve",
                args.model,
                "--runner",
                "pooling",
                "--port",
                str(args.port),
                "--no-enable-prefix-caching",
            ],
            args.port,
        )
    ]
    try:
        url = f"http://127.0.0.1:{args.port}"
        longest = post(url + "/tokenize", {"prompt": "a"})["max_model_len"]
        token = post(url + "/tokenize", {"prompt": "a", "add_special_tokens": False})["tokens"][0]
        # Lengths of sentences and paragraphs: most are short, some are many times longer.
        draw = random.Random(1)
        lengths = [max(1, min(longest, int(draw.lognormvariate(3.3, 0.9)))) for _ in range(args.texts)]
        batches = [lengths[i : i + args.batch] for i in range(0, len(lengths), args.batch)]
        seconds = {"packed": [], "padded": []}
        urls = dict.fromkeys(seconds, url)
        if args.llama_server:
            seconds["llama.cpp"] = []
            urls["llama.cpp"] = f"http://127.0.0.1:{args.port + 1}"
            context = max(lengths) + 8
            servers.append(
                start(
                    [
                        args.llama_server,
                        "-m",
                        args.model,
                        "--embedding",
                        "--pooling",
                        "last",
                        "--port",
                        str(args.port + 1),
                        "-np",
                        str(args.batch),
                        "-c",
                        str(context * args.batch),
                        "-b",
                        "4096",
                        "-ub",
                        "4096",
                        "-t",
                        "2",
                    ],
                    args.port + 1,
                )
            )
        for _ in range(args.repeat):
            for way in seconds:
                begin = time.perf_counter()
                for batch in batches:
                    each = [max(batch)] * len(batch) if way == "padded" else batch
                    post(
                        urls[way] + "/v1/embeddings",
                        {"input": [[token] * length for length in each], "encoding_format": "base64"},
                    )
                seconds[way].append(time.perf_counter() - begin)
        for way, values in seconds.items():
            median = statistics.median(values)
            print(
                f"{way}: {args.texts / median:.1f} texts/s, {sum(lengths) / median:.0f} tokens/s of the texts' own "
                f"(median of {len(values)}, {min(values):.2f}..{max(values):.2f} s)"
            )
        for way in list(seconds)[1:]:
            print(f"packed / {way}: {statistics.median(seconds[way]) / statistics.median(seconds['packed']):.2f}")
    finally:
        for server in servers:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
