"""The offline class, with the calls of vLLM's own examples (generate, chat, beam search), and its other guarantees:
Ctrl-C, memory, errors, statistics."""

import gc
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

SMALL = dict(kv_cache_memory_bytes="16M", max_num_seqs=8)


@pytest.fixture(scope="module")
def llm(pagoda, model):
    return pagoda.LLM(model, **SMALL)


def test_generate_as_the_basic_example_does(pagoda, llm):
    prompts = ["hello, my name is", "the president of", "the capital of", "the future of"]
    outputs = llm.generate(prompts, pagoda.SamplingParams(temperature=0.8, top_p=0.95))
    assert [output.prompt for output in outputs] == prompts
    for output in outputs:
        assert output.finished and len(output.outputs[0].token_ids) <= 16 and isinstance(output.outputs[0].text, str)
        assert output.prompt_token_ids and output.outputs[0].cumulative_logprob is None


def test_each_prompt_may_have_its_own_parameters(pagoda, llm):
    params = [pagoda.SamplingParams(temperature=0, max_tokens=count) for count in (3, 5, 7)]
    outputs = llm.generate(["once", [1, 2, 3], {"prompt_token_ids": [4, 5]}], params, use_tqdm=False)
    assert [len(output.outputs[0].token_ids) for output in outputs] == [3, 5, 7]
    assert outputs[1].prompt is None and outputs[1].prompt_token_ids == [1, 2, 3]
    with pytest.raises(ValueError, match="one for each"):
        llm.generate(["a", "b"], params)


def test_more_prompts_than_may_wait(pagoda, model):
    llm = pagoda.LLM(model, max_queue=4, **SMALL)
    outputs = llm.generate([[i % 500 + 1] for i in range(100)], pagoda.SamplingParams(max_tokens=2), use_tqdm=False)
    assert [output.prompt_token_ids for output in outputs] == [[i % 500 + 1] for i in range(100)]


def test_the_same_alone_and_among_others(pagoda, llm):
    params = pagoda.SamplingParams(temperature=0.9, seed=7, max_tokens=12, logprobs=0)
    alone = llm.generate("the cat", params, use_tqdm=False)[0].outputs[0]
    among = llm.generate(["a dog", "the cat", "some words and more"], params, use_tqdm=False)[1].outputs[0]
    assert alone == among


def test_the_tokenizer_has_what_users_of_transformers_call(pagoda, llm):
    tokenizer = llm.get_tokenizer()
    ids = tokenizer.encode("once upon", add_special_tokens=False)
    tokens = tokenizer.convert_ids_to_tokens(ids)
    assert tokens == tokenizer.tokenize("once upon") and tokenizer.convert_tokens_to_ids(tokens) == ids
    assert tokenizer.batch_decode([ids, ids[:1]]) == [tokenizer.decode(ids), tokenizer.decode(ids[0])]
    assert tokenizer.convert_tokens_to_ids("no such token") is None
    with pytest.raises(FileNotFoundError, match="no token"):
        tokenizer.convert_ids_to_tokens(10**6)
    vocabulary = tokenizer.get_vocab()
    assert all(vocabulary[token] == one for token, one in zip(tokens, ids)) and len(vocabulary) <= len(tokenizer)
    for name in ("bos", "eos", "pad"):
        one, text = getattr(tokenizer, f"{name}_token_id"), getattr(tokenizer, f"{name}_token")
        assert (one is None) == (text is None) and (one is None or tokenizer.convert_ids_to_tokens(one) == text)
    assert tokenizer.eos_token_id is not None
    assert tokenizer.model_max_length == llm.facts()["max_model_len"]


def test_log_probabilities_are_of_the_chosen_and_the_likeliest(pagoda, llm):
    output = llm.generate(
        "once upon", pagoda.SamplingParams(temperature=0, max_tokens=6, logprobs=3, prompt_logprobs=1), use_tqdm=False
    )[0]
    choice = output.outputs[0]
    assert len(choice.logprobs) == len(choice.token_ids) == 6
    for token, position in zip(choice.token_ids, choice.logprobs):
        assert position[token].rank == 1 and len(position) == 3 and isinstance(position[token].decoded_token, str)
        assert sum(math.exp(entry.logprob) for entry in position.values()) <= 1
    assert math.isclose(
        sum(p[t].logprob for t, p in zip(choice.token_ids, choice.logprobs)), choice.cumulative_logprob, abs_tol=1e-3
    )
    assert output.prompt_logprobs[0] is None and len(output.prompt_logprobs) == len(output.prompt_token_ids)
    assert all(token in position for token, position in zip(output.prompt_token_ids[1:], output.prompt_logprobs[1:]))


