"""Verdicts of two public checkers on pairs of answers (mathAnswers.txt): are they the same?

    python mathAnswers.py > ../mathAnswers.json

Made with math-verify 0.9.0 (latex2sympy2_extended 1.11.0, sympy 1.14.0), and with the `is_equiv` of MATH (Hendrycks et al. 2021) as lm-eval
0.4.13 has it in its task hendrycks_math; of lm-eval only that file is loaded. math-verify is asked in both orders, since it takes the first
answer for the reference: a pair counts as equal if one order does.
"""
import importlib.util
import json
import os
import sys
import types
from importlib.metadata import distribution, version

from math_verify import parse, verify

HERE = os.path.dirname(os.path.abspath(__file__))
sys.modules.setdefault("datasets", types.SimpleNamespace(Dataset=object))
PLACE = distribution("lm_eval").locate_file("lm_eval/tasks/hendrycks_math/utils.py")
spec = importlib.util.spec_from_file_location("hendrycks", PLACE)
hendrycks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(hendrycks)


def checked(a, b):
    x, y = (parse(f"\\boxed{{{text}}}", parsing_timeout=None) for text in (a, b))
    return any(verify(*order, timeout_seconds=None) for order in ((x, y), (y, x)))


def row(line):
    a, b = line.split("  |  ")
    return {"a": a, "b": b, "mathVerify": bool(checked(a, b)), "isEquiv": bool(hendrycks.is_equiv(a, b))}


with open(os.path.join(HERE, "mathAnswers.txt"), encoding="utf-8") as file:
    lines = [line.rstrip("\n") for line in file]
rows = [row(line) for line in lines if line and not line.startswith("# ")]
versions = {name: version(name) for name in ["math-verify", "latex2sympy2_extended", "sympy", "lm_eval"]}
print(f'{{"versions": {json.dumps(versions)},\n"pairs": [')
print(",\n".join(json.dumps(each, ensure_ascii=False) for each in rows))
print("]}")
