"""What TorchRL's IfEvalScorer makes of whole replies.

    python test/golden/generate/ifEvalScorer.py

writes test/golden/ifEval/scorer.json. Needs torchrl, tensordict, torch and what ifEval.py needs.
"""
import json
from pathlib import Path
from types import SimpleNamespace

import torch
from tensordict import NonTensorData, TensorDict
from torchrl.data.llm import History

import ifEval  # installs the sentence model
from ifEval import version, write

from torchrl.envs.llm.reward.ifeval._scorer import IfEvalScorer  # noqa: E402  (after the sentence model is there)

ROWS = [
    [("punctuation:no_comma", {}), ("startend:quotation", {})],
    [("detectable_format:title", {}), ("length_constraints:number_words", {"num_words": 3, "relation": "less than"}), ("keywords:existence", {"keywords": ["river"]})],
    [("length_constraints:number_sentences", {"num_sentences": 2, "relation": "at least"})],
]
ANSWERS = ["\"a\"", "a", "a, b", "Sure:\n\"a\"", "Sure, so:\n\"a\"\nBye, now", "*\"a\"*", "<<River>>", "<<a>> river of stone", "One. Two.", "Dr. One.", "A\nOne. Two.\nB", " "]
FORMS = ["<think>t</think><answer>{}</answer>", "<answer>{}</answer>", "<think>a</think><think>b</think>\n<answer>\n{}\n</answer>", "<answer>{}</answer><answer>other</answer>", "<think>t</think>{}", "{}", "<answer>{}", "<answer></answer><answer>{}</answer>"]


class Scorer(IfEvalScorer):
    parent = SimpleNamespace(base_env=SimpleNamespace(input_mode="history"))


def scored(row, reply):
    history = lambda role, text: History(role=role, content=text, is_complete=True)
    data = TensorDict({
        "history": {"full": torch.stack([history("user", "Write."), history("assistant", reply)]), "prompt": torch.stack([history("user", "Write.")])},
        "key": NonTensorData(1), "instruction_id_list": NonTensorData([name for name, _ in row]), "kwargs": NonTensorData([kwargs for _, kwargs in row]), "text": NonTensorData("Write."),
    })
    after = Scorer()._step(data, TensorDict({}))
    score = after["ifeval_score"]
    return {
        "reward": round(after["reward"].item(), 6),
        "terminated": bool(after.get("terminated", torch.zeros(1)).item()),
        "verdicts": [[bool(x) for x in getattr(score, name).flatten().tolist()] for name in
                     ("prompt_level_strict_acc", "prompt_level_loose_acc", "inst_level_strict_acc", "inst_level_loose_acc")],
    }


if __name__ == "__main__":
    replies = [form.format(answer) for form in FORMS for answer in ANSWERS]
    write("scorer.json", {
        "versions": {name: version(name) for name in ("torchrl", "tensordict", "torch", "nltk")},
        "rows": [[{"id": name, "kwargs": kwargs} for name, kwargs in row] for row in ROWS],
        "replies": [{"row": i, "reply": reply, **scored(row, reply)} for i, row in enumerate(ROWS) for reply in replies],
    })
