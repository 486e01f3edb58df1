"""The measured programs in PyTorch, eager: the counterparts of bodies.ts and modelBodies.ts.

One argument, a JSON object {"workload": ..., "threads": ...}; see turns.ts for what goes over standard input and output.
"""
import json
import resource
import sys
import time

import numpy
import torch

SCALE = 0.02 * 12**0.5
LEARNING_RATE = 1e-3
SLOW_SECONDS = 10


def scramble(count, salt):
    h = numpy.arange(1, count + 1, dtype=numpy.uint32) * numpy.uint32(0x9E3779B1)
    h = h + numpy.uint32((salt * 0x85EBCA6B) & 0xFFFFFFFF)
    h ^= h >> numpy.uint32(16)
    h *= numpy.uint32(0xC2B2AE35)
    h ^= h >> numpy.uint32(13)
    return h


def noise(count, salt, scale=1.0):
    return torch.from_numpy(((scramble(count, salt) / 2**32 - 0.5) * scale).astype(numpy.float32))


def noise_ids(count, salt, limit):
    return torch.from_numpy((scramble(count, salt) % numpy.uint32(limit)).astype(numpy.int64))


def salt_of(name):
    salt = 0
    for letter in name:
        salt = (salt * 31 + ord(letter)) & 0xFFFFFFFF
    return salt


def mean_square(x):
    return x.float().square().mean().item()


def repeated(sizes, once):
    def run():
        for _ in range(sizes["repeats"]):
            once()

    return run


def add_and_read(w):
    x, y = noise(8, 1), noise(8, 1)
    once = lambda: torch.add(x, y).numpy()[0]
    return lambda: float(once()), repeated(w["sizes"], once)


def small_ops(w):
    x, y = noise(8, 1), noise(8, 1)

    def once():
        total = x
        for _ in range(w["sizes"]["operations"]):
            total = torch.add(total, y)
        return total.numpy()[0]

    return lambda: float(once()), repeated(w["sizes"], once)


def call(w):
    x = noise(8, 1)
    f = lambda x: x + 1
    return lambda: f(x)[0].item(), repeated(w["sizes"], lambda: f(x))


def call_tree(w):
    matrices = lambda salt: [noise(64, salt + i).reshape(8, 8) for i in range(w["sizes"]["tensors"])]
    params, grads = matrices(1), matrices(1001)
    f = lambda: [p - g * 0.1 for p, g in zip(params, grads)]
    return lambda: sum(t[0, 0].item() for t in f()), repeated(w["sizes"], f)


def chain(w):
    x = noise(w["sizes"]["elements"], 1)

    def f():
        a = x * 0.5 + x
        b = torch.tanh(a) * x
        return torch.exp(torch.sigmoid(b)) + 1 - x

    return lambda: mean_square(f()), f


REDUCTIONS = {
    "sumLast": lambda x: x.sum(1),
    "sumFirst": lambda x: x.sum(0),
    "sumAll": lambda x: x.sum(),
    "maxLast": lambda x: x.amax(1),
    "argMaxLast": lambda x: x.argmax(1),
    "softmax": lambda x: x.softmax(-1),
}


def reduction(w):
    rows, columns = w["sizes"]["rows"], w["sizes"]["columns"]
    x = noise(rows * columns, 1, 4.0).reshape(rows, columns)
    f = REDUCTIONS[w["reduction"]]
    return lambda: mean_square(f(x)), lambda: f(x)


def mat_mul(w):
    batch, size = w["sizes"]["batch"], w["sizes"]["size"]
    shape = (size, size) if batch == 1 else (batch, size, size)
    a, b = (noise(batch * size * size, salt).reshape(shape) for salt in (1, 2))
    f = (lambda: a @ b) if batch == 1 else (lambda: a @ b.mT)
    return lambda: mean_square(f()), f


def build(sizes):
    """The model of benchConfig in settings.ts, with the weights of modelBodies.ts."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=sizes["vocab"],
            hidden_size=sizes["hidden"],
            intermediate_size=3 * sizes["hidden"],
            num_hidden_layers=sizes["layers"],
            num_attention_heads=sizes["heads"],
            num_key_value_heads=sizes["kvHeads"],
            max_position_embeddings=4096,
            tie_word_embeddings=True,
        )
    )
    with torch.no_grad():
        for name, x in model.named_parameters():
            if name.endswith("norm.weight"):
                x.fill_(1)
            elif name.endswith(".bias"):
                x.zero_()
            else:
                x.copy_(noise(x.numel(), salt_of(name), SCALE).reshape(x.shape))
    return model


def batch_of(sizes):
    return noise_ids(sizes["batch"] * sizes["length"], 7, sizes["vocab"] - 3).reshape(sizes["batch"], sizes["length"])


def forward(w):
    model, ids = build(w["sizes"]).eval(), batch_of(w["sizes"])

    def f():
        with torch.inference_mode():
            return model(input_ids=ids, use_cache=False).logits

    return lambda: mean_square(f()), f


def train_step(w):
    model, ids = build(w["sizes"]), batch_of(w["sizes"])

    def f():
        model.zero_grad(set_to_none=True)
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        return loss.item()

    def value():
        loss = f()
        return loss + sum(x.grad.square().sum().item() for x in model.parameters()) ** 0.5

    return value, f


def update(w):
    model, ids = build(w["sizes"]), batch_of(w["sizes"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.01, fused=True)

    def f():
        optimizer.zero_grad(set_to_none=True)
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        optimizer.step()
        return loss.item()

    return lambda: f() + f(), f


def decode(w):
    from transformers import DynamicCache

    sizes = w["sizes"]
    model = build(sizes).eval()
    batch, past = sizes["batch"], sizes["past"]
    head = sizes["hidden"] // sizes["heads"]
    shape = (batch, sizes["kvHeads"], past, head)
    count = batch * sizes["kvHeads"] * past * head
    cache = DynamicCache(config=model.config)
    for layer in range(sizes["layers"]):
        cache.update(noise(count, 100 + layer).reshape(shape), noise(count, 200 + layer).reshape(shape), layer)
    ids = noise_ids(batch, 7, sizes["vocab"] - 3).reshape(batch, 1)
    mask = torch.ones(batch, past + 1, dtype=torch.int64)

    def f():
        with torch.inference_mode():
            logits = model(input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True).logits
            cache.crop(past)
            return logits

    return lambda: mean_square(f()), f


BODIES = {
    "addAndRead": add_and_read,
    "smallOps": small_ops,
    "call": call,
    "callTree": call_tree,
    "chain": chain,
    "reduction": reduction,
    "matMul": mat_mul,
    "forward": forward,
    "decode": decode,
    "trainStep": train_step,
    "update": update,
}


def say(message):
    print("@bench " + json.dumps(message), flush=True)


def timed(run):
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def main():
    given = json.loads(sys.argv[1])
    torch.set_num_threads(given["threads"])
    torch.manual_seed(0)
    value, run = BODIES[given["workload"]["kind"]](given["workload"])
    first = time.perf_counter()
    computed = value()
    first = time.perf_counter() - first
    say({
        "tag": "Ready", "version": torch.__version__, "threads": torch.get_num_threads(), "value": computed,
        "firstSeconds": first, "warmSeconds": first if first > SLOW_SECONDS else timed(run),
    })
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "end":
            break
        limit, most = float(rest[0]), int(rest[1])
        started, seconds = time.perf_counter(), []
        while not seconds or (time.perf_counter() - started < limit and len(seconds) < most):
            seconds.append(timed(run))
        say({"tag": "Turn", "seconds": seconds})
    say({"tag": "End", "peakMiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024})


main()
