"""SQuAD's normalization, exact match and F1 of pairs of answers.

    python squad.py > ../squad.json

Made with transformers.data.metrics.squad_metrics (`normalize_answer`, `compute_exact`, `compute_f1`), which are those of SQuAD's own script.
"""
import json
import random

import transformers
from transformers.data.metrics.squad_metrics import compute_exact, compute_f1, normalize_answer

WORDS = ["the", "The", "a", "an", "AN", "cat", "Cat", "cat's", "sat", "on", "mat", "mat.", "U.S.A.", "$5", "5", "1,000", "-", "don't", "theory", "banana"]
WORDS += ["éa", "naïve", "Über", "日本", "a_b", "the-end", "x", "y", "y", "  ", "\t", "and", "\"quoted\"", "(in)", "50%", "3.14", "é", "the\u0301"]
random.seed(0)


def text():
    return " ".join(random.choice(WORDS) for _ in range(random.randint(0, 6)))


pairs = [(text(), text()) for _ in range(100)]
pairs += [(a, " ".join(random.sample(a.split(" "), len(a.split(" "))))) for a, _ in pairs[:20]]
pairs += [("", ""), ("", "a"), ("the", "a"), ("The cat.", "cat"), ("cat cat", "cat"), ("Denver Broncos", "The Denver Broncos!")]
rows = [
    {"a": a, "b": b, "normal": normalize_answer(a), "exact": compute_exact(a, b), "f1": compute_f1(a, b)}
    for a, b in pairs
]
print(f'{{"versions": {json.dumps({"transformers": transformers.__version__})},\n"pairs": [')
print(",\n".join(json.dumps(row, ensure_ascii=False) for row in rows))
print("]}")
