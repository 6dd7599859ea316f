"""LangChain's OpenAI chat model."""
import langchain_openai


def model(server, **more):
    return langchain_openai.ChatOpenAI(base_url=server.url + "/v1", api_key="none", model="smol", max_retries=0,
                                       temperature=0, max_tokens=16, **more)


def test_a_stream_gives_the_text_and_usage_of_the_whole_answer(server):
    whole = model(server).invoke("What is the capital of France?")
    pieces = list(model(server, stream_usage=True).stream("What is the capital of France?"))
    assert whole.content and "".join(piece.content for piece in pieces) == whole.content
    usage = [piece.usage_metadata for piece in pieces if piece.usage_metadata]
    assert usage[-1]["output_tokens"] == whole.usage_metadata["output_tokens"] > 0


def test_a_batch_gives_what_single_calls_give(server):
    questions = [f"What is {i} + {i}?" for i in range(4)]
    single = [model(server).invoke(question).content for question in questions]
    assert [answer.content for answer in model(server).batch(questions)] == single
