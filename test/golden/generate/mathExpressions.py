"""Random expressions and what sympy makes of them by expanding, factoring and the like, in LaTeX; each also with something added.

    python mathExpressions.py > ../mathExpressions.json

Made with sympy 1.14.0, seed 1. The first of a row is equal to the second and not to the third.
"""
import json
import random

import sympy
from sympy import E, I, Integer, Rational, expand, factor, latex, nan, oo, pi, radsimp, sqrt, symbols, together, zoo

random.seed(1)
x, y = symbols("x y")
COUNT, LONGEST = 200, 300


def number():
    small = random.randint(-9, 9)
    choices = [Integer(small), Rational(small, random.randint(1, 9)), Integer(random.randint(1, 30)), pi, E, I]
    return random.choice([*choices, sqrt(random.randint(2, 20))])


def expression(depth, names):
    if depth == 0 or random.random() < 0.2:
        return random.choice([*names, number(), number()])
    a, b = expression(depth - 1, names), expression(depth - 1, names)
    kind = random.choice(["+", "+", "-", "*", "/", "power", "root"])
    if kind == "/" and b != 0:
        return a / b
    if kind == "power" and a != 0:
        return a ** random.choice([2, 3, -1, -2])
    if kind == "root" and not names and a.is_positive:
        return sqrt(a)
    return a + b if kind == "+" else a - b if kind == "-" else a * b


rows = []
while len(rows) < COUNT:
    names = random.choice([[], [x], [x, y]])
    e = expression(3, names)
    if e.has(zoo, nan, oo):
        continue
    same = random.choice([expand, factor, together] if names else [expand, factor, together, radsimp])(e)
    other = same + random.choice([1, -1, Rational(1, 7), sqrt(2)])
    row = [latex(each) for each in (e, same, other)]
    if not same.has(zoo, nan, oo) and max(map(len, row)) <= LONGEST:
        rows.append(row)
print(f'{{"versions": {json.dumps({"sympy": sympy.__version__})},\n"rows": [')
print(",\n".join(json.dumps(row) for row in rows))
print("]}")
