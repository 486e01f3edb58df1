"""Models and tokenizers in GGUF, as llama.cpp's converter writes them, and what llama.cpp computes.

    LLAMA_CPP=/path/to/llama.cpp python -P ggufFiles.py

`-P` keeps the files of this folder from being taken for packages. Needs torch, transformers, sentencepiece, gguf and
llama-cpp-python; its source distribution has llama.cpp in vendor/. Writes packages/gguf/test/golden:

  models/NAME.gguf   the checkpoints of test/golden/models in float32, without a tokenizer
  vocab/NAME.gguf    tokenizers alone: those of test/golden/tokenizers, and two that are trained here
  vocab.json         texts, and their ids in llama.cpp without and with the tokens around texts
  whole/             a model with a tokenizer and a template: in Q8_0, and in float32 split into files
  blocks.json        blocks of each type with the numbers that the package gguf restores
"""
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

GENERATE = pathlib.Path(__file__).resolve().parent
GOLDEN = GENERATE.parent
OUT = GOLDEN.parent.parent / "packages/gguf/test/golden"
LLAMA_CPP = os.environ["LLAMA_CPP"]
CONVERT = """
import runpy, sys
sys.path[:0] = [{cpp!r}, {cpp!r} + '/gguf-py']
import conversion
from conversion import base
base.TextModel.get_vocab_base_pre = lambda self, tokenizer: {pre!r}
if {pre!r} is None:
    original = conversion.get_model_class
    conversion.get_model_class = lambda *args, **options: type(
        'Bare', (original(*args, **options),), dict(set_vocab=lambda self: None,
                                                    model_arch=original(*args, **options).model_arch))
sys.argv = ['convert_hf_to_gguf.py', *{args!r}]
runpy.run_path({cpp!r} + '/convert_hf_to_gguf.py', run_name='__main__')
"""

sys.path.append(str(GENERATE))
from smallTokenizers import CORPUS, GPT4, byte_level, split_level  # noqa: E402

MODELS = ["llama", "llama_biases", "llama_linear", "llama_llama3", "qwen2", "qwen3", "gemma2", "gemma3", "smollm3", "olmo2",
          "gpt2"]
TEXTS = CORPUS + ["", " ", "  two  blanks ", "\n\n\n", "tab\there", "1234567 and 12", "I'LL SAY 'Twas", "x=1;y=22;\r\n\r\n z",
                  "<|endoftext|> in a text", "▁ is a mark", "é = e + \u0301", "½ + ¼", "𝔘𝔫𝔦 😀😀"]


def convert(folder, pre, *args):
    code = CONVERT.format(cpp=LLAMA_CPP, pre=pre, args=[str(folder), *args])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""})
    if done.returncode != 0:
        sys.exit(done.stderr)


def models():
    (OUT / "models").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        for name in MODELS:
            folder = pathlib.Path(temporary) / name
            shutil.copytree(GOLDEN / "models" / name, folder)
            settings = json.loads((folder / "config.json").read_text())
            settings["n_ctx"] = settings.get("n_positions")  # GPT-2's older name of it
            if name == "llama_llama3":  # the scaling that all models have
                settings["rope_parameters"] = dict(
                    rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                    original_max_position_embeddings=8192)
            (folder / "config.json").write_text(json.dumps(settings))
            vocab = {str(i): i for i in range(settings["vocab_size"])}  # Gemma 3's embedding is cut to it
            (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocab}, "added_tokens": []}))
            convert(folder, None, "--outtype", "f32", "--outfile", str(OUT / "models" / f"{name}.gguf"))


def smollm():
    from tokenizers import pre_tokenizers
    t = split_level(GPT4 % "")
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.train_from_iterator(CORPUS, byte_level(700, special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"]))
    return t


def scored(folder, prefix):
    import sentencepiece
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS), model_prefix=str(folder / "tokenizer"), model_type="bpe", vocab_size=900,
        byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=prefix,
        pad_id=0, eos_id=1, bos_id=2, unk_id=3, control_symbols=["<start_of_turn>", "<end_of_turn>"], minloglevel=2,
        split_digits=True, allow_whitespace_only_pieces=True)


def config(folder, architecture, kind, vocabulary, start=2, end=1):
    (folder / "config.json").write_text(json.dumps({
        "architectures": [architecture], "model_type": kind, "vocab_size": vocabulary, "hidden_size": 32,
        "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16,
        "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "bos_token_id": start, "eos_token_id": end,
        "sliding_window": 16, "final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0,
    }))


