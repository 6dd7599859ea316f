"""vLLM's extensions of the completions body, and features that evaluation harnesses rely on."""

import math

import httpx
from conftest import default_model, serving


def complete(http, **body):
    answer = http.post("/v1/completions", json={"model": "smol", "temperature": 0, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def ids_of(http, text):
    return http.post("/tokenize", json={"prompt": text, "add_special_tokens": False}).json()["tokens"]


def test_token_ids_in_and_out(http):
    prompt = ids_of(http, "The capital of France is")
    by_ids = complete(http, prompt=prompt, max_tokens=8, return_token_ids=True)
    by_text = complete(
        http, prompt="The capital of France is", max_tokens=8, return_token_ids=True, add_special_tokens=False
    )
    choice = by_ids["choices"][0]
    assert by_ids["prompt_token_ids"] == choice["prompt_token_ids"] == prompt
    assert len(choice["token_ids"]) == by_ids["usage"]["completion_tokens"]
    assert choice["token_ids"] == by_text["choices"][0]["token_ids"]
    text = http.post("/detokenize", json={"tokens": choice["token_ids"]}).json()["prompt"]
    assert text.startswith(choice["text"])


def test_a_prefix_is_found_in_the_cache(http):
    prompt = ids_of(http, "A long shared beginning of a story about the sea and the wind. " * 12)
    first = complete(http, prompt=prompt, max_tokens=4, return_token_ids=True, cache_salt="e2e")
    again = complete(http, prompt=prompt, max_tokens=4, return_token_ids=True, cache_salt="e2e")
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] >= len(prompt) // 2
    assert again["choices"][0]["token_ids"] == first["choices"][0]["token_ids"]
    other = complete(http, prompt=prompt, max_tokens=4, cache_salt="someone else")
    assert other["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


def test_echo_scores_a_text(http, valid):
    """lm-eval's log-likelihood: echo, one token, logprobs of the prompt."""
    prompt = ids_of(http, "Paris is the capital of France")
    answer = complete(http, prompt=[prompt], max_tokens=1, logprobs=1, echo=True, seed=1)
    valid("EchoedCompletion", answer)
    logprobs = answer["choices"][0]["logprobs"]
    assert (
        len(logprobs["tokens"]) == len(prompt) + 1 == len(logprobs["token_logprobs"]) == len(logprobs["top_logprobs"])
    )
    assert logprobs["token_logprobs"][0] is None and logprobs["top_logprobs"][0] is None
    assert all(value <= 0 for value in logprobs["token_logprobs"][1:])
    for value, top in zip(logprobs["token_logprobs"][1:], logprobs["top_logprobs"][1:]):
        assert max(top.values()) >= value - 1e-6
    assert answer["choices"][0]["text"].startswith("Paris is the capital of France")

    nothing = complete(http, prompt=prompt, max_tokens=0, logprobs=0, echo=True)
    assert nothing["usage"]["completion_tokens"] == 0
    assert nothing["choices"][0]["logprobs"]["token_logprobs"][1:] == logprobs["token_logprobs"][1:-1]


def test_prompt_logprobs_in_vllms_form(http):
    prompt = ids_of(http, "Paris is the capital")
    choice = complete(http, prompt=prompt, max_tokens=2, prompt_logprobs=2, logprobs=1)["choices"][0]
    entries = choice["prompt_logprobs"]
    assert len(entries) == len(prompt) and entries[0] is None
    for token, entry in zip(prompt[1:], entries[1:]):
        chosen = entry[str(token)]
        assert chosen["rank"] >= 1 and chosen["logprob"] <= 0 and isinstance(chosen["decoded_token"], str)
        assert 2 <= len(entry) <= 3
    assert math.isclose(choice["cumulative_logprob"], sum(choice["logprobs"]["token_logprobs"]), abs_tol=1e-4)


def test_numbers_keep_nine_digits(http):
    text = http.post("/v1/completions", json={"prompt": "a b c", "max_tokens": 8, "logprobs": 3, "temperature": 0}).text
    values = [
        v
        for v in text.replace("[", ",").replace("]", ",").replace(":", ",").replace("}", ",").split(",")
        if v.startswith("-")
    ]
    assert max(len(v.split("e")[0].lstrip("-0.").replace(".", "")) for v in values) >= 8


def test_token_choice_can_be_forced(http):
    token = ids_of(http, " yes")[0]
    forced = complete(
        http, prompt="Well,", max_tokens=3, allowed_token_ids=[token], return_token_ids=True, ignore_eos=True
    )
    assert forced["choices"][0]["token_ids"] == [token] * 3
    biased = complete(http, prompt="Well,", max_tokens=3, logit_bias={str(token): 100}, return_token_ids=True)
    assert token in biased["choices"][0]["token_ids"]
    stopped = complete(
        http, prompt="Well,", max_tokens=3, allowed_token_ids=[token], stop_token_ids=[token], return_token_ids=True
    )
    assert stopped["choices"][0]["finish_reason"] == "stop" and stopped["choices"][0]["stop_reason"] == token
    assert stopped["choices"][0]["token_ids"] == [token]


def test_bad_words_do_not_appear(http):
    plain = complete(http, prompt="The weather is", max_tokens=10)["choices"][0]["text"]
    word = plain.split()[0]
    other = complete(http, prompt="The weather is", max_tokens=10, bad_words=[word])["choices"][0]["text"]
    assert other.split()[0] != word


def test_what_others_do_changes_nothing(http):
    """A request gets the same tokens and bit-identical log-probabilities alone and among others."""
    import concurrent.futures

    ask = dict(
        prompt="Tell me a story about a fox.", max_tokens=16, logprobs=2, return_token_ids=True, seed=5, temperature=0.9
    )
    alone = complete(http, **ask)["choices"][0]
    with concurrent.futures.ThreadPoolExecutor(13) as pool:
        noise = [
            pool.submit(complete, http, prompt=f"Noise {i} " * (i + 1), max_tokens=20, temperature=1) for i in range(12)
        ]
        among = pool.submit(complete, http, **ask).result()["choices"][0]
        for future in noise:
            future.result()
    assert among["token_ids"] == alone["token_ids"]
    assert among["logprobs"] == alone["logprobs"]
    assert among["cumulative_logprob"] == alone["cumulative_logprob"]


def test_special_tokens_typed_by_a_user_are_text(http):
    typed = http.post("/tokenize", json={"messages": [{"role": "user", "content": "<|im_end|>"}]}).json()
    plain = http.post("/tokenize", json={"messages": [{"role": "user", "content": "x"}]}).json()
    marker = http.post("/tokenize", json={"prompt": "<|im_end|>", "add_special_tokens": False}).json()["tokens"]
    assert len(marker) == 1
    assert typed["tokens"].count(marker[0]) == plain["tokens"].count(marker[0])
    assert typed["count"] > plain["count"]


def test_a_template_of_the_requests_own_where_it_is_trusted(http):
    body = {
        "messages": [{"role": "user", "content": "Once upon a time"}],
        "max_tokens": 4,
        "temperature": 0,
        "return_token_ids": True,
        "chat_template": "{{ messages[0].content }}",
    }
    refused = http.post("/v1/chat/completions", json=body)
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "chat_template", refused.text
    with serving(default_model(), "--trust-request-chat-template") as server:
        answer = httpx.post(server.url + "/v1/chat/completions", json=body, timeout=120).json()
        plain = httpx.post(
            server.url + "/v1/completions",
            timeout=120,
            json={"prompt": "Once upon a time", "max_tokens": 4, "temperature": 0},
        ).json()
    assert answer["choices"][0]["message"]["content"] == plain["choices"][0]["text"]
    assert answer["usage"]["prompt_tokens"] == plain["usage"]["prompt_tokens"]
