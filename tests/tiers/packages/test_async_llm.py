"""AsyncLLM: streams, kinds of output, and the effects of leaving a stream, aborting and shutting down."""

import asyncio

import pytest


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 120))


@pytest.fixture
def engine(pagoda, model):
    engine = pagoda.AsyncLLM.from_engine_args(
        pagoda.AsyncEngineArgs(model, kv_cache_memory_bytes="16M", max_num_seqs=8)
    )
    yield engine
    engine.shutdown()


async def idle(engine):
    for _ in range(200):
        stats = await engine.stats()
        if stats["num_running"] == stats["num_waiting"] == 0:
            return stats
        await asyncio.sleep(0.02)
    raise AssertionError(stats)


def test_streams_grow_to_what_is_given_whole(pagoda, engine):
    kinds = pagoda.RequestOutputKind

    async def ask(kind, number):
        params = pagoda.SamplingParams(temperature=0, max_tokens=40, ignore_eos=True, output_kind=kind)
        return [
            (o.outputs[0].text, list(o.outputs[0].token_ids), o.finished)
            async for o in engine.generate("once upon", params, f"r{number}")
        ]

    async def all_of_them():
        return await asyncio.gather(
            *(ask(kind, i) for i, kind in enumerate([kinds.CUMULATIVE, kinds.DELTA, kinds.FINAL_ONLY]))
        )

    whole, pieces, final = run(all_of_them())
    assert len(final) == 1 and final[0][2] and len(final[0][1]) == 40
    assert whole[-1] == final[0] and [o[2] for o in whole].count(True) == 1
    assert "".join(o[0] for o in pieces) == final[0][0] and sum((o[1] for o in pieces), []) == final[0][1]


def test_many_at_a_time(pagoda, engine):
    async def one(i):
        async for output in engine.generate([i + 1], pagoda.SamplingParams(max_tokens=5, ignore_eos=True), str(i)):
            last = output
        return last.request_id, last.prompt_token_ids, len(last.outputs[0].token_ids)

    async def many():
        return await asyncio.gather(*(one(i) for i in range(60)))

    assert run(many()) == [(str(i), [i + 1], 5) for i in range(60)]


def test_leaving_the_loop_ends_the_request(pagoda, engine):
    async def leave():
        stream = engine.generate("once", pagoda.SamplingParams(max_tokens=500, ignore_eos=True), "long")
        async for _ in stream:
            break
        await stream.aclose()
        assert (await idle(engine))["blocks_in_use"] == 0

    run(leave())


def test_abort_ends_a_stream(pagoda, engine):
    async def abort():
        outputs = []
        async for output in engine.generate("once", pagoda.SamplingParams(max_tokens=505, ignore_eos=True), "it"):
            outputs.append(output.finished)
            await engine.abort("it")
        assert True not in outputs or len(outputs) == 1
        await idle(engine)

    run(abort())


def test_a_task_that_is_cancelled_takes_its_request_along(pagoda, engine):
    async def cancel():
        async def read():
            async for _ in engine.generate("once", pagoda.SamplingParams(max_tokens=505, ignore_eos=True)):
                pass

        for wait in (0, 0.001, 0.01):
            task = asyncio.create_task(read())
            await asyncio.sleep(wait)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await idle(engine)

    run(cancel())


def test_a_wrong_request_is_an_error_of_its_own(pagoda, engine):
    async def wrong():
        with pytest.raises(ValueError, match="top_p"):
            async for _ in engine.generate("x", pagoda.SamplingParams(top_p=9.0)):
                pass
        async for output in engine.generate("x", pagoda.SamplingParams(max_tokens=2, ignore_eos=True)):
            last = output
        assert last.finished

    run(wrong())


def test_shutdown_ends_what_runs(pagoda, model):
    async def end():
        engine = pagoda.AsyncLLM(model, kv_cache_memory_bytes="16M")

        async def read():
            async for _ in engine.generate("once", pagoda.SamplingParams(max_tokens=505, ignore_eos=True)):
                pass

        task = asyncio.create_task(read())
        await asyncio.sleep(0.05)
        await asyncio.to_thread(engine.shutdown)
        await task
        with pytest.raises(RuntimeError, match="shut down"):
            async for _ in engine.generate("once"):
                pass

    run(end())
