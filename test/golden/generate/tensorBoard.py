"""Records of an event file, written by TensorBoard's own record writer with the messages of its own scalar and text plugins.

    python tensorBoard.py > ../tensorBoard.json

Made with tensorboard 2.21.0 (no TensorFlow), numpy 2.
"""
import io
import json

import tensorboard
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.plugins.scalar import summary_v2 as scalar
from tensorboard.plugins.text import summary_v2 as text
from tensorboard.summary.writer.record_writer import RecordWriter

EVENTS = [
    {"what": "version", "seconds": 1795312000.25, "step": 0},
    {"what": "restart", "seconds": 1795312000.5, "step": 0},
    {"what": "restart", "seconds": 1795312000.5, "step": 41},
    {"what": "scalars", "seconds": 1795312001, "step": 1, "values": {"train/loss": 0.5}},
    {"what": "scalars", "seconds": 1795312002.125, "step": 300,
     "values": {"train/loss": -0.1, "zero": 0, "tiny": 1e-45, "large": 3.5e38, "rollout/rewärd": 123456.789}},
    {"what": "texts", "seconds": 0, "step": 2**40, "values": {"samples/0": "x" * 200, "samples/1": "", "é": "日本\n"}},
]


def message(event):
    proto = event_pb2.Event(wall_time=event["seconds"], step=event["step"])
    if event["what"] == "version":
        proto.file_version = "brain.Event:2"
    if event["what"] == "restart":
        proto.session_log.status = event_pb2.SessionLog.START
    make = {"scalars": scalar.scalar_pb, "texts": text.text_pb}.get(event["what"])
    if make is not None:
        values = [value for tag, x in event["values"].items() for value in make(tag, x).value]
        proto.summary.CopyFrom(summary_pb2.Summary(value=values))
    return proto


def record(event):
    out = io.BytesIO()
    out.close = lambda: None
    RecordWriter(out).write(message(event).SerializeToString(deterministic=True))
    return out.getvalue().hex()


print(json.dumps({
    "tensorboard": tensorboard.__version__,
    "events": [{"event": event, "hex": record(event)} for event in EVENTS],
}, indent=1))