def test_several_choices_and_a_stop_string(pagoda, llm):
    output = llm.generate("once", pagoda.SamplingParams(n=3, temperature=1, seed=1, max_tokens=8), use_tqdm=False)[0]
    assert [choice.index for choice in output.outputs] == [0, 1, 2] and len({c.text for c in output.outputs}) > 1
    text = llm.generate("once", pagoda.SamplingParams(temperature=0, max_tokens=30), use_tqdm=False)[0].outputs[0].text
    cut = llm.generate("once", pagoda.SamplingParams(temperature=0, max_tokens=30, stop=text[4:6]), use_tqdm=False)[
        0
    ].outputs[0]
    assert cut.text == text[: text.index(text[4:6])] and (cut.finish_reason, cut.stop_reason) == ("stop", text[4:6])


def test_no_limit_of_tokens_is_the_context(pagoda, llm):
    for prompt in "once upon", [1, 2, 3]:
        output = llm.generate(prompt, pagoda.SamplingParams(max_tokens=None, ignore_eos=True), use_tqdm=False)[0]
        assert len(output.prompt_token_ids) + len(output.outputs[0].token_ids) == 512


def test_an_answer_that_must_be_one_of_two(pagoda, llm):
    form = pagoda.StructuredOutputsParams(choice=["yes", "no"])
    output = llm.generate("is it?", pagoda.SamplingParams(structured_outputs=form, max_tokens=8), use_tqdm=False)[0]
    assert output.outputs[0].text in ("yes", "no")


def test_beam_search_gives_the_best_first(pagoda, llm):
    output = llm.beam_search([{"prompt": "once upon"}], pagoda.BeamSearchParams(beam_width=4, max_tokens=5))[0]
    scores = [sequence.cum_logprob for sequence in output.sequences]
    assert len(scores) == 4 and scores == sorted(scores, reverse=True) and scores[0] < 0
    greedy = llm.generate("once upon", pagoda.SamplingParams(temperature=0, max_tokens=5, logprobs=0), use_tqdm=False)[
        0
    ]
    assert scores[0] >= greedy.outputs[0].cumulative_logprob - 1e-4
    assert output.sequences[0].text.startswith("once upon")


