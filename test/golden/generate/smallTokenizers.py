"""Small tokenizers of every family that is tested, as the families' own files are built.

    python test/golden/generate/smallTokenizers.py

writes test/golden/tokenizers/*.json, with the versions that made them in versions.json. The corpus stands below, so that equal
versions give equal files.
"""
import base64
import json
import struct
import sys
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

OUT = Path(__file__).resolve().parent.parent / "tokenizers"

CORPUS = [
    "The quick brown fox jumps over the lazy dog. It's 3 o'clock, isn't it? We'll see; they've said so, I'm sure.",
    "Natalia sold clips to 48 of her friends in April, and then she sold half as many clips in May.",
    "<answer>72</answer> user assistant system tool Hello world! How are you today? What is 2 + 2?",
    "def add(a, b):\n    return a + b  # a comment\n\n\nfor i in range(10):\n\tprint(i, end=' ')",
    "Zürich, naïve café, señor, façade, Ångström, œuvre, straße, ﬁne Ｆｕｌｌ ½ ² Ⅷ",
    "Привет, мир! Как дела? Сегодня хорошая погода.",
    "你好，世界！今天天气怎么样？日本語のテキストです。カタカナ。한국어 문장입니다.",
    "مرحبا بالعالم كيف حالك اليوم",
    "नमस्ते दुनिया, आप कैसे हैं?",
    "😀 👍🏽 👨‍👩‍👧 🇩🇪 ❤️ ∑ √ ≠ → ∞ € £ ¥",
    "1 12 123 1234 12345 0.5 1,000,000 2024-05-06 10:30",
    "the then there these those that this with without within other another mother father",
    "learning reinforcement policy gradient reward model token tokenizer language large small",
]

GPT4 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def added(text, **options):
    return AddedToken(text, **{"special": True, "normalized": False, **options})


def byte_level(vocab_size, **trainer):
    return trainers.BpeTrainer(
        vocab_size=vocab_size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, **trainer
    )


def template(single, pair, tokens):
    return processors.TemplateProcessing(single=single, pair=pair, special_tokens=tokens)


def gpt2():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=True)
    t.train_from_iterator(CORPUS, byte_level(700))
    t.add_special_tokens([added("<|endoftext|>", normalized=True)])
    return t


def phi():
    t = gpt2()
    t.add_tokens([AddedToken(" " * n, normalized=False) for n in range(8, 1, -1)] + [AddedToken("\t\t", normalized=False)])
    return t


def split_level(pattern, **model):
    t = Tokenizer(models.BPE(**model))
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    t.decoder = decoders.ByteLevel()
    return t


def llama3():
    t = split_level(GPT4 % "{1,3}", ignore_merges=True)
    t.train_from_iterator(CORPUS, byte_level(700))
    t.add_special_tokens([added(x) for x in ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"]])
    bos = "<|begin_of_text|>"
    t.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True),
            template(f"{bos} $A", f"{bos} $A {bos}:1 $B:1", [(bos, t.token_to_id(bos))]),
        ]
    )
    data = json.loads(t.to_str())
    vocabulary = data["model"]["vocab"]  # words that no merge spells: only ignore_merges finds them
    base = len(vocabulary)
    shift = 2
    for token in data["added_tokens"]:
        token["id"] += shift
    for word in ["Ġreinforcement", "Wednesday"]:
        if word not in vocabulary:
            vocabulary[word] = base
            base += 1
    assert base == t.get_vocab_size(with_added_tokens=False) + shift, base
    for step in data["post_processor"]["processors"]:
        for token in step.get("special_tokens", {}).values():
            token["ids"] = [id + shift for id in token["ids"]]
    return Tokenizer.from_str(json.dumps(data))


def qwen():
    t = split_level(GPT4 % "")
    t.normalizer = normalizers.NFC()
    t.post_processor = processors.ByteLevel(trim_offsets=False, add_prefix_space=False)
    t.train_from_iterator(CORPUS, byte_level(700))
    t.add_special_tokens([added(x) for x in ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]])
    t.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False)])
    t.add_tokens([AddedToken("<tool_call>", normalized=True), AddedToken("café", single_word=True, normalized=True)])
    return t


