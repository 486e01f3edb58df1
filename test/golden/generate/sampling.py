"""What Transformers' logits processors leave of rows of logits, as JSON on the standard output.

    python sampling.py > ../sampling.json

Made with torch 2.13.0 and transformers 5.17.0. Processors run in the order of our sampler, which is vLLM's: repetition penalty, temperature,
min-p, top-k, top-p. Logits are float32 and all different; probabilities are the softmax in float64 of what the processors leave.
"""

import json

import torch
import transformers
from transformers import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

VOCABULARY = 48
SEEN = [3, 11, 11, 40]
OPTIONS = [
    dict(temperature=0.6),
    dict(temperature=2.5),
    dict(topK=1),
    dict(topK=7),
    dict(topP=0.1),
    dict(topP=0.9),
    dict(minP=0.05),
    dict(minP=0.5),
    dict(repetitionPenalty=1.3),
    dict(repetitionPenalty=0.7),
    dict(temperature=1.4, topK=20, topP=0.8),
    dict(temperature=0.5, minP=0.02, topP=0.95),
    dict(temperature=1.8, repetitionPenalty=1.5, minP=0.01, topK=30, topP=0.7),
]


def processors(options: dict) -> list:
    made = []
    if "repetitionPenalty" in options:
        made.append(RepetitionPenaltyLogitsProcessor(options["repetitionPenalty"]))
    if "temperature" in options:
        made.append(TemperatureLogitsWarper(options["temperature"]))
    if "minP" in options:
        made.append(MinPLogitsWarper(options["minP"]))
    if "topK" in options:
        made.append(TopKLogitsWarper(options["topK"]))
    if "topP" in options:
        made.append(TopPLogitsWarper(options["topP"]))
    return made


torch.manual_seed(0)
cases = []
for options in OPTIONS:
    logits = torch.randn(1, VOCABULARY) * 3
    scores = logits
    for processor in processors(options):
        scores = processor(torch.tensor([SEEN]), scores)
    chances = torch.softmax(scores.double(), -1)[0]
    cases.append({"options": options, "logits": logits[0].tolist(), "probabilities": chances.tolist()})
print(json.dumps({"torch": torch.__version__, "transformers": transformers.__version__, "seen": SEEN, "cases": cases}))
