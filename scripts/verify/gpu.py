"""Measures training on a SkyRL server and WebGPU: `npm run verify -- gpu` on a machine with an NVIDIA GPU.

Needs a Python with SkyRL's Tinker server and JAX. Parts run in order, each within its limit, and a
part that fails does not stop the next. Variables, with their defaults:

    GPU_DEVICE   cuda; cpu tries the program without a GPU
    GPU_PARTS    "card train:0.6B:bfloat16 webgpu check train:0.6B:float32 train:1.7B:bfloat16"
    GPU_SECONDS  480, after which no part starts or continues
    GPU_TRAIN_SECONDS, GPU_CHECK_SECONDS   240 and 200, limits of `tandem train` and `tandem tinker check`
    GPU_STEPS    12 steps of a training
    GPU_PROMPTS, GPU_GROUP, GPU_WORDS, GPU_TOKENS   16 prompts, 8 completions of each, 48 words of a
                 prompt, 128 tokens of a completion
    GPU_RATE     0.00002, the learning rate
    GPU_MICRO    32 sequences that the server trains at a time
    GPU_HIDDEN   "256 512", hidden sizes of the part webgpu
    GPU_TANDEM   "node dist/cli/tandem.js"
    GPU_PORT     8745, of the server
    GPU_BENCH    the command of bench/gpu.ts
    OUT          a folder for figures.jsonl and logs.tar.gz. Default: a temporary one

Figures are JSON lines.
"""

import json
import os
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import traceback
import urllib.request
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent / "gpu"
ROOT = HERE.parent.parent.parent
TIMING = re.compile(r"\(timing\)\s+process_\w+\((\w+)[^)]*\)\s+took\s+([\d.]+)s")
BENCH = "node --import tsx --import ./bench/built.mjs bench/gpu.ts"
PARTS = "card train:0.6B:bfloat16 webgpu check train:0.6B:float32 train:1.7B:bfloat16"


def setting(name, default):
    return type(default)(os.environ.get(f"GPU_{name}", default))


DEVICE = setting("DEVICE", "cuda")
PORT = setting("PORT", 8745)
URL = f"http://127.0.0.1:{PORT}"
OUT = Path(os.environ.get("OUT") or tempfile.mkdtemp(prefix="gpu-figures-"))
WORK = Path(tempfile.mkdtemp(prefix="gpu-work-"))
LOGS = WORK / "logs"
END = time.monotonic() + setting("SECONDS", 480.0)
TANDEM = shlex.split(setting("TANDEM", "node dist/cli/tandem.js"))


def emit(part, **figures):
    line = json.dumps({"part": part, **figures})
    print(line, flush=True)
    with (OUT / "figures.jsonl").open("a") as file:
        file.write(line + "\n")


def left(limit):
    seconds = min(limit, END - time.monotonic())
    if seconds < 5:
        raise TimeoutError("no time is left")
    return seconds


def environment():
    own = {name: value for name, value in os.environ.items() if name != "NODE_OPTIONS"}  # of npm run: the sources
    return {
        "JAX_COMPILATION_CACHE_DIR": str(WORK / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "1",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # so that the driver reports the memory in use
        "HF_HUB_OFFLINE": "1",
        "COLUMNS": "400",
        "NO_COLOR": "1",
        **own,
        "JAX_PLATFORMS": "cpu" if DEVICE == "cpu" else "cuda,cpu",
    }


def run(command, name, limit):
    """Runs a command and returns its output. Throws with its last lines if it fails."""
    log = LOGS / f"{name}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment(), stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            end = f"exit code {process.wait(left(limit))}"
        except subprocess.TimeoutExpired as error:
            end = f"stopped after {error.timeout:.0f} s"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    text = log.read_text(errors="replace")
    if end != "exit code 0":
        raise RuntimeError(f"{name}: {end}: {text[-1500:]}")
    return text


@contextmanager
def peak_memory():
    """Yields a list whose maximum is the memory of the GPU in use, in MiB."""
    readings, done = [], threading.Event()
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]

    def read():
        while not done.wait(0.5):
            readings.append(int(subprocess.check_output(query, timeout=10).split()[0]))

    thread = threading.Thread(target=read, daemon=True)
    if DEVICE != "cpu":
        thread.start()
    try:
        yield readings
    finally:
        done.set()


