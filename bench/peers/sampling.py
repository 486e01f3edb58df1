"""Choosing tokens with Transformers' logits processors and torch.multinomial: the counterpart of sampling.ts, same logits, same parameters."""
import argparse
import json
import math
import sys
import time

import torch
import transformers
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

parser = argparse.ArgumentParser()
parser.add_argument("--runs", type=int, required=True)
parser.add_argument("--millis", type=int, required=True)
args = parser.parse_args()
torch.set_num_threads(1)

MADE = {
    "repetitionPenalty": RepetitionPenaltyLogitsProcessor,
    "temperature": TemperatureLogitsWarper,
    "minP": MinPLogitsWarper,
    "topK": TopKLogitsWarper,
    "topP": TopPLogitsWarper,
}


def chooser(params, logits, seen):
    """One row, as Transformers' generate chooses: processors, softmax, multinomial; argmax without sampling."""
    if params.get("temperature") == 0:
        return lambda: torch.argmax(logits, -1)
    processors = LogitsProcessorList([make(params[name]) for name, make in MADE.items() if name in params])
    count = params.get("topLogProbs")

    def choose():
        scores = processors(seen, logits)
        token = torch.multinomial(torch.softmax(scores, -1), 1)
        if count is not None:
            torch.log_softmax(logits, -1).topk(count, -1)
        return token

    return choose


def nanos(f):
    """The median of runs, in nanoseconds of processor time for one call."""
    calls, start = 0, time.process_time()
    while (time.process_time() - start) * 1000 < args.millis:
        f()
        calls += 1
    runs = []
    for _ in range(args.runs):
        start = time.process_time()
        for _ in range(calls):
            f()
        runs.append((time.process_time() - start) / calls * 1e9)
    return sorted(runs)[math.floor(len(runs) / 2)]


work = json.load(sys.stdin)
result = {}
for row in work["rows"]:
    logits = torch.tensor([row["logits"]])
    seen = torch.tensor([row["seen"]])
    result[row["name"]] = {name: nanos(chooser(params, logits, seen)) for name, params in work["cases"].items()}
print(json.dumps({"peer": f"transformers {transformers.__version__}, torch {torch.__version__}", "nanos": result}))
