"""What TorchRL's parsers of tool calls make of the texts of xml_block and json_call in test/golden/toolCalls/torchrlTexts.json.

VENV/bin/python -P test/golden/generate/torchrlToolCalls.py > test/golden/toolCalls/torchrl.json

VENV has torchrl 0.14.1, with the torch and tensordict that it asks for. `-P` keeps the neighbouring safetensors.py out of the way.
"""
import importlib.metadata
import json
import pathlib
import sys

from torchrl.envs.llm.transforms.tools import JSONCallParser, XMLBlockParser

FOLDER = pathlib.Path(__file__).parent.parent / "toolCalls"
PARSERS = {"xml_block": XMLBlockParser(), "json_call": JSONCallParser()}


def answer(row):
    try:
        found = PARSERS[row["format"]](row["text"])
    except Exception as error:  # the parser's own
        return {"error": f"{type(error).__name__}: {error}"}
    calls = [{"name": call.tool, "arguments": call.args, **({"id": call.tag} if call.tag else {})} for call in found["calls"]]
    return {"text": found["text"], "calls": calls}


rows = json.loads((FOLDER / "torchrlTexts.json").read_text())
answers = [{**row, **{"expected": answer(row)}} for row in rows]
json.dump({"torchrl": importlib.metadata.version("torchrl"), "answers": answers}, sys.stdout, ensure_ascii=False, indent=1)
sys.stdout.write("\n")