def write_uv():
    """SkyRL starts its engine by `uv run FLAGS -m MODULE`, where FLAGS name what is installed here."""
    folder = WORK / "bin"
    folder.mkdir(exist_ok=True)
    path = folder / "uv"
    # No `exec`: the server reads the command of its parent.
    path.write_text(f'#!/bin/sh\nwhile [ "$1" != -m ]; do shift; done\n{shlex.quote(sys.executable)} "$@"\n')
    path.chmod(0o755)
    return folder


@contextmanager
def skyrl(model, name, config):
    """Runs the server and yields its log. Fails if it does not load the model in time."""
    log = LOGS / f"{name}.log"
    place = WORK / name
    place.mkdir()
    arguments = {
        "--base-model": str(model),
        "--backend": "jax",
        "--backend-config": json.dumps(config),
        "--checkpoints-base": str(place / "checkpoints"),
        "--database-url": f"sqlite:///{place}/tinker.db",
        "--host": "127.0.0.1",
        "--port": str(PORT),
    }
    folder = write_uv()
    words = [word for pair in arguments.items() for word in pair]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [str(folder / "uv"), "run", "-m", "skyrl.tinker.api", *words],
            env={**environment(), "PATH": f"{folder}:{os.environ['PATH']}"},
            cwd=place,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        end = time.monotonic() + left(180)
        while "Starting background engine" not in log.read_text(errors="replace") or not is_healthy():
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{name}: no server: {log.read_text(errors='replace')[-2500:]}")
            time.sleep(0.5)
        yield log
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(8)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def is_healthy():
    try:
        return urllib.request.urlopen(f"{URL}/api/v1/healthz", timeout=5).status == 200
    except OSError:
        return False


def make_model(shape, dtype):
    folder = WORK / f"qwen3-{shape}-{dtype}"
    emit("model", **json.loads(run([sys.executable, str(HERE / "model.py"), shape, str(folder), dtype], "model", 150)))
    return folder


def middle(numbers):
    return round(statistics.median(numbers), 4) if numbers else None


def server_seconds(log, steps):
    """Medians over steps after the second: seconds of each kind of request in the server's log, and batches of sampling."""
    requests = TIMING.findall(log.read_text(errors="replace"))
    ends = [i for i, (kind, _) in enumerate(requests) if kind == "optim_step"][-steps:]
    sums = []
    for start, end in list(zip(ends, ends[1:]))[1:]:
        step = {}
        for kind, seconds in requests[start + 1 : end + 1]:
            step[kind] = step.get(kind, 0) + float(seconds)
            if kind == "sample":
                step["sample_batches"] = step.get("sample_batches", 0) + 1
        sums.append(step)
    kinds = sorted({kind for step in sums for kind in step})
    return {kind: middle([step.get(kind, 0) for step in sums]) for kind in kinds}


def summary(lines, log):
    settled = lines[2:]
    tokens = lines[0]["sampling"]["tokens"]
    client = {kind: middle([line["seconds"][kind] for line in settled]) for kind in lines[0]["seconds"]}
    server = server_seconds(log, len(lines))
    return {
        "steps": len(lines),
        "completions": lines[0]["trajectories"],
        "rewards": [round(line["reward"], 4) for line in lines],
        "gaps": [line["update"]["maxLogProbGap"] for line in lines],
        "entropies": [round(line["update"]["entropy"], 3) for line in lines],
        "first_step_seconds": round(sum(lines[0]["seconds"].values()), 2),
        "step_seconds": middle([sum(line["seconds"].values()) for line in settled]),
        "client_seconds": client,
        "server_seconds": server,
        "tokens_sampled": tokens,
        "tokens_sent": lines[0]["metrics"]["tokensSent"],
        "tokens_trained": lines[0]["metrics"]["tokensTrained"],
        "sampled_per_second": client["generation"] and round(tokens / client["generation"]),
        "trained_per_second": server.get("forward_backward")
        and round(lines[0]["metrics"]["tokensTrained"] / server["forward_backward"]),
    }