def test_chat_as_the_example_does(pagoda, model, tmp_path):
    template = tmp_path / "chat.jinja"
    template.write_text(
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    llm = pagoda.LLM(model, chat_template=str(template), **SMALL)
    conversation = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"}]
    one = llm.chat(conversation, pagoda.SamplingParams(temperature=0, max_tokens=6, logprobs=1), use_tqdm=False)
    assert len(one) == 1 and one[0].prompt == "<system>be kind\n<user>hi\n<assistant>" and one[0].outputs[0].logprobs
    two = llm.chat([conversation] * 2, pagoda.SamplingParams(temperature=0, max_tokens=6), use_tqdm=False)
    assert two[0].outputs[0].token_ids == two[1].outputs[0].token_ids == one[0].outputs[0].token_ids
    without = llm.chat(conversation, use_tqdm=False, add_generation_prompt=False)
    assert without[0].prompt == "<system>be kind\n<user>hi\n"
    tokenizer = llm.get_tokenizer()
    assert tokenizer.apply_chat_template(conversation, add_generation_prompt=True) == one[0].prompt_token_ids


def test_chat_without_a_template_says_so(llm):
    with pytest.raises(ValueError, match="template"):
        llm.chat([{"role": "user", "content": "hi"}], use_tqdm=False)


def test_the_tokenizer_goes_there_and_back(llm):
    tokenizer = llm.get_tokenizer()
    ids = tokenizer.encode("the cat sat")
    assert ids and tokenizer.decode(ids) == "the cat sat"


def test_a_bar_of_the_callers_own(pagoda, llm):
    class Bar:
        def __init__(self, total, desc):
            self.total, self.done = total, 0
            Bar.last = self

        def update(self, count):
            self.done += count

        def close(self):
            self.closed = True

    llm.generate(["a", "b"], pagoda.SamplingParams(max_tokens=1), use_tqdm=Bar)
    assert (Bar.last.total, Bar.last.done, Bar.last.closed) == (2, 2, True)


@pytest.mark.parametrize("name", ["encode", "embed", "score", "classify"])
def test_an_engine_that_generates_makes_no_vectors(llm, name):
    with pytest.raises(ValueError, match="pooling"):
        getattr(llm, name)(*["text"] * (2 if name == "score" else 1), use_tqdm=False)


def test_wrong_arguments_are_named(pagoda, llm, model):
    with pytest.raises(ValueError, match="top_p"):
        llm.generate("x", pagoda.SamplingParams(top_p=2.0), use_tqdm=False)
    with pytest.raises(ValueError, match="max-num-seqs"):
        pagoda.LLM(model, max_num_seq=3)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        pagoda.LLM("/nowhere/model.gguf")
    with pytest.raises(NotImplementedError, match="tensor_parallel_size"):
        pagoda.LLM(model, tensor_parallel_size=2)
    assert llm.generate("x", pagoda.SamplingParams(max_tokens=1), use_tqdm=False)[0].finished


def test_vllm_arguments_that_mean_nothing_here_are_taken(pagoda, model):
    pagoda.LLM(
        model, trust_remote_code=False, enforce_eager=True, seed=3, enable_prefix_caching=False, tokenizer=None, **SMALL
    )


def test_manager_scheduler_and_blocks_can_be_read(pagoda, model):
    llm = pagoda.LLM(model, kv_manager="virtual", **SMALL)
    assert (llm.kv_manager, llm.scheduler) == ("virtual", "vllm")
    before = llm.stats()
    llm.generate(["once upon a time"] * 3, pagoda.SamplingParams(max_tokens=8), use_tqdm=False)
    after = llm.stats()
    assert after["num_steps"] > before["num_steps"] and after["num_running"] == 0
    assert after["blocks_in_use"] == 0 and after["num_blocks"] > 0
    orca = pagoda.LLM(model, scheduler="orca", **SMALL)
    assert (orca.kv_manager, orca.scheduler) == ("reserved", "orca")


def test_the_lock_is_free_while_the_engine_works(pagoda, llm):
    ticks, ended = [], threading.Event()

    def tick():
        while not ended.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    llm.generate(["once"] * 8, pagoda.SamplingParams(max_tokens=400, ignore_eos=True), use_tqdm=False)
    ended.set()
    thread.join()
    assert len(ticks) > 5


def test_interrupt_leaves_the_engine_usable(pagoda, llm):
    timer = threading.Timer(0.15, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        while True:
            llm.generate(["once upon"] * 64, pagoda.SamplingParams(max_tokens=480, ignore_eos=True), use_tqdm=False)
    timer.join()
    assert (
        len(
            llm.generate("the cat", pagoda.SamplingParams(max_tokens=4, ignore_eos=True), use_tqdm=False)[0]
            .outputs[0]
            .token_ids
        )
        == 4
    )
    for _ in range(100):
        if llm.stats()["num_running"] == 0:
            break
        time.sleep(0.02)
    assert llm.stats()["blocks_in_use"] == 0


def test_memory_is_given_back(pagoda, model):
    def resident():
        return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def use():
        llm = pagoda.LLM(model, kv_cache_memory_bytes="64M", max_num_seqs=64)
        llm.generate([[i + 1] * 400 for i in range(64)], pagoda.SamplingParams(max_tokens=1), use_tqdm=False)
        grown.append(resident())

    grown = []
    use()
    gc.collect()
    first = resident()
    for _ in range(4):
        use()
    gc.collect()
    assert resident() < first + (16 << 20) and resident() < max(grown) - (8 << 20)


def test_types_and_names_are_there(wheel):
    import zipfile

    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"pagoda/py.typed", "pagoda/_native.py", "pagoda/libpagoda.so.0", "pagoda/include/pagoda.h"} <= names
    assert {"pagoda_kv/py.typed", "pagoda_kv/__init__.py", "pagoda_kv/libpagoda_kv.so.1"} <= names


def test_the_other_module_is_there(pagoda):
    """pagoda_kv does not need the pagoda module."""
    code = (
        "import pagoda_kv, sys; kv = pagoda_kv.init(2, 2, 32, 'float16', 4, 256, 4096, 1 << 20);"
        "kv.step({kv.alloc_reqid(40): 40}); assert kv.mapped_bytes == 1 << 15 and 'pagoda' not in sys.modules"
    )
    folder = str(pathlib.Path(pagoda.__file__).parents[1])
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": folder}, check=True, timeout=60)


def test_the_packages_own_code_is_typed():
    root = pathlib.Path(__file__).resolve().parents[3]
    venvs = list(pathlib.Path(sys.prefix).parent.glob("venv-*/bin/mypy"))
    if not venvs:
        pytest.skip("mypy is not there: script/package installs it")
    run = subprocess.run([venvs[0], "--cache-dir", os.devnull], cwd=root, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout


def test_what_the_program_answers_to_the_same_request(pagoda, llm, model, program):
    """The same fields through the program and through the class give the same text."""
    prompt = {"prompt": "the cat sat", "max_tokens": 12, "temperature": 0.7, "seed": 5, "top_k": 0, "top_p": 1.0}
    run = subprocess.run(
        [program, "generate", model, "--input", "-", "--kv-cache-memory-bytes", "16M"],
        input=json.dumps(prompt),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    params = pagoda.SamplingParams(max_tokens=12, temperature=0.7, seed=5)
    ours = llm.generate("the cat sat", params, use_tqdm=False)[0].outputs[0].text
    assert json.loads(run.stdout)["choices"][0]["text"] == ours


@pytest.mark.parametrize("grouped", [False, True])
def test_the_command_line_of_vllms_examples(pagoda, model, grouped):
    """vLLM's examples create arguments in this way: EngineArgs.add_cli_args of the parser or of a group, with the
    script's own defaults, then LLM(**vars(args))."""
    from pagoda.utils import FlexibleArgumentParser

    parser = FlexibleArgumentParser()
    engine = parser.add_argument_group("Engine arguments") if grouped else parser
    pagoda.EngineArgs.add_cli_args(engine)
    engine.set_defaults(model="none/none", enforce_eager=True)
    parser.add_argument_group("Sampling parameters").add_argument("--max-tokens", type=int)
    args = vars(
        parser.parse_args(
            [
                "--model",
                model,
                "--max_tokens",
                "3",
                "--kv_cache_memory_bytes=16M",
                "--max-num-seqs",
                "4",
                "--no-enable-prefix-caching",
            ]
        )
    )
    assert args == {
        "model": model,
        "max_tokens": 3,
        "enforce_eager": True,
        "kv_cache_memory_bytes": "16M",
        "max_num_seqs": "4",
        "enable_prefix_caching": False,
    }
    params = pagoda.SamplingParams(max_tokens=args.pop("max_tokens"))
    llm = pagoda.LLM(**args)
    assert (
        len(llm.generate(pagoda.TokensPrompt(prompt_token_ids=[1, 2]), params, use_tqdm=False)[0].outputs[0].token_ids)
        == 3
    )
    with pytest.raises(SystemExit):
        parser.parse_args(["stray"])


def test_what_is_asked_of_vllms_engine_and_what_is_refused(pagoda, llm, model):
    assert (llm.llm_engine.model_config.model, llm.llm_engine.model_config.max_model_len) == (model, 512)
    with pytest.raises(ValueError, match="lora_request"):
        llm.generate("x", lora_request=object(), use_tqdm=False)


def test_a_lora_request_chooses_an_adapter(pagoda, model):
    from pagoda.lora.request import LoRARequest

    fixtures = pathlib.Path(__file__).resolve().parents[2] / "fixtures"
    folder = str(fixtures / "tiny_models/llama")
    args = dict(tokenizer=model, dtype="float32", max_model_len=100, **SMALL)
    prompts, params = (
        [[42, 51, 1, 7, 7, 30, 2]] * 3,
        pagoda.SamplingParams(temperature=0, max_tokens=8, ignore_eos=True),
    )
    adapters = [
        None,
        *(LoRARequest(name, i, str(fixtures / "adapters" / name)) for i, name in ((1, "plain"), (2, "rslora"))),
    ]
    with pagoda.LLM(folder, enable_lora=True, **args) as llm:
        chosen = llm.generate(prompts, params, lora_request=adapters, use_tqdm=False)
        assert [output.lora_request for output in chosen] == adapters
        (all_one, _) = llm.generate(prompts[:2], params, lora_request=adapters[1], use_tqdm=False)
        assert all_one.outputs[0].token_ids == chosen[1].outputs[0].token_ids
        with pytest.raises(ValueError, match="one for each"):
            llm.generate(prompts, params, lora_request=adapters[:2], use_tqdm=False)
        with pytest.raises((ValueError, RuntimeError, FileNotFoundError)):
            llm.generate("x", lora_request=LoRARequest("none", 3, "/none"), use_tqdm=False)
    for adapter, output in zip(adapters, chosen):
        merged = {} if adapter is None else {"lora": adapter.path}
        with pagoda.LLM(folder, **merged, **args) as llm:
            assert (
                llm.generate(prompts[0], params, use_tqdm=False)[0].outputs[0].token_ids == output.outputs[0].token_ids
            )
            with pytest.raises(ValueError, match="enable_lora"):
                llm.generate("x", lora_request=adapters[1], use_tqdm=False)


def test_after_fork_it_says_what_is_wrong(pagoda, llm):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            llm.generate("x", pagoda.SamplingParams(max_tokens=1), use_tqdm=False)
            said = "nothing"
        except RuntimeError as error:
            said = str(error)
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        assert "before fork()" in pipe.read()
    os.waitpid(child, 0)
    assert llm.generate("x", pagoda.SamplingParams(max_tokens=1), use_tqdm=False)[0].finished


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -1},
        {"top_p": 0},
        {"top_k": -2},
        {"min_p": 2},
        {"n": 0},
        {"max_tokens": 0},
        {"min_tokens": 20},
        {"presence_penalty": 3},
        {"stop": "a", "detokenize": False},
    ],
)
def test_parameters_are_checked_when_they_are_made(pagoda, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        pagoda.SamplingParams(**wrong)


def test_ids_without_text(pagoda, llm):
    params = {"temperature": 0, "max_tokens": 3, "ignore_eos": True}
    plain = llm.generate("once", pagoda.SamplingParams(**params), use_tqdm=False)[0].outputs[0]
    bare = llm.generate("once", pagoda.SamplingParams(**params, detokenize=False), use_tqdm=False)[0].outputs[0]
    assert plain.text and bare.text == "" and bare.token_ids == plain.token_ids


def test_a_context_and_a_tokenizer_that_is_called(pagoda, model):
    with pagoda.LLM(
        model, trust_remote_code=True, limit_mm_per_prompt={"image": 0}, generation_config="vllm", **SMALL
    ) as made:
        tokenizer = made.get_tokenizer()
        assert tokenizer("once")["input_ids"] == tokenizer.encode("once") and len(tokenizer) == tokenizer.vocab_size
    with pytest.raises(ValueError, match="shut down"):
        made.generate("x", use_tqdm=False)


class OneBatch:
    """A queue whose next() returns all outputs of two requests at once, with the second request failed."""

    def __init__(self, queue, failed):
        self.queue, self.failed = queue, failed

    def next(self, timeout_ms):
        batch = []
        while len([output for output in batch if output["finished"]]) < 2:
            batch += self.queue.next(timeout_ms)
        batch.sort(key=lambda output: output["id"] == self.failed)
        batch[-1] |= {"status": -6, "message": "too late", "choices": []}
        return batch

    def close(self):
        self.queue.close()


def test_a_failed_request_does_not_take_the_outputs_beside_it_along(pagoda, llm):
    engine = llm.llm_engine
    params = pagoda.SamplingParams(max_tokens=2, ignore_eos=True, output_kind=pagoda.RequestOutputKind.FINAL_ONLY)
    engine.add_request("good", "once", params)
    engine.add_request("bad", "once", params)
    engine._queue = OneBatch(engine._queue, max(engine._running))
    (output,) = engine.step()
    assert output.request_id == "good" and output.finished and engine.has_unfinished_requests()
    with pytest.raises(RuntimeError, match="too late"):
        engine.step()
    assert not engine.has_unfinished_requests() and engine.step() == []
    engine.abort_request([])  # drops the queue


def test_what_c_cannot_take_is_refused(pagoda, llm):
    tokenizer = llm.get_tokenizer()
    for call, wrong in (
        (lambda: tokenizer.decode([2**31]), ValueError),
        (lambda: tokenizer.decode(["x"]), TypeError),
        (lambda: tokenizer.encode(5), TypeError),
        (lambda: tokenizer.encode("\ud800"), ValueError),
        (lambda: llm.generate([[1, 2**40]], use_tqdm=False), ValueError),
        (lambda: llm.sleep(2**32), ValueError),
        (lambda: pagoda.LLM("a\0b"), ValueError),
    ):
        with pytest.raises(wrong):
            call()
    closed = pagoda._native.Queue(llm._engine)
    closed.close()
    closed.close()
    with pytest.raises(ValueError, match="the queue has been shut down"):
        closed.next(0)
    assert tokenizer.decode(tokenizer.encode("the\0cat", False)) == "the\0cat"


def test_minus_infinity_has_no_number_in_json(pagoda):
    from pagoda.outputs import logprobs_of

    ((position,),) = (logprobs_of([[[7, 1, None, "x"]]]),)
    assert position == {7: pagoda.Logprob(float("-inf"), 1, "x")}
