"""Plays `tandem serve --env reverseText` through the OpenEnv environment of verifiers, unmodified.

Argument: the URL of the server. Needs verifiers[openenv]. A scripted player takes the place of the harness with its model: it
reverses the word in the last observation. Prints the rewards that verifiers recorded as JSON.
"""

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from types import SimpleNamespace

from verifiers.v1.tasksets.openenv.taskset import OpenEnvConfig, OpenEnvEnv, OpenEnvTaskset


def player():
    rewards = {}
    trace = SimpleNamespace(stop=print, record_reward=lambda name, value: rewards.update({name: value}))

    async def turn(text):
        word = json.loads(text)["observation"]["messages"][-1]["content"]
        return SimpleNamespace(last_reply=word[::-1], terminated=False)

    @asynccontextmanager
    async def interaction(task):
        yield SimpleNamespace(turn=turn, trace=trace)

    return SimpleNamespace(interaction=interaction), rewards


async def main(url):
    tasks = list(OpenEnvTaskset.load(SimpleNamespace(config=OpenEnvConfig(base_url=url, resets=[{"seed": i} for i in range(8)]))))
    scores = []
    for task in tasks:
        agent, rewards = player()
        await OpenEnvEnv.run(None, task, SimpleNamespace(player=agent))
        scores.append(rewards["openenv_reward"])
    print(json.dumps(scores))


asyncio.run(main(*sys.argv[1:]))
