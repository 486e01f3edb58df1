"""Writes the small logs of other programs in packages/view/test/golden,
with the packages from PyPI.

    python test/golden/generate/foreignLogs.py trl packages/view/test/golden/foreign       # needs trl, torch
    python test/golden/generate/foreignLogs.py inspect packages/view/test/golden/foreign   # needs inspect_ai
    python test/golden/generate/foreignLogs.py verifiers packages/view/test/golden/foreign # needs verifiers

Each was made in its own virtual environment: trl 1.13.0, inspect_ai 0.3.285, verifiers 0.4.0.
"""

import os
import shutil
import sys
from pathlib import Path


def team_folder(out: Path) -> Path:
    """Returns the folder of logs with several agents, beside the others."""
    folder = out.parent / f"{out.name}Team"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def make_trl(out: Path) -> None:
    """Trains a tiny random model for two steps with `log_completions`."""
    import tempfile

    from datasets import Dataset
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
    from trl import GRPOConfig, GRPOTrainer

    model_folder = Path(__file__).parent.parent / "models" / "word-problems"
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(model_folder / "tokenizer.json"))
    tokenizer.pad_token = tokenizer.eos_token = "<|endoftext|>"
    config = Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=32, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=128,
    )

    def length(completions, **_):
        return [len(text) / 100 for text in completions]

    def digits(completions, **_):
        return [float(any(c.isdigit() for c in text)) for text in completions]

    with tempfile.TemporaryDirectory() as folder:
        arguments = GRPOConfig(
            output_dir=folder, max_steps=2, per_device_train_batch_size=4, num_generations=2,
            max_completion_length=8, log_completions=True, logging_steps=1, report_to=[], use_cpu=True,
            save_strategy="no", seed=1,
        )
        trainer = GRPOTrainer(
            model=Qwen2ForCausalLM(config), reward_funcs=[length, digits], args=arguments,
            train_dataset=Dataset.from_dict({"prompt": ["Two and two?", "Größe <b>?"] * 4}),
            processing_class=tokenizer,
        )
        trainer.train()
        target = out / "trl" / "completions"
        target.mkdir(parents=True, exist_ok=True)
        for file in sorted(Path(folder, "completions").glob("*.parquet")):
            shutil.copy(file, target / file.name)


def make_inspect(out: Path) -> None:
    """Evaluates a mock model that calls a tool and answers."""
    import tiktoken

    class Words:
        """Counts words instead of loading an encoding from the network."""

        def encode(self, text: str, **_) -> list[str]:
            return text.split()

    tiktoken.get_encoding = tiktoken.encoding_for_model = lambda *_: Words()

    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput, get_model
    from inspect_ai.scorer import includes
    from inspect_ai.solver import generate, system_message, use_tools
    from inspect_ai.tool import tool

    @tool
    def add():
        async def execute(x: int, y: int):
            """Add two numbers.

            Args:
                x: First number.
                y: Second number.
            """
            if x < 0:
                raise ValueError("negative")
            return x + y

        return execute

    outputs = [
        ModelOutput.for_tool_call("mockllm/model", "add", {"x": 2, "y": 2}),
        ModelOutput.from_content("mockllm/model", "The answer is 4."),
        ModelOutput.from_content("mockllm/model", "I do not know \u202e<b>."),
    ]
    task = Task(
        name="sums",
        dataset=[Sample(input="2 + 2?", target="4", id="a"), Sample(input="3 + 3?", target="6", id="b")],
        solver=[system_message("Be brief."), use_tools(add()), generate()],
        scorer=includes(),
    )
    folder = out / "inspect"
    folder.mkdir(parents=True, exist_ok=True)
    logs = eval(
        task, model=get_model("mockllm/model", custom_outputs=outputs), log_dir=str(folder), max_samples=1,
        display="none", log_format="eval",
    )
    os.replace(logs[0].location.removeprefix("file://"), folder / "sums.eval")


    make_inspect_team(team_folder(out))


def make_inspect_team(folder: Path) -> None:
    """Evaluates a coordinator that lets two agents work at the same time, and one of them a third."""
    from inspect_ai import Task, eval
    from inspect_ai.agent import AgentState, agent, run
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ChatMessageUser, ModelOutput, get_model
    from inspect_ai.scorer import includes
    from inspect_ai.solver import solver
    from inspect_ai.util import collect

    def answer(input, *_):
        return ModelOutput.from_content("mockllm/model", f"Done: {input[-1].text[:40]}")

    async def ask(state: AgentState) -> AgentState:
        state.output = await get_model().generate(state.messages)
        state.messages.append(state.output.message)
        return state

    @agent
    def checker():
        """Checks a number."""

        async def execute(state: AgentState) -> AgentState:
            return await ask(state)

        return execute

    @agent
    def searcher():
        """Searches, and has the result checked."""

        async def execute(state: AgentState) -> AgentState:
            state = await ask(state)
            await run(checker(), "Check it.")
            return state

        return execute

    @agent
    def reader():
        """Reads."""

        async def execute(state: AgentState) -> AgentState:
            return await ask(state)

        return execute

    @solver
    def coordinator():
        async def solve(state, generate):
            state = await generate(state)
            found = await collect(run(searcher(), "Search <b>here</b>."), run(reader(), "Read it."))
            state.messages.append(ChatMessageUser(content=" ".join(each.output.completion for each in found)))
            return await generate(state)

        return solve

    task = Task(name="team", dataset=[Sample(input="Find 4.", target="4", id="a")], solver=coordinator(), scorer=includes())
    logs = eval(
        task, model=get_model("mockllm/model", custom_outputs=answer), log_dir=str(folder), display="none",
        log_format="eval",
    )
    os.replace(logs[0].location.removeprefix("file://"), folder / "team.eval")


