"""Speaks MLGym's environment in lines of JSON: one request on the standard input, one answer on the standard output.

    {"op": "open", "task": "prisonersDilemma", "maxSteps": 10, "seed": 1}
        -> {"ok": true, "result": {"description", "commandDocs", "baseline", "shell"}}
    {"op": "step", "command": "ls"}
        -> {"ok": true, "result": {"observation", "done", "exitStatus", "scores", "shell"}}
    {"op": "close"}

An error is {"ok": false, "reason": "..."}. Needs MLGym's repository (https://github.com/facebookresearch/MLGym) installed, docker or podman running,
and the repository as working folder. Whatever MLGym prints goes to the standard error.
"""

import json
import math
import os
import sys
from pathlib import Path

OUT = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)


def plain(metrics):
    """Numbers by name; null for those that JSON cannot say."""
    numbers = {str(name): float(value) for name, value in metrics.items() if isinstance(value, (int, float))}
    return {name: value if math.isfinite(value) else None for name, value in numbers.items()}


class Session:
    def __init__(self, task, max_steps, seed):
        import gymnasium
        import mlgym.environment.registration
        from mlgym import CONFIG_DIR
        from mlgym.agent.base import AgentArguments
        from mlgym.backend.base import ModelArguments
        from mlgym.environment.env import EnvironmentArguments
        from mlgym.environment.registration import register_task

        arguments = EnvironmentArguments(
            task_config_path=f"tasks/{task}.yaml",
            max_steps=max_steps,
            seed=seed,
            container_type=os.environ.get("MLGYM_CONTAINER", "podman"),
            verbose=False,
            aliases_file="docker/aliases.sh",
        )
        agent = AgentArguments(model=ModelArguments(""), agent_config_path=CONFIG_DIR / "agents" / "default.yaml")
        register_task(arguments)
        self.config = agent.config
        devices = os.environ.get("MLGYM_DEVICES", "cpu_0").split(",")
        self.env = gymnasium.make(f"mlgym/{arguments.task.id}", devices=devices).unwrapped
        self.env.reset(seed=seed)
        self.install_tools()

    def install_tools(self):
        """The commands of MLGym's agent, as its reset puts them into the container."""
        lines = [self.config.state_command.code, *(f"{k}={v}" for k, v in self.config.env_variables.items())]
        self.env.communicate_with_handling("\n".join(lines), error_msg="Failed to set the variables of the tools")
        files = []
        for path in map(Path, self.config.command_files):
            contents = path.read_text()
            if contents.strip().startswith("#!"):
                files.append({"name": path.name.rsplit(".", 1)[0], "contents": contents, "type": "script"})
            else:
                kind = "source_file" if path.name.endswith(".sh") else "utility"
                files.append({"name": path.name, "contents": contents, "type": kind})
        self.env.add_commands(files)

    def shell(self):
        state = json.loads(self.env.communicate(self.config.state_command.name))
        return {"openFile": str(state.get("open_file", "n/a")), "workingDirectory": str(state.get("working_dir", ""))}

    def opened(self):
        baselines = self.env.task.args.baseline_scores
        return {
            "description": self.env.task.args.description,
            "commandDocs": self.config.tools_handler.command_docs,
            "baseline": plain(baselines[0]) if baselines else None,
            "shell": self.shell(),
        }

    def step(self, command):
        observation, _, done, info = self.env.step(command)
        return {
            "observation": observation or "",
            "done": bool(done),
            "exitStatus": info.get("exit_status"),
            "scores": [plain(metrics) for metrics in info.get("score", [])],
            "shell": {"openFile": "n/a", "workingDirectory": ""} if done else self.shell(),
        }

    def close(self):
        self.env.close()


def answer(request, session):
    if request["op"] == "open":
        session = Session(request["task"], request["maxSteps"], request["seed"])
        return session, session.opened()
    return session, session.step(request["command"])


def main():
    session = None
    try:
        for line in sys.stdin:
            request = json.loads(line)
            if request["op"] == "close":
                return
            try:
                session, result = answer(request, session)
                said = {"ok": True, "result": result}
            except Exception as error:  # whatever MLGym raises is the caller's to judge
                said = {"ok": False, "reason": f"{type(error).__name__}: {error}"}
            OUT.write(json.dumps(said, allow_nan=False) + "\n")
            OUT.flush()
    finally:
        if session is not None:
            session.close()


if __name__ == "__main__":
    main()
