"""Conversations rendered by Transformers with chat templates.

    python chatTemplates.py CONVERSATIONS.json FOLDER_OF_JINJA_FILES > OUT.json

Made with transformers 5.17.0 and jinja2 3.1.6. For each template and conversation: the text and the ranges of its `generation` blocks (in
UTF-16 code units), or the error, once with contents as strings and once as lists of parts. The date is 5 March 2024, 14:07:09.
"""
import datetime
import json
import pathlib
import sys

import jinja2
import transformers
from transformers.utils import chat_template_utils as utils


class FixedDate(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 3, 5, 14, 7, 9)


utils.datetime = FixedDate
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def units(text):
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def as_parts(message):
    if isinstance(message.get("content"), str):
        return {**message, "content": [{"type": "text", "text": message["content"]}]}
    return message


def render(source, case, messages):
    variables = {**TOKENS, **case.get("variables", {})}
    prompt = case["generationPrompt"]
    options = dict(tools=case.get("tools"), add_generation_prompt=prompt == "add", **variables)
    try:
        if prompt == "continue":
            texts, _ = utils.render_jinja_template([messages], chat_template=source, continue_final_message=True, **options)
            return {"text": texts[0], "generations": []}
        texts, ranges = utils.render_jinja_template([messages], chat_template=source, return_assistant_tokens_mask=True, **options)
        found = [[units(texts[0][:start]), units(texts[0][:end])] for start, end in ranges[0]]
        return {"text": texts[0], "generations": found}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


cases = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
results = {}
for path in sorted(pathlib.Path(sys.argv[2]).glob("*.jinja")):
    source = path.read_bytes().decode("utf-8")
    results[path.stem] = {
        case["name"]: {
            "text": render(source, case, case["messages"]),
            "parts": render(source, case, [as_parts(m) for m in case["messages"]]),
        }
        for case in cases
    }
json.dump(
    {"transformers": transformers.__version__, "jinja2": jinja2.__version__, "results": results},
    sys.stdout, ensure_ascii=False, indent=1,
)
print()