def train(shape, dtype):
    model = make_model(shape, dtype)
    steps, prompts, group = setting("STEPS", 12), setting("PROMPTS", 16), setting("GROUP", 8)
    name = f"{shape}-{dtype}"
    config = {
        "max_lora_adapters": 4,
        "max_lora_rank": 32,
        "train_micro_batch_size": setting("MICRO", 32),
        "sample_max_num_sequences": prompts * group,
    }
    metrics = WORK / f"run-{name}" / "metrics.jsonl"
    command = [
        *(TANDEM + ["train", str(HERE / "recipe.ts"), "--model", str(model), "--out", str(metrics.parent)]),
        *["--learner", "tinker", "--url", URL, "--base-model", str(model), "--lora-rank", "32"],
        *["--steps", str(steps), "--prompts", str(prompts), "--group", str(group)],
        *["--max-new-tokens", str(setting("TOKENS", 128)), "--set", f"promptWords={setting('WORDS', 48)}"],
        *["--learning-rate", str(setting("RATE", 2e-5)), "--set", "learner.maxGradNorm=off"],
        *["--set", 'learner.optimizerOptions={"beta2":0.95}'],  # in bfloat16, 0.999 is 1
        *["--eval-every", "1000", "--checkpoint-every", "1000"],
    ]
    started = time.monotonic()
    with peak_memory() as memory, skyrl(model, f"server-{name}", config) as log:
        loaded = time.monotonic() - started
        emit("loaded", model=name, seconds=round(loaded, 1), memory_mib=max(memory, default=None))
        failure = None
        try:
            run(command, f"train-{name}", setting("TRAIN_SECONDS", 240.0))
        except RuntimeError as error:
            failure = str(error)[-1500:]
        text = metrics.read_text() if metrics.exists() else ""
        (LOGS / f"metrics-{name}.jsonl").write_text(text)
        lines = [line for line in map(json.loads, text.splitlines()) if line["type"] == "step"]
        if not lines:
            raise RuntimeError(failure or "no step ended")
        seconds = round(time.monotonic() - started - loaded, 1)
        figures = {"seconds": seconds, "memory_mib": max(memory, default=None), "failure": failure}
        emit("train", model=name, micro_batch=config["train_micro_batch_size"], **summary(lines, log), **figures)


def check():
    """Checks the server with a small model: it sends many shapes, and each is compiled."""
    model = make_model("tiny", "float32")
    config = {
        **{"max_lora_adapters": 8, "max_lora_rank": 32},
        **{"train_micro_batch_size": 16, "sample_max_num_sequences": 32},
    }
    started = time.monotonic()
    with skyrl(model, "server-check", config):
        text = run(TANDEM + ["tinker", "check", URL, "--base-model", str(model)], "check", setting("CHECK_SECONDS", 200.0))
    table = text[text.index("\ncheck ") + 1 :].splitlines()
    emit("check", seconds=round(time.monotonic() - started, 1), table=[re.sub(r" {2,}", " | ", row) for row in table])


def webgpu():
    bench = shlex.split(setting("BENCH", BENCH))
    for hidden in setting("HIDDEN", "256 512").split():
        for work in ["train", "score", "sample"]:
            for device in ["webgpu", "cpu"]:
                row = ["--work", work, "--device", device, "--hidden", hidden, "--runs", "3"]
                try:
                    text = run([*bench, *row], f"webgpu-{work}-{device}-{hidden}", 60)
                    emit("webgpu", **json.loads(text[text.index('{"program"') :].splitlines()[0]))
                except (RuntimeError, ValueError) as error:
                    emit("webgpu", work=work, device=device, hidden=int(hidden), failure=str(error)[-1500:])


def card():
    code = "import jax, jaxlib; print(jax.__version__, jax.default_backend(), jax.devices())"
    emit("card", jax=run([sys.executable, "-c", code], "card", 60).strip().splitlines()[-1])
    if DEVICE != "cpu":
        query = "--query-gpu=name,driver_version,memory.total,memory.used"
        emit("card", gpu=run(["nvidia-smi", query, "--format=csv,noheader"], "nvidia-smi", 20).strip())


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the servers
    parts = {"card": card, "train": train, "check": check, "webgpu": webgpu}
    OUT.mkdir(parents=True, exist_ok=True)
    LOGS.mkdir()
    failed = 0
    for text in setting("PARTS", PARTS).split():
        name, *arguments = text.split(":")
        started = time.monotonic()
        try:
            left(1000)
            parts[name](*arguments)
        except Exception as error:
            failed += 1
            traceback.print_exc()
            emit(text, failure=str(error)[-2500:], seconds=round(time.monotonic() - started, 1))
        with tarfile.open(OUT / "logs.tar.gz", "w:gz") as archive:
            archive.add(LOGS, "logs")
        emit("end", of=text, seconds=round(time.monotonic() - started, 1))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
