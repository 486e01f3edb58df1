"""What tokenizer_config.json changes: ids and decoded texts by Transformers, from folders with the tokenizers of test/golden/tokenizers.

    python tokenizerConfigs.py > test/golden/tokenizers/configs.json

Made with transformers 5.17.0. For each tokenizer, config and text: the ids with and without special tokens, and the decoded texts.
"""
import json
import pathlib
import shutil
import sys
import tempfile

import transformers

HERE = pathlib.Path(__file__).parent.parent / "tokenizers"
FAMILIES = {"llama2": ("<s>", "</s>"), "gpt2": ("<|endoftext|>", "<|endoftext|>"), "bert": ("[CLS]", "[SEP]"), "t5": ("</s>", "</s>"), "xlmr": ("<s>", "</s>")}
CONFIGS = [
    {},
    {"add_bos_token": True},
    {"add_eos_token": True},
    {"add_bos_token": True, "add_eos_token": True},
    {"add_bos_token": False, "add_eos_token": False},
    {"add_prefix_space": True},
    {"add_prefix_space": False},
    {"clean_up_tokenization_spaces": True},
    {"clean_up_tokenization_spaces": False},
    {"clean_up_tokenization_spaces": True, "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output": True},
]
TEXTS = ["Hello world", " a . b , c ! d ?", "I do n't , we 've ' x ' it 's", "", "{bos} a {eos}"]


def answer(tokenizer, text):
    plain = tokenizer.encode(text, add_special_tokens=False)
    framed = tokenizer.encode(text, add_special_tokens=True)
    return {
        "text": text,
        "plain": plain,
        "framed": framed,
        "kept": tokenizer.decode(plain, skip_special_tokens=False),
        "skipped": tokenizer.decode(framed, skip_special_tokens=True),
    }


cases = []
for family, (bos, eos) in FAMILIES.items():
    for config in CONFIGS:
        whole = {"bos_token": bos, "eos_token": eos, **config}
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(HERE / f"{family}.json", pathlib.Path(folder) / "tokenizer.json")
            written = {"tokenizer_class": "PreTrainedTokenizerFast", **whole}
            (pathlib.Path(folder) / "tokenizer_config.json").write_text(json.dumps(written))
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
            texts = [text.replace("{bos}", bos).replace("{eos}", eos) for text in TEXTS]
            cases.append({"family": family, "config": whole, "answers": [answer(tokenizer, text) for text in texts]})
lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
sys.stdout.write(f'{{"transformers": "{transformers.__version__}", "cases": [\n{lines}\n]}}\n')
