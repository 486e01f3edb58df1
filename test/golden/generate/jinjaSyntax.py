"""Small templates and what Python's Jinja makes of them, in the environment in which Transformers renders chat templates.

    python jinjaSyntax.py > test/golden/chatTemplates/syntax.json

Made with jinja2 3.1.6. Written by hand where the grammar has corners; drawn at random where operators meet. For each: the text, or null
where Python refuses.
"""
import json
import random
import sys

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

BY_HAND = r"""
{{ 1 < 2 < 3 }}
{{ 3 > 2 > 1 }}
{{ 1 < 3 < 2 }}
{{ 1 == 1 == 1 }}
{{ 2 == 2 != 3 }}
{{ 'a' in 'ab' in ['ab'] }}
{{ 1 < 2 in [2] }}
{{ 1 not in [2] != 3 }}
{{ 3 < 2 < missing.x }}
{{ not 1 < 2 < 3 }}
{{ 1 + 2 ~ 3 }}
{{ 'a' ~ 1 + 2 }}
{{ 1 ~ 2 + 3 ~ 4 }}
{{ 'a' + 1 ~ 2 }}
{{ 'a' + ('b' ~ 1) ~ 2 }}
{{ 5 - 1 ~ 2 }}
{{ 2 * 3 ~ 4 * 5 }}
{{ 2 ** 3 ** 2 }}
{{ -2 ** 2 }}
{{ - 2 ** 2 }}
{{ -x ** 2 }}
{{ -x | abs }}
{{ -1 | abs }}
{{ -x.y }}
{{ +x }}
{{ 7 // 2 * 2 % 4 }}
{{ -7 // 2 }}
{{ -7 % 3 }}
{{ not x == 3 }}
{{ not not x }}
{{ x is defined and y is defined }}
{{ x is defined == true }}
{{ x is not none is defined }}
{{ 1 + x is defined }}
{{ not x is defined }}
{{ x is divisibleby 3 }}
{{ x is divisibleby(3) and true }}
{{ x is not divisibleby 2 }}
{{ x is eq 3 or false }}
{{ x is in [1, 3] }}
{{ x is in {3: 4} }}
{{ x is sameas x }}
{{ x is divisibleby 3 is true }}
{{ x is defined | string }}
{{ x is eq(3) | string | upper }}
{{ 'b' is in s.t }}
{{ x is eq }}
{{ x is defined(1) }}
{{ x is ge 3 }}
{{ x is odd }}
{{ 1 if x else 2 }}
{{ 1 if none }}
{{ 1 if x if none else 2 }}
{{ 1 if x else 2 if y else 3 }}
{{ (1 if none else 2) + 1 }}
{{ 1 if none else 2 + 1 }}
{{ (1,) }}
{{ () }}
{{ (1, 2,) }}
{{ 1, 2 }}
{{ 1, }}
{{ [1, 2,] }}
{{ [1 2] }}
{{ [,] }}
{{ {'a': 1,} }}
{{ {'a': 1 'b': 2} }}
{{ {} }}
{{ {'a': {'b': 1}}['a']['b'] }}
{{ [1, 2, 3][1:] }}
{{ [1, 2, 3][::2] }}
{{ [1, 2, 3][1::] }}
{{ [1, 2, 3][:-1:1] }}
{{ [1, 2, 3][::-1] }}
{{ [1, 2, 3][1 2] }}
{{ s.t[1] }}
{{ [[1, 2], 3].0.1 }}
{{ 'a' 'b' }}
{{ 'a' 'b' | upper }}
{{ 'abc'.upper().lower()[0] }}
{{ 'a b'.split()[1] }}
{{ range(3) | list }}
{{ range(*[1, 3]) | list }}
{{ dict(**{'a': 1}) }}
{{ dict(a=1, b=2) }}
{{ dict(a=1, 2) }}
{{ range(1 2) }}
{{ range(1, 3,) | list }}
{{ [3, 1] | sort | first }}
{{ ([3, 1] | sort)[0] }}
{{ [3, 1] | sort [0] }}
{{ 'x' | default }}
{{ missing | default('d') | upper }}
{{ 1.5 + 1 }}
{{ true and none }}
{{ false or 'x' }}
{{ 1 and 2 or 3 }}
{{ 0 or 0 and 1 }}
{{ true == 1 }}
{{ x.y.z }}
{{ }}
{{ 1 + }}
{{ (1 }}
{{ 1) }}
{{ a b }}
{{ 'a' if }}
{% if 1 < 2 < 3 %}y{% endif %}
{% if x, y %}t{% endif %}
{% if x %}a{% elif y %}b{% else %}c{% endif %}
{% if none %}a{% elif none %}b{% else %}c{% endif %}
{% if x if y else z %}a{% endif %}
{% for a in [1, 2, 3] if a > 1 %}{{ a }}{{ loop.index }}{% endfor %}
{% for a in [1, 2, 3] if 1 < a < 3 %}{{ a }}{% endfor %}
{% for a in [] %}x{% else %}none{% endfor %}
{% for a in [1] if a > 1 %}x{% else %}none{% endfor %}
{% for a in [1, 2] if a if x else y %}{{ a }}{% endfor %}
{% for a in 1, 2 %}{{ a }}{% endfor %}
{% for a, b in [(1, 2)] %}{{ a }}{{ b }}{% endfor %}
{% for (a, b) in [(1, 2)] %}{{ a }}{{ b }}{% endfor %}
{% for a, in [(1,)] %}{{ a }}{% endfor %}
{% for a in [1, 2] or [3] %}{{ a }}{% endfor %}
{% for a in [1, 2] %}{% for b in [3, 4] %}{% if b == 4 %}{% break %}{% endif %}{{ a }}{{ b }}{% endfor %}{% endfor %}
{% for a in [1, 2, 3] %}{% if a == 2 %}{% continue %}{% endif %}{{ a }}{% endfor %}
{% break %}
{% for a in [1] %}{% macro f() %}{% break %}{% endmacro %}{{ f() }}{% endfor %}
{% set a, b = 1, 2 %}{{ a }}{{ b }}
{% set a = 1, 2 %}{{ a }}
{% set a = 1, %}{{ a }}
{% set (a, b) = [1, 2] %}{{ a }}{{ b }}
{% set a | upper %}x{% endset %}{{ a }}
{% set a | upper | lower %}xY{% endset %}{{ a }}
{% set a = 1 if none else 2 %}{{ a }}
{% set ns = namespace(a=1) %}{% set ns.a = ns.a + 1 %}{{ ns.a }}
{% set ns = namespace(a=1) %}{% set ns['a'] = 2 %}{{ ns.a }}
{% set ns = namespace(a='') %}{% set ns.a %}b{% endset %}{{ ns.a }}
{% set none = 1 %}
{% set x.y = 1 %}
{% macro f(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}{{ f(1, b=3) }}
{% macro f(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}
{% macro f(a=1, b) %}{{ a }}{{ b }}{% endmacro %}{{ f(1, 2) }}
{% macro f() %}{{ caller() }}{% endmacro %}{% call f() %}x{% endcall %}
{% macro f() %}{{ caller(1, 2) }}{% endmacro %}{% call(a, b) f() %}{{ a }}{{ b }}{% endcall %}
{% filter upper %}x{{ 'y' }}{% endfilter %}
{% filter upper | trim %} x {% endfilter %}
{% filter replace('a', 'b') %}aa{% endfilter %}
{% if true %}  a{% endif %}
{%- if true -%}  a  {%- endif -%}
{% strange %}
{% if x %}
{% endfor %}
{# a comment {{ 1 }} #}b
""".strip("\n").split("\n")

