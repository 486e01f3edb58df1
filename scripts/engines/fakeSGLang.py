"""A server that speaks as SGLang does, over a real model: PyTorch and Transformers on the CPU.

    python fakeSGLang.py MODEL_FOLDER [new|old]

Prints `ready PORT`. `new` speaks as 0.5.23, `old` as 0.5.10. Requests are computed one after the other. Weights are really replaced, from a
folder or from tensors in the body, which come through a restricted unpickler; adapters are really applied. What SGLang has besides (speed,
streams, parallelism) is not here.
"""
import base64
import hashlib
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

import sglangUnpickler

FOLDER, RELEASE = sys.argv[1], (sys.argv[2:] + ["new"])[0]
PREFIX = "base_model.model."

torch.set_num_threads(1)
model = AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32).eval()
weights = {name: tensor for name, tensor in model.state_dict(keep_vars=True).items()}
context = model.config.max_position_embeddings
ends = {model.config.eos_token_id} if isinstance(model.config.eos_token_id, int) else set(model.config.eos_token_id or [])

lock = threading.Lock()
running = threading.Event()
running.set()
state = {"label": "default", "session": False, "busy": 0}
adapters = {}


class Refusal(Exception):
    pass


def changed_by(adapter):
    """The weights of the modules of an adapter, with it applied: W + alpha / r * B A."""
    config, tensors = adapter
    scale = config["lora_alpha"] / config["r"]
    result = {}
    for name, a in tensors.items():
        if not name.endswith(".lora_A.weight"):
            continue
        module = name[len(PREFIX):].removesuffix(".lora_A.weight")
        b = tensors[f"{PREFIX}{module}.lora_B.weight"]
        result[f"{module}.weight"] = weights[f"{module}.weight"] + scale * b.float() @ a.float()
    return result


def drawn(logits, params, step):
    if params["temperature"] == 0:
        return int(logits.argmax())
    probs = torch.softmax(logits / params["temperature"], -1)
    order = probs.argsort(descending=True)
    kept = probs[order]
    if params["top_k"] > 0:
        kept[params["top_k"]:] = 0
    kept[(kept.cumsum(0) - kept) > params["top_p"]] = 0
    kept[kept < kept[0] * params["min_p"]] = 0
    generator = torch.Generator().manual_seed((params.get("sampling_seed", 0) + step * 7919) % 2**63)
    return int(order[torch.multinomial(kept, 1, generator=generator)])


def places(logprobs, count):
    top = logprobs.topk(min(count, len(logprobs)))
    return [[value, index, None] for value, index in zip(top.values.tolist(), top.indices.tolist())]


def forward(ids, changes, cache):
    arguments = {"input_ids": torch.tensor([ids]), "past_key_values": cache, "use_cache": True}
    out = torch.func.functional_call(model, changes, (), arguments, tie_weights=True)
    return out.logits[0], out.past_key_values


@torch.no_grad()
def complete(prompt, params, body, changes):
    if len(prompt) + params["max_new_tokens"] >= context:
        raise Refusal(f"Requested token count exceeds the model's maximum context length of {context} tokens.")
    tops = body.get("top_logprobs_num") or 0
    scored = body.get("logprob_start_len") == 0
    temperature = params["temperature"] or 1
    logits, cache = forward(prompt, changes, None)
    raw = torch.log_softmax(logits, -1)
    ids, own, alternatives, finish = [], [], [], {"type": "length", "length": params["max_new_tokens"]}
    last = logits[-1]
    for step in range(params["max_new_tokens"]):
        logprobs = torch.log_softmax(last / temperature, -1)
        token = drawn(last, params, step)
        ids.append(token)
        own.append([float(logprobs[token]), token, None])
        alternatives.append(places(logprobs, tops))
        if (token in ends and not params.get("ignore_eos")) or token in params.get("stop_token_ids", []):
            finish = {"type": "stop", "matched": token}
            break
        if step + 1 < params["max_new_tokens"]:
            last, cache = forward([token], changes, cache)
            last = last[-1]
    meta = {
        "finish_reason": finish, "prompt_tokens": len(prompt), "completion_tokens": len(ids), "cached_tokens": 0,
        "weight_version": state["label"],
        "input_token_logprobs": [[float(raw[t - 1][i]) if t else None, i, None] for t, i in enumerate(prompt)] if scored else [],
        "input_top_logprobs": [places(raw[t - 1], tops) if t else None for t in range(len(prompt))] if scored and tops else [],
        "output_token_logprobs": own, "output_top_logprobs": alternatives if tops else [],
    }
    if RELEASE == "new":
        meta["weight_versions"] = [{"version": state["label"], "start": 0, "end": len(ids)}]
    return {"text": "", "output_ids": ids, "meta_info": meta}


def generate(body):
    running.wait()
    adapter = body.get("lora_path")
    if adapter is not None and adapter not in adapters:
        raise Refusal(f"The following requested LoRA adapters are not loaded: {{'{adapter}'}}")
    state["busy"] += 1
    try:
        with lock:
            changes = {} if adapter is None else changed_by(adapters[adapter])
            if isinstance(body["input_ids"][0], list):
                return [complete(*one, body, changes) for one in zip(body["input_ids"], body["sampling_params"])]
            return complete(body["input_ids"], body["sampling_params"], body, changes)
    finally:
        state["busy"] -= 1


