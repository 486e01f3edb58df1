"""Runs `sl_loop` and then `rl_loop` of tinker-cookbook, unchanged, against a server: arguments are its URL, the folder of its
model and a folder for logs.

The model of `npm run make -- tinkerModel` is served under the name below, because the recipes choose a prompt format by the name.
Data sets and tokenizers of the hub are replaced: `datasets.load_dataset` returns small tables, and the tokenizer is read from
the folder. `sl_loop` teaches to answer with a random digit in a box, and `rl_loop` continues its adapter and learns which digit
is rewarded. Prints one JSON object.
"""

import json
import os
import random
import sys

import datasets
from tinker_cookbook.recipes import rl_loop, sl_loop
from tinker_cookbook.tokenizer_utils import register_tokenizer
from transformers import AutoTokenizer

NAME = "Qwen/Qwen3-8B-Base"
SUFFIX = " Provide a numerical answer without units, written inside \\boxed{}."
PREFIX = [
    {"role": "user", "content": "How many r's are in strawberry?" + SUFFIX},
    {
        "role": "assistant",
        "content": "Let's spell the word out and number all the letters: 1) s 2) t 3) r 4) a 5) w 6) b 7) e 8) r 9) r 10) y. "
        "We have r's at positions 3, 8, and 9. \\boxed{3}",
    },
]
QUESTIONS = ["Say a digit.", "Name a digit.", "Which digit?", "A digit, please."]
REWARDED = "7"


def conversations(count):
    draw = random.Random(0)
    return [
        {
            "messages": [
                *PREFIX,
                {"role": "user", "content": draw.choice(QUESTIONS) + SUFFIX},
                {"role": "assistant", "content": f"\\boxed{{{draw.randrange(4, 8)}}}"},
            ]
        }
        for _ in range(count)
    ]


def problems(count):
    return [{"question": QUESTIONS[i % len(QUESTIONS)], "answer": f"#### {REWARDED}"} for i in range(count)]


def tables(rows):
    return datasets.DatasetDict({"train": datasets.Dataset.from_list(rows)})


def metrics(folder):
    with open(os.path.join(folder, "metrics.jsonl")) as lines:
        return [json.loads(line) for line in lines]


def main(url, model, out):
    register_tokenizer(NAME, lambda: AutoTokenizer.from_pretrained(model))
    known = {"HuggingFaceH4/no_robots": conversations(4 * 60), "openai/gsm8k": problems(4 * 40)}
    datasets.load_dataset = lambda name, *_: tables(known[name])
    taught, trained = os.path.join(out, "sl"), os.path.join(out, "rl")
    sl_loop.main(
        sl_loop.Config(base_url=url, model_name=NAME, log_path=taught, batch_size=4, learning_rate=3e-3, save_every=0)
    )
    with open(os.path.join(taught, "checkpoints.jsonl")) as lines:
        last = json.loads(lines.read().splitlines()[-1])
    os.makedirs(trained, exist_ok=True)
    with open(os.path.join(trained, "checkpoints.jsonl"), "w") as start:
        start.write(json.dumps({**last, "name": "start", "batch": 0}) + "\n")
    # The newest recipes default to a loss of the hosted service alone; older ones have this loss and no such setting.
    loss = {"loss_fn": "importance_sampling"} if "loss_fn" in rl_loop.Config.__annotations__ else {}
    rl_loop.main(
        rl_loop.Config(
            **loss,
            base_url=url,
            model_name=NAME,
            log_path=trained,
            batch_size=4,
            group_size=8,
            learning_rate=1e-3,
            max_steps=int(os.environ.get("RL_STEPS", "16")),
        )
    )
    nll = [each["train_mean_nll"] for each in metrics(taught) if "train_mean_nll" in each]
    rewards = [each["reward/total"] for each in metrics(trained) if "reward/total" in each]
    print(json.dumps({"nll": [nll[0], nll[-1]], "rewards": rewards}))


if __name__ == "__main__":
    main(*sys.argv[1:4])