def make_verifiers(out: Path) -> None:
    """Writes two training episodes of one group through the package's own types and writer."""
    from verifiers.v1.configs.agent import WireAgentConfig
    from verifiers.v1.episode import (
        EnvInfo, Episode, GroupInfo, PolicySpan, TrainRunInfo, TrainWorkInfo,
    )
    from verifiers.v1.graph import MessageNode
    from verifiers.v1.semantic import ParentLink
    from verifiers.v1.state import State
    from verifiers.v1.task import TaskData, WireTaskData
    from verifiers.v1.trace import AgentInfo, Reward, Trace, TraceTask
    from verifiers.v1.types import (
        AssistantMessage, SystemMessage, ToolCall, ToolMessage, UserMessage,
    )
    from verifiers.v1.utils.trace_store import TRACES_FILE, write_episode

    folder = out / "verifiers"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TRACES_FILE).unlink(missing_ok=True)

    def episode(number: int, answer: str, score: float) -> Episode:
        call = ToolCall(id="c1", name="add", arguments='{"x": 2, "y": 2}')
        nodes = [
            MessageNode(message=SystemMessage(content="Be brief."), timestamp=1.0, token_ids=[1, 2], mask=[False] * 2),
            MessageNode(parent=0, message=UserMessage(content="2 + 2?"), timestamp=1.0, token_ids=[3], mask=[False]),
            MessageNode(
                parent=1, message=AssistantMessage(content=None, tool_calls=[call]), sampled=True, timestamp=2.0,
                token_ids=[9, 4, 5], mask=[False, True, True], logprobs=[-0.5, -0.25], advantages=[0.5, 0.5],
                trainer_logprobs=[-0.5, -0.3], entropies=[0.7, 0.1],
            ),
            MessageNode(
                parent=2, message=ToolMessage(tool_call_id="c1", content="4"), timestamp=3.0,
                token_ids=[6], mask=[False],
            ),
            MessageNode(
                parent=3, message=AssistantMessage(content=answer, reasoning_content="Sure."), sampled=True,
                timestamp=4.0, token_ids=[7], mask=[True], logprobs=[-0.125],
            ),
        ]
        task = TraceTask[WireTaskData](type="Sums", data=WireTaskData(**TaskData(idx=3, prompt="2 + 2?").model_dump()), key="sums-3")
        trace = Trace[WireTaskData, State, WireAgentConfig](
            id=f"trace-{number}", task=task, agent=AgentInfo(config=WireAgentConfig()), nodes=nodes,
            rewards={"correct": Reward(score=score, weight=2.0), "format": Reward(score=1.0, weight=0.5)},
            metrics={"turns": 2.0},
        )
        return Episode(
            id=f"episode-{number}", env=EnvInfo(id="sums"), task=task, group=GroupInfo(id="g1"), ok=True,
            run=TrainRunInfo(
                id="run-1", name="sums run", work=TrainWorkInfo(step=5, policy=PolicySpan(start=4, end=4)),
            ),
            traces=[trace],
        )

    def team() -> Episode:
        """A solver whose two sub-agents work at the same time, and a judge with a trace of its own."""

        def node(parent, role, content, at, links=()):
            kind = {"user": UserMessage, "assistant": AssistantMessage}[role]
            return MessageNode(
                parent=parent, message=kind(content=content), sampled=role == "assistant", timestamp=at,
                semantic_parents=[ParentLink(node=each, type=link) for each, link in links],
            )

        nodes = [
            node(None, "user", "Find 4.", 100.0),
            node(0, "assistant", "I ask two others.", 102.0),
            node(None, "user", "Search.", 102.0),
            node(2, "assistant", "Found 4.", 105.0, [(1, "subagent_call")]),
            node(None, "user", "Read.", 102.0),
            node(4, "assistant", "Read 4.", 104.0, [(1, "subagent_call")]),
            node(1, "user", "They found 4.", 105.0),
            node(6, "assistant", "4", 106.0, [(3, "subagent_return"), (5, "subagent_return")]),
        ]
        task = TraceTask[WireTaskData](type="Team", data=WireTaskData(**TaskData(idx=4, prompt="Find 4.").model_dump()), key="team-4")

        def trace(name: str, own: list[MessageNode]) -> Trace:
            return Trace[WireTaskData, State, WireAgentConfig](
                id=f"team-{name}", task=task, agent=AgentInfo(config=WireAgentConfig(), name=name), nodes=own,
                rewards={"correct": Reward(score=1.0, weight=1.0)},
            )

        judged = [node(None, "user", "Is it 4?", 106.0), node(0, "assistant", "Yes.", 107.0)]
        return Episode(
            id="episode-team", env=EnvInfo(id="team"), task=task, group=GroupInfo(id="g2"), ok=True,
            run=TrainRunInfo(
                id="run-1", name="sums run", work=TrainWorkInfo(step=6, policy=PolicySpan(start=5, end=5)),
            ),
            traces=[trace("solver", nodes), trace("judge", judged)],
        )

    write_episode(folder, episode(1, "4", 1.0))
    write_episode(folder, episode(2, "5 <b>", 0.0))
    (team_folder(out) / TRACES_FILE).unlink(missing_ok=True)
    write_episode(team_folder(out), team())


if __name__ == "__main__":
    {"trl": make_trl, "inspect": make_inspect, "verifiers": make_verifiers}[sys.argv[1]](Path(sys.argv[2]))