def byte_fallback_vocabulary(special, mark_at_start):
    """Trains on text with marked blanks, puts 256 byte tokens before the learned ones, and drops two thirds of the alphabet."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always" if mark_at_start else "never")
    trained.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=600, show_progress=False, limit_alphabet=70))
    model = json.loads(trained.to_str())["model"]
    tokens = special + [f"<0x{b:02X}>" for b in range(256)]
    tokens += [t for t, _ in sorted(model["vocab"].items(), key=lambda item: item[1]) if t not in tokens]
    vocab = {token: id for id, token in enumerate(tokens)}
    return vocab, [tuple(m) for m in model["merges"]]


def sentencepiece_decoder(strip):
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(steps + ([decoders.Strip(" ", 1, 0)] if strip else []))


def llama2():
    vocab, merges = byte_fallback_vocabulary(["<unk>", "<s>", "</s>"], True)
    t = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = sentencepiece_decoder(True)
    t.add_special_tokens([added(x) for x in ["<unk>", "<s>", "</s>"]])
    t.post_processor = template("<s> $A", "<s> $A <s>:1 $B:1", [("<s>", 1)])
    return t


def phi3():
    t = llama2()
    t.add_special_tokens([added(x, rstrip=True) for x in ["<|user|>", "<|assistant|>", "<|end|>"]])
    t.add_special_tokens([added("<mask>", lstrip=True)])
    t.post_processor = template("$A", "$A $B:1", [])
    return t


def mistral():
    vocab, merges = byte_fallback_vocabulary(["<unk>", "<s>", "</s>", "[INST]", "[/INST]"], True)
    t = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    t.decoder = sentencepiece_decoder(True)
    t.add_special_tokens([added(x) for x in ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"]])
    t.post_processor = template("<s> $A", "<s> $A <s>:1 $B:1", [("<s>", 1)])
    return t


def gemma():
    vocab, merges = byte_fallback_vocabulary(["<pad>", "<eos>", "<bos>", "<unk>"], False)
    t = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Replace(" ", "▁")
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    t.decoder = sentencepiece_decoder(False)
    t.add_special_tokens([added(x) for x in ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]])
    t.add_tokens([AddedToken("\n" * n, normalized=False) for n in (1, 2, 3)] + [AddedToken("▁▁", normalized=False)])
    t.post_processor = template("<bos> $A", "<bos> $A <bos>:1 $B:1", [("<bos>", 2)])
    return t


def bert(cased=False):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=not cased)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece(cleanup=not cased)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=600, special_tokens=special, show_progress=False))
    t.add_special_tokens([added("[MASK]", lstrip=True)])
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2)) if cased else template(
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", 2), ("[SEP]", 3)]
    )
    return t


def charsmap(rules):
    """Rules as SentencePiece compiles them: a Darts double array over UTF-8, then the replacements, each ended by NUL."""
    replacements = b""
    keys = {}
    for key, value in sorted(rules.items(), key=lambda item: item[0].encode()):
        keys[key.encode()] = len(replacements)
        replacements += value.encode() + b"\0"
    units = [0] * 256
    used = {0}
    labels_used = [False] * (1 << 16)

    def children(prefix):
        return sorted({k[len(prefix)] for k in keys if len(k) > len(prefix) and k.startswith(prefix)})

    def place(node, prefix):
        nonlocal units
        labels = children(prefix)
        slots = ([0] if prefix in keys else []) + labels
        base = 256
        while any((base ^ label) in used for label in slots) or labels_used[base]:
            base += 1
        labels_used[base] = True
        while len(units) <= (base | 0xFF):
            units.append(0)
        used.update(base ^ label for label in slots)
        offset = node ^ base
        assert offset < (1 << 21)
        leaf = prefix in keys
        units[node] = (units[node] & 0xFF) | (offset << 10) | (int(leaf) << 8)
        if leaf:
            units[base] = keys[prefix] | (1 << 31)
        for label in labels:
            units[base ^ label] = label
            place(base ^ label, prefix + bytes([label]))

    place(0, b"")
    trie = struct.pack(f"<{len(units)}I", *units)
    return struct.pack("<I", len(trie)) + trie + replacements


RULES = {
    **{chr(0xFF21 + i): chr(0x41 + i) for i in range(26)},
    **{chr(0xFF41 + i): chr(0x61 + i) for i in range(26)},
    "ﬁ": "fi", "½": "1⁄2", "²": "2", "Ⅷ": "VIII", "\u00a0": " ", "\u3000": " ", "\t": " ", "\n": " ", "\r": " ",
    "\u200b": " ", "\ufeff": "", "\u0001": "", "\u0007": "", "e\u0301": "é", "u\u0308": "ü", "\u0308": "", "ｶﾞ": "ガ", "ﷺ": "صلى الله",
}


def unigram(special, **options):
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap(RULES)), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    t.train_from_iterator(
        CORPUS, trainers.UnigramTrainer(vocab_size=500, special_tokens=special, unk_token="<unk>", show_progress=False)
    )
    return t


def t5():
    t = unigram(["<pad>", "</s>", "<unk>"])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    t.add_special_tokens([added("<extra_id_0>", lstrip=True, rstrip=True), added("<extra_id_1>")])
    t.post_processor = template("$A </s>", "$A </s> $B </s>", [("</s>", 1)])
    return t


def xlmr():
    t = unigram(["<s>", "<pad>", "</s>", "<unk>"])
    t.add_special_tokens([added("<mask>", lstrip=True)])
    t.post_processor = template("<s> $A </s>", "<s> $A </s> </s> $B </s>", [("<s>", 0), ("</s>", 2)])
    return t


def roberta():
    t = gpt2()
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    t.add_special_tokens([added("<s>"), added("</s>"), added("<mask>", lstrip=True)])
    t.post_processor = processors.RobertaProcessing(
        ("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>")), trim_offsets=True, add_prefix_space=True
    )
    return t


def falcon():
    """Falcon cuts digits after the bytes, in groups of three from the left."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Punctuation("contiguous"),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
            pre_tokenizers.Digits(individual_digits=False),
            pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated"),
        ]
    )
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=True)
    t.train_from_iterator(CORPUS, byte_level(700))
    t.add_special_tokens([added(x) for x in [">>TITLE<<", ">>ABSTRACT<<", "<|endoftext|>"]])
    return t