def vocabularies():
    import llama_cpp
    (OUT / "vocab").mkdir(parents=True, exist_ok=True)
    expected = {"texts": TEXTS}
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        for name, pre in [("gpt2", "gpt-2"), ("qwen", "qwen2"), ("llama3", "llama-bpe"), ("smollm", "smollm"),
                          ("gemma", "default"), ("llama2", "default")]:
            folder = root / name
            folder.mkdir()
            if name in ("gemma", "llama2"):
                scored(folder, prefix=name == "llama2")
                config(folder, *(("Gemma2ForCausalLM", "gemma2") if name == "gemma" else ("LlamaForCausalLM", "llama")), 900)
            else:
                if name == "smollm":
                    smollm().save(str(folder / "tokenizer.json"))
                else:
                    shutil.copy(GOLDEN / "tokenizers" / f"{name}.json", folder / "tokenizer.json")
                made = json.loads((folder / "tokenizer.json").read_text())
                special = [x["id"] for x in made["added_tokens"] if x["special"]]
                (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
                rows = max(*(x["id"] for x in made["added_tokens"]), len(made["model"]["vocab"]) - 1) + 4  # three rows without a token
                config(folder, "LlamaForCausalLM", "llama", rows, start=special[0], end=special[-1])
            out = OUT / "vocab" / f"{name}.gguf"
            convert(folder, pre, "--vocab-only", "--outfile", str(out))
            model = llama_cpp.Llama(str(out), vocab_only=True, verbose=False)
            expected[name] = {
                "plain": [model.tokenize(text.encode(), add_bos=False, special=False) for text in TEXTS],
                "framed": [model.tokenize(text.encode(), add_bos=True, special=True) for text in TEXTS],
            }
    (OUT / "vocab.json").write_text(json.dumps(expected, ensure_ascii=False, separators=(",", ":")))


def whole():
    import llama_cpp
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    (OUT / "whole").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary) / "model"
        tokenizer = smollm()
        torch.manual_seed(3)
        settings = AutoConfig.for_model(
            "llama", vocab_size=tokenizer.get_vocab_size() + 4, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2,
            pad_token_id=2, max_position_embeddings=256)
        AutoModelForCausalLM.from_config(settings).save_pretrained(folder)
        tokenizer.save(str(folder / "tokenizer.json"))
        (folder / "tokenizer_config.json").write_text(json.dumps({
            "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "bos_token": "<|im_start|>",
            "pad_token": "<|im_end|>", "chat_template":
                "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
                "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"}))
        whole = pathlib.Path(temporary) / "whole.gguf"
        convert(folder, "smollm", "--outtype", "f32", "--outfile", str(whole))
        convert(folder, "smollm", "--outtype", "f32", "--split-max-tensors", "9", "--outfile", str(OUT / "whole/split.gguf"))
        options = llama_cpp.llama_model_quantize_default_params()
        options.ftype = 7  # mostly Q8_0
        assert llama_cpp.llama_model_quantize(str(whole).encode(), str(OUT / "whole/q8_0.gguf").encode(), options) == 0


def blocks():
    import gguf
    import numpy
    draw = numpy.random.default_rng(7)
    result = {}
    for name in ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]:
        kind = gguf.GGMLQuantizationType[name]
        numbers, size = gguf.GGML_QUANT_SIZES[kind]
        count = 256 if numbers == 1 else 8 if numbers == 32 else 4
        data = draw.integers(0, 256, (count, size), dtype=numpy.uint8)
        if numbers > 1:  # scales are halves of any finite value: clear the exponent's highest bit
            places = {"Q6_K": [209], "Q4_1": [1, 3], "Q5_1": [1, 3], "Q4_K": [1, 3], "Q5_K": [1, 3]}.get(name, [1])
            for place in places:
                data[:, place] &= 0xBF
        else:
            data[:, size - 1] &= 0xBF
        restored = gguf.quants.dequantize(data.reshape(-1) if numbers == 1 else data.reshape(count * size), kind) \
            if name not in ("F32", "F16") else data.reshape(-1).view(numpy.float32 if name == "F32" else numpy.float16)
        result[name] = {
            "bytes": base64.b64encode(data.tobytes()).decode(),
            "numbers": base64.b64encode(restored.astype(numpy.float32).tobytes()).decode(),
        }
    (OUT / "blocks.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    models()
    vocabularies()
    whole()
    blocks()
