"""What llama.cpp and Transformers compute with a model in GGUF, for gguf.ts.

    gguf.py FILE FOLDER OUT     FILE in GGUF, and the FOLDER that it was saved to; reads OUT/ask.json, writes OUT/peer.json
"""
import json
import pathlib
import sys
import warnings

import llama_cpp
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

warnings.filterwarnings("ignore")
file, folder, out = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
ask = json.loads((out / "ask.json").read_text())

llama = llama_cpp.Llama(file, n_ctx=2048, n_threads=1, n_threads_batch=1, verbose=False, logits_all=False)
result = {"llama": [llama.tokenize(text.encode(), add_bos=False, special=False) for text in ask["lines"]]}
tokenizer = Tokenizer.from_file(folder + "/tokenizer.json")
result["rust"] = [tokenizer.encode(text, add_special_tokens=False).ids for text in ask["lines"]]


def continued(prompt, tokens):
    llama.reset()
    ids = []
    for token in llama.generate(prompt, temp=0.0, top_k=1, repeat_penalty=1.0):
        ids.append(token)
        if len(ids) == tokens:
            return ids


result["llamaGreedy"] = [continued(prompt, ask["tokens"]) for prompt in ask["prompts"]]
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
with torch.no_grad():
    result["logits"] = [model(input_ids=torch.tensor([row])).logits[0, -ask["last"]:].tolist() for row in ask["rows"]]
    result["greedy"] = [
        model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long), do_sample=False,
                       max_new_tokens=ask["tokens"], min_new_tokens=ask["tokens"], eos_token_id=None)[0, len(prompt):].tolist()
        for prompt in ask["prompts"]
    ]
(out / "peer.json").write_text(json.dumps(result))
