"""The public names of TorchRL's stack for language models: what its modules list in `__all__`.

    python torchrlNames.py ../torchrlNames.json

Made with torchrl 0.14.1. Replaces the section `public` of the file; the others are kept.
"""
import importlib
import json
import pkgutil
import sys
from importlib.metadata import version

MODULES = ["envs", "modules", "data", "objectives", "collectors", "weight_update"]


def names_of(module: str) -> set[str]:
    loaded = importlib.import_module(module)
    names = {name for name in getattr(loaded, "__all__", []) if not name.startswith("_")}
    for inner in pkgutil.iter_modules(getattr(loaded, "__path__", [])):
        names |= names_of(f"{module}.{inner.name}")
    return names


path = sys.argv[1]
with open(path) as file:
    golden = json.load(file)
public = sorted(set().union(*(names_of(f"torchrl.{module}.llm") for module in MODULES)))
golden["names"]["public"] = public
golden["torchrl"] = version("torchrl")
sections = ",\n".join(f"    {json.dumps(key)}: {json.dumps(names)}" for key, names in golden.pop("names").items())
head = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in golden.items())
with open(path, "w") as file:
    file.write(f'{{\n{head},\n  "names": {{\n{sections}\n  }}\n}}\n')
print(len(public), "names")