@torch.no_grad()
def replace(tensors, label):
    wrong = [name for name, tensor in tensors if name not in weights or weights[name].shape != tensor.shape]
    if wrong:
        raise Refusal(f"Failed to update weights: {wrong[:5]}.\nRolling back to original weights.")
    with lock:
        for name, tensor in tensors:
            weights[name].copy_(tensor)
        state["label"] = label or state["label"]


def from_tensors(body):
    if RELEASE == "new" and not state["session"]:
        raise Refusal("update_weights_from_tensor must run between begin_weight_update() and end_weight_update()")
    replace(sglangUnpickler.load(base64.b64decode(body["serialized_named_tensors"][0], validate=True)), body.get("weight_version"))
    if body["flush_cache"] and state["busy"] and running.is_set():
        raise Refusal("Weights were updated, but the cache was not flushed because requests are still running or queued.")
    return {"success": True, "message": "Success"}


def from_disk(body):
    try:
        tensors = load_file(Path(body["model_path"]) / "model.safetensors")
    except Exception as error:
        raise Refusal(f"Failed to get weights iterator: {error}.")
    replace(list(tensors.items()), body.get("weight_version"))
    return {"success": True, "message": "Succeeded to update model weights.", "num_paused_requests": 0}


def load_adapter(body):
    field = "serialized_named_tensors" if RELEASE == "new" else "serialized_tensors"
    if field not in body:
        raise Refusal(f"[{{'type': 'missing', 'loc': ('body', '{field}'), 'msg': 'Field required'}}]")
    if body["lora_name"] in adapters:
        raise Refusal(f"LoRA adapter {body['lora_name']} already exists")
    data = body[field][0] if RELEASE == "new" else body[field]
    tensors = sglangUnpickler.load(base64.b64decode(data, validate=True))
    if RELEASE == "new":
        sums = {n: hashlib.sha256(t.contiguous().flatten().view(torch.uint8).numpy().tobytes()).hexdigest() for n, t in tensors.items()}
        if sums != body["expected_checksums"]:
            raise RuntimeError("[LORA-CHECK] adapter sync MISMATCH")
    short = {name.removesuffix(".weight").rsplit(".", 2)[1] for name in tensors}
    if short != set(body["config_dict"]["target_modules"]):
        raise Refusal(f"target_modules are {body['config_dict']['target_modules']}, and the tensors are of {sorted(short)}")
    adapters[body["lora_name"]] = (body["config_dict"], tensors)
    return {"success": True, "error_message": None, "loaded_adapters": {name: "__tensor__" for name in adapters}}


def unload_adapter(body):
    if adapters.pop(body["lora_name"], None) is None:
        raise Refusal(f"LoRA with name {body['lora_name']} does not exist")
    return {"success": True, "error_message": None, "loaded_adapters": {name: "__tensor__" for name in adapters}}


def session(wanted):
    def change(_):
        if state["session"] == wanted:
            raise Refusal("a weight-update session is already open" if wanted else "no weight-update session is open")
        state["session"] = wanted
        return {"success": True, "message": "Success"}
    return change


def pause(_):
    running.clear()
    with lock:
        return {"message": "Generation paused successfully.", "status": "ok"}


def resume(_):
    running.set()
    return {"message": "Generation continued successfully.", "status": "ok"}


POSTS = {
    "/generate": generate, "/pause_generation": pause, "/continue_generation": resume,
    "/flush_cache": lambda _: {}, "/abort_request": lambda _: {},
    "/update_weights_from_tensor": from_tensors, "/update_weights_from_disk": from_disk,
    "/load_lora_adapter_from_tensors": load_adapter, "/unload_lora_adapter": unload_adapter,
    **({"/begin_weight_update": session(True), "/end_weight_update": session(False)} if RELEASE == "new" else {}),
}
GETS = {
    "/health": lambda: {},
    "/server_info": lambda: {"version": "0.5.23" if RELEASE == "new" else "0.5.10.post1", "tp_size": 1, "enable_lora": True,
                             "max_running_requests": 1},
    "/model_info": lambda: {"model_path": FOLDER, "weight_version": state["label"]},
    "/v1/models": lambda: {"data": [{"id": "policy", "parent": None, "max_model_len": context}]
                           + [{"id": name, "parent": "policy", "max_model_len": None} for name in adapters]},
    "/v1/loads?include=core": lambda: {"loads": [{"num_running_reqs": state["busy"], "num_waiting_reqs": 0}]},
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, value):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def run(self, call):
        try:
            self.answer(200, call())
        except Refusal as refusal:
            self.answer(400, {"success": False, "message": str(refusal)})
        except Exception as error:
            self.answer(500, {"error": {"message": repr(error)}})

    def do_GET(self):
        call = GETS.get(self.path)
        self.answer(404, {"detail": "Not Found"}) if call is None else self.run(call)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        call = POSTS.get(self.path)
        self.answer(404, {"detail": "Not Found"}) if call is None else self.run(lambda: call(body))

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"ready {server.server_address[1]}", flush=True)
server.serve_forever()
