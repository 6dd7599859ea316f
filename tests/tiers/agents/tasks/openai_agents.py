"""OpenAI's Agents SDK writes a file with a tool: URL MODEL chat|responses TASK."""

import asyncio
import pathlib
import sys

import agents
import openai

url, model, protocol, task = sys.argv[1:]


@agents.function_tool
def write_file(path: str, content: str) -> str:
    """Writes a file.

    Args:
        path: Where to.
        content: What it holds.
    """
    pathlib.Path(path).write_text(content)
    return "written"


async def main():
    agents.set_tracing_disabled(True)
    kind = agents.OpenAIChatCompletionsModel if protocol == "chat" else agents.OpenAIResponsesModel
    client = openai.AsyncOpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
    agent = agents.Agent(
        name="writer",
        instructions="You write files with your tool alone.",
        model=kind(model, openai_client=client),
        tools=[write_file],
    )
    print((await agents.Runner.run(agent, task)).final_output)


asyncio.run(main())
