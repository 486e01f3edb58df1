"""The side of verifiers: a line on standard input is a number of chains, and a line of JSON answers it when they are over.

Arguments: the server's address, chains at a time, and whether `generate` plays the chains or the rollout loop alone.
"""
import asyncio
import json
import os
import resource
import sys
import time

import verifiers as vf
from datasets import Dataset

URL, CONCURRENT, LOOP = sys.argv[1], int(sys.argv[2]), sys.argv[3]
MAX_TOKENS = {"max_tokens": 64, "temperature": 1.0}


def add(a: int, b: int) -> int:
    """Adds two numbers.

    Args:
        a: the first number
        b: the second number
    """
    return a + b


def is_right(completion, **_):
    return 1.0 if "42" in (completion[-1].content or "") else 0.0


def environment():
    rows = Dataset.from_list([{"question": "What is 17 + 25?", "answer": "42"}])
    return vf.ToolEnv(tools=[add], max_turns=4, dataset=rows, rubric=vf.Rubric(funcs=[is_right]))


async def play(env, client, count):
    row = env.get_dataset()[0]
    rows = [dict(row) for _ in range(count)]
    if LOOP == "generate":
        played = await env.generate(
            rows, client, "scripted", MAX_TOKENS, max_concurrent=CONCURRENT, independent_scoring=True,
            on_start=lambda *_: None, on_progress=lambda *_: None)
        return played["outputs"]
    places = asyncio.Semaphore(CONCURRENT)

    async def one(each):
        async with places:
            return await env.run_rollout(each, client, "scripted", MAX_TOKENS)

    return await asyncio.gather(*(one(each) for each in rows))


async def main():
    os.environ["SCRIPTED_KEY"] = "none"
    env = environment()
    config = vf.ClientConfig(api_key_var="SCRIPTED_KEY", api_base_url=f"{URL}/v1")
    client = vf.OpenAIChatCompletionsClient(config)
    for line in sys.stdin:
        before, started = time.process_time(), time.perf_counter()
        played = await play(env, client, int(line))
        seconds, cpu = time.perf_counter() - started, time.process_time() - before
        right = sum(each["reward"] == 1.0 and len(each["completion"]) == 3 for each in played)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"seconds": seconds, "cpuSeconds": cpu, "peakMiB": peak, "correct": right}), flush=True)


asyncio.run(main())
