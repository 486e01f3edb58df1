"""Makes Qwen3 models of real shapes with random weights: `model.py SHAPE FOLDER`.

The tokenizer has the sizes of Qwen3's, with runs of letters as tokens. Final hidden states are
scaled so that the logits have a standard deviation of 3, which gives each token a probability far
from that of others, as in a trained model.
"""

import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

SCALE = 0.02
LOGIT_SCALE = 3
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

#                      hidden, layers, heads, key-value heads, feed-forward, vocabulary, tied
SHAPES = {
    "tiny": (256, 2, 4, 2, 768, 4096, True),
    "0.6B": (1024, 28, 16, 8, 3072, 151936, True),
    "1.7B": (2048, 28, 16, 8, 6144, 151936, True),
    "4B": (2560, 36, 32, 8, 9728, 151936, True),
    "8B": (4096, 36, 32, 8, 12288, 151936, False),
}
HEAD = 128


def config_of(shape, dtype):
    hidden, layers, heads, pairs, inner, vocabulary, tied = SHAPES[shape]
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": pairs,
        "head_dim": HEAD,
        "intermediate_size": inner,
        "vocab_size": vocabulary,
        "tie_word_embeddings": tied,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000,
        "hidden_act": "silu",
        "attention_bias": False,
        "eos_token_id": vocabulary - 1,
        "torch_dtype": dtype,
    }


def arrays_of(config):
    """Yields the name, the shape and the constant of every array; random if the constant is None."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    queries, pairs = config["num_attention_heads"] * HEAD, config["num_key_value_heads"] * HEAD
    yield "model.embed_tokens.weight", (config["vocab_size"], hidden), None
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", (config["vocab_size"], hidden), None
    yield "model.norm.weight", (hidden,), LOGIT_SCALE / (SCALE * hidden**0.5)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        for name, rows, columns in [
            ("self_attn.q_proj", queries, hidden),
            ("self_attn.k_proj", pairs, hidden),
            ("self_attn.v_proj", pairs, hidden),
            ("self_attn.o_proj", hidden, queries),
            ("mlp.gate_proj", inner, hidden),
            ("mlp.up_proj", inner, hidden),
            ("mlp.down_proj", hidden, inner),
        ]:
            yield f"{at}{name}.weight", (rows, columns), None
        for name, size in [("self_attn.q_norm", HEAD), ("self_attn.k_norm", HEAD)]:
            yield f"{at}{name}.weight", (size,), 1
        for name in ["input_layernorm", "post_attention_layernorm"]:
            yield f"{at}{name}.weight", (hidden,), 1


def tokenizer_of(size):
    """Tokens are bytes, pairs of letters, pairs of those as far as they fit, and special tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = [(a, b) for a in LETTERS for b in LETTERS]
    room = size - len(alphabet) - len(pairs) - len(SPECIAL)
    words = [a + b for a, b in pairs]
    fours = [(words[i % len(words)], words[i // len(words)]) for i in range(room)]
    merges = pairs + fours
    vocabulary = {token: i for i, token in enumerate(alphabet + [a + b for a, b in merges])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    return tokenizer


def main(shape, folder, dtype="bfloat16"):
    config = config_of(shape, dtype)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    key = jax.random.key(0)
    arrays = {}
    for index, (name, size, constant) in enumerate(arrays_of(config)):
        if constant is None:
            drawn = SCALE * jax.random.normal(jax.random.fold_in(key, index), size, dtype=jnp.dtype(dtype))
        else:
            drawn = jnp.full(size, constant, dtype=jnp.dtype(dtype))
        arrays[name] = np.asarray(drawn)
    save_file(arrays, place / "model.safetensors", metadata={"format": "pt"})
    tokenizer = tokenizer_of(config["vocab_size"])
    tokenizer.save(str(place / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": config["max_position_embeddings"],
    }
    (place / "config.json").write_text(json.dumps(config, indent=2))
    (place / "tokenizer_config.json").write_text(json.dumps(settings, indent=2))
    (place / "chat_template.jinja").write_text(TEMPLATE)
    numbers = sum(array.size for array in arrays.values())
    print(json.dumps({"shape": shape, "parameters": numbers, "dtype": dtype}))


if __name__ == "__main__":
    main(*sys.argv[1:])