def clip():
    t = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    t.decoder = decoders.BPEDecoder(suffix="</w>")
    t.train_from_iterator(
        CORPUS, byte_level(600, end_of_word_suffix="</w>", special_tokens=["<|startoftext|>", "<|endoftext|>"])
    )
    return t


def mixed():
    """Parts that no family above has: splits of every behavior, digits, punctuation, strips, compatibility forms."""
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Nmt(), normalizers.Strip()])
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split("-", "merged_with_next"),
            pre_tokenizers.Split("o", "contiguous"),
            pre_tokenizers.Split(Regex("[,;]"), "merged_with_previous"),
            pre_tokenizers.Punctuation("isolated"),
            pre_tokenizers.Digits(individual_digits=False),
            pre_tokenizers.Whitespace(),
            pre_tokenizers.FixedLength(length=5),
        ]
    )
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(
        CORPUS, trainers.WordPieceTrainer(vocab_size=400, special_tokens=["[UNK]", "[A]"], show_progress=False)
    )
    t.add_tokens([AddedToken("Word", single_word=True), AddedToken("  ", normalized=False)])
    return t


FAMILIES = {
    "gpt2": gpt2, "phi": phi, "llama3": llama3, "qwen": qwen, "llama2": llama2, "phi3": phi3, "mistral": mistral, "gemma": gemma,
    "bert": bert, "bertCased": lambda: bert(cased=True), "t5": t5, "xlmr": xlmr, "roberta": roberta, "clip": clip, "mixed": mixed, "falcon": falcon,
}

if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    for name in sys.argv[1:] or FAMILIES:
        text = json.dumps(json.loads(FAMILIES[name]().to_str()), ensure_ascii=False, separators=(",", ":"))
        (OUT / f"{name}.json").write_text(text + "\n")
        print(name, len(text.encode()))
    (OUT / "versions.json").write_text(json.dumps({"tokenizers": tokenizers.__version__}) + "\n")
