"""What vLLM's parsers of tool calls make of the texts of test/golden/toolCalls/texts.json.

VENV/bin/python -P test/golden/generate/toolCalls.py > test/golden/toolCalls/vllm.json

`-P` keeps the neighbouring safetensors.py out of the way. VENV has vllm 0.32 (CPU). Each text is read whole. No model and no tokenizer of one is needed: the parsers ask for the ids of their tags alone.
"""
import io
import json
import logging
import pathlib
import sys

real = sys.stdout
sys.stdout = io.StringIO()  # what vLLM says while it is imported

import vllm  # noqa: E402  (after the output is turned away)
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest  # noqa: E402  (after the output is turned away)
from vllm.tool_parsers import ToolParserManager  # noqa: E402  (after the output is turned away)

logging.disable(logging.CRITICAL)
FOLDER = pathlib.Path(__file__).parent.parent / "toolCalls"


class Tags:
    """A tokenizer that knows tags alone."""

    def __init__(self, tags):
        self.ids = {tag: 100 + i for i, tag in enumerate(tags)}

    def get_vocab(self):
        return self.ids

    def convert_tokens_to_ids(self, tag):
        return self.ids.get(tag)

    def encode(self, text, **_):
        return [self.ids[text]] if text in self.ids else [1]


def deepseek(words):
    return "<\uff5c" + words.replace(" ", "\u2581") + "\uff5c>"


TAGS = [
    *["<tool_call>", "</tool_call>", "<|python_tag|>", "[TOOL_CALLS]", "<|tool_call|>"],
    *map(deepseek, ["tool calls begin", "tool calls end", "tool call begin", "tool call end"]),
]


def read(row):
    parser = ToolParserManager.get_tool_parser(row["format"])
    request = ChatCompletionRequest(
        model="m", messages=[{"role": "user", "content": "x"}], tools=row.get("tools"), tool_choice="auto" if "tools" in row else None
    )
    made = parser(Tags([*TAGS, *row.get("vocabulary", [])]), request.tools)
    found = made.extract_tool_calls(row["text"], request)
    return {
        "text": found.content or "",
        "calls": [{"name": call.function.name, "arguments": call.function.arguments} for call in found.tool_calls],
    }


def answer(row):
    try:
        return read(row)
    except Exception as error:  # the parser's own
        return {"error": f"{type(error).__name__}: {error}"}


rows = json.loads((FOLDER / "texts.json").read_text())
answers = [{"format": row["format"], "name": row["name"], **answer(row)} for row in rows]
json.dump({"vllm": vllm.__version__, "answers": answers}, real, ensure_ascii=False, indent=1)
real.write("\n")
