"""Asks a reward server with the HTTP client of OpenRLHF, unchanged.

Arguments: the URL of the route /get_reward, and the file openrlhf/utils/agent.py of an OpenRLHF wheel, which needs only aiohttp. The rest
of the package needs a GPU. Prints the answers for a right and a wrong reversed word as JSON.
"""

import asyncio
import importlib.util
import json
import logging
import sys
import types


def agent_module(path):
    for name in ("openrlhf", "openrlhf.utils"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["openrlhf.utils.logging_utils"] = types.ModuleType("openrlhf.utils.logging_utils")
    sys.modules["openrlhf.utils.logging_utils"].init_logger = logging.getLogger
    spec = importlib.util.spec_from_file_location("openrlhf.utils.agent", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(url, path):
    executor = agent_module(path).SingleTurnAgentExecutor(url)
    prompts = ["user\nabc\nassistant\n"] * 2
    queries = [prompts[0] + "cba</s>", prompts[1] + "abc</s>"]
    print(json.dumps(asyncio.run(executor._fetch_rewards_via_http(queries, prompts, ["cba", "cba"]))))


main(*sys.argv[1:])
