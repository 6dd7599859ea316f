"""Qwen-Agent writes a file with a tool of its own, over the API's tool calls: URL MODEL TASK."""

import json
import pathlib
import sys

from qwen_agent.agents import Assistant
from qwen_agent.tools.base import BaseTool, register_tool

url, model, task = sys.argv[1:]


@register_tool("write_file")
class WriteFile(BaseTool):
    description = "Writes a file."
    parameters = {
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["path", "content"],
    }

    def call(self, params, **_):
        arguments = json.loads(params)
        pathlib.Path(arguments["path"]).write_text(arguments["content"])
        return "written"


agent = Assistant(
    function_list=["write_file"],
    system_message="You write files with your tool alone. " * 20,
    llm={
        "model": model,
        "model_type": "oai",
        "model_server": url + "/v1",
        "api_key": "none",
        "generate_cfg": {"use_raw_api": True},
    },
)
*_, answer = agent.run([{"role": "user", "content": task}])
print(answer[-1]["content"])