#: Sources of more than a line.
LINES = ["a\n  {% if true %}\n  b\n  {% endif %}\nc\n", "  {{ 1 }}\n  {# c #}\nd", "{% for a in [1, 2] %}\n{{ a }}\n{% endfor %}\n\n"]

NUMBERS = ["1", "2", "3", "x", "(1 + 1)", "7"]
TEXTS = ["'a'", "'b'", "s.t", "'ab'[0]"]
LOGIC = ["true", "false", "x is defined", "missing is defined", "x is divisibleby 3"]


def drawn(rng, depth):
    """An expression of operators of all strengths, most without brackets."""
    if depth == 0:
        return rng.choice(rng.choice([NUMBERS, NUMBERS, TEXTS, LOGIC]))
    operator = rng.choice(["+", "-", "*", "//", "%", "~", "~", "<", "<=", "==", "!=", ">", "in", "not in", "and", "or", "not", "-u", "**", "if", "|", "()"])
    left = drawn(rng, rng.randrange(depth))
    if operator == "not":
        return f"not {left}"
    if operator == "-u":
        return f"-{left}"
    if operator == "()":
        return f"({left})"
    if operator == "|":
        return f"{left} | string | length"
    right = drawn(rng, rng.randrange(depth))
    if operator == "if":
        return f"{left} if {right} else {drawn(rng, rng.randrange(depth))}"
    return f"{left} {operator} {right}"


environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
VALUES = {"x": 3, "y": True, "s": {"t": "abc"}}


def answer(source):
    try:
        return environment.from_string(source).render(**VALUES)
    except Exception:
        return None


rng = random.Random(1)
sources = {f"{{{{ {drawn(rng, 5)} }}}}" for _ in range(4000)}
random_cases = sorted(sources)
rng.shuffle(random_cases)
right = [s for s in random_cases if answer(s) is not None and len(s) < 90][:400]
wrong = [s for s in random_cases if answer(s) is None and len(s) < 90][:100]
cases = [[source, answer(source)] for source in [*BY_HAND, *LINES, *right, *wrong]]
lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
sys.stdout.write(f'{{"jinja2": "{jinja2.__version__}", "values": {json.dumps(VALUES)}, "cases": [\n{lines}\n]}}\n')
