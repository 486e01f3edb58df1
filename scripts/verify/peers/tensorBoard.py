"""What TensorBoard reads from a folder of event files, as JSON: scalars and texts by tag, each a list of [step, seconds, value].

    python tensorBoard.py FOLDER
"""
import json
import sys

from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
from tensorboard.util import tensor_util

events = EventAccumulator(sys.argv[1], tensor_size_guidance={"scalars": 0, "text": 0})
events.Reload()
scalars, texts = {}, {}
for tag in events.Tags()["tensors"]:
    plugin = events.SummaryMetadata(tag).plugin_data.plugin_name
    rows = [(e.step, e.wall_time, tensor_util.make_ndarray(e.tensor_proto).item()) for e in events.Tensors(tag)]
    if plugin == "scalars":
        scalars[tag] = rows
    elif plugin == "text":
        texts[tag] = [(step, seconds, value.decode()) for step, seconds, value in rows]
    else:
        sys.exit(f"{tag} is shown by {plugin!r}")
print(json.dumps({"scalars": scalars, "texts": texts}))
