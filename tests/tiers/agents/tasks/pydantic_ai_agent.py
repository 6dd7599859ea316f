"""Pydantic AI writes a file with a tool: URL MODEL chat|responses|messages TASK."""

import pathlib
import sys

from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

url, model, protocol, task = sys.argv[1:]
if protocol == "messages":
    import anthropic

    chosen = AnthropicModel(
        model,
        provider=AnthropicProvider(
            anthropic_client=anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0)
        ),
    )
else:
    kind = OpenAIChatModel if protocol == "chat" else OpenAIResponsesModel
    chosen = kind(model, provider=OpenAIProvider(base_url=url + "/v1", api_key="none"))
agent = Agent(chosen, instructions="You write files with your tool alone. " * 20)


@agent.tool_plain
def write_file(path: str, content: str) -> str:
    """Writes a file.

    Args:
        path: Where to.
        content: What it holds.
    """
    pathlib.Path(path).write_text(content)
    return "written"


print(agent.run_sync(task).output)
