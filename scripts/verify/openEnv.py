"""Plays environments of `tandem serve --env` with the unmodified client of OpenEnv.

Arguments: the URL of `tandem serve --env reverseText`, or of `--env calculator`, and the name of the recipe. Needs the
package openenv-core (or openenv). Prints the results as JSON.
"""

import asyncio
import json
import sys

try:
    from openenv.core import GenericEnvClient
except ImportError:
    from openenv import GenericEnvClient


def answers_of(recipe, observation):
    """The messages of a model that solves the task."""
    asked = observation["messages"][-1]["content"]
    if recipe == "reverseText":
        return [asked[::-1]]
    expression = asked.removeprefix("What is ").removesuffix("?")
    call = {"name": "calculator", "arguments": {"expression": expression}}
    return [f"<tool_call>{json.dumps(call)}</tool_call>", f"<answer>{eval(expression)}</answer>"]


async def episode(url, recipe, seed):
    async with GenericEnvClient(base_url=url) as env:
        result = await env.reset(seed=seed)
        total = 0.0
        for message in answers_of(recipe, result.observation):
            result = await env.step({"message": message})
            total += result.reward or 0.0
        state = await env.state()
        return {"reward": total, "done": result.done, "steps": state["step_count"], "success": result.observation["success"]}


async def refused(url):
    """The error of a step without a reset."""
    async with GenericEnvClient(base_url=url) as env:
        try:
            await env.step({"message": "a"})
        except RuntimeError as error:
            return str(error)
        return None


async def main(url, recipe):
    episodes = await asyncio.gather(*(episode(url, recipe, seed) for seed in range(16)))
    solved = sum(each["success"] and each["done"] for each in episodes)
    print(json.dumps({"solved": solved, "of": len(episodes), "first": episodes[0], "refused": await refused(url)}))


asyncio.run(main(*sys.argv[1:]))
