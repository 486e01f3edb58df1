"""Runs the Python SDK of Tinker, unchanged, against a server: arguments are its URL, the name of a model, the token ids of a
text and the rank of the adapter.

Prints one JSON object: the losses of 30 steps, what the sampler recites, and the drift between trainer and sampler.
"""

import json
import sys

import tinker
from tinker import types


def tensor(values, dtype):
    return types.TensorData(data=values, dtype=dtype, shape=[len(values)])


def main(url, model, text):
    service = tinker.ServiceClient(base_url=url, api_key="tml-test")
    known = [each.model_name for each in service.get_server_capabilities().supported_models]
    assert model in known, known
    trainer = service.create_lora_training_client(base_model=model, rank=int(sys.argv[4]))
    inputs, targets = text[:-1], text[1:]
    weights = tensor([1.0] * len(targets), "float32")
    datum = types.Datum(
        model_input=types.ModelInput.from_ints(inputs),
        loss_fn_inputs={"target_tokens": tensor(targets, "int64"), "weights": weights},
    )
    losses = []
    for _ in range(30):
        computed = trainer.forward_backward([datum], "cross_entropy")
        stepped = trainer.optim_step(types.AdamParams(learning_rate=1e-3))
        losses.append(computed.result().metrics["loss:sum"] / len(targets))
        stepped.result()
    final = trainer.forward([datum], "cross_entropy").result()
    if hasattr(final, "result"):
        final = final.result()
    trained = list(final.loss_fn_outputs[0]["logprobs"].data)
    sampler = trainer.save_weights_and_get_sampling_client()
    scored = sampler.compute_logprobs(types.ModelInput.from_ints(text)).result()
    start = text[:4]
    params = types.SamplingParams(max_tokens=len(text) - len(start), temperature=0.0)
    sampled = sampler.sample(types.ModelInput.from_ints(start), num_samples=1, sampling_params=params).result()
    params = types.SamplingParams(max_tokens=8, temperature=1.0, seed=7, stop=[])
    asked = {"num_samples": 2, "sampling_params": params, "include_prompt_logprobs": True, "topk_prompt_logprobs": 2}
    again = [sampler.sample(types.ModelInput.from_ints(start), **asked).result() for _ in range(2)]
    state = trainer.save_state("last").result().path
    restored = service.create_training_client_from_state_with_optimizer(state)
    after = restored.forward([datum], "cross_entropy").result()
    checkpoints = service.create_rest_client().list_checkpoints(state.split("/")[2]).result().checkpoints
    print(
        json.dumps(
            {
                "version": tinker.__version__,
                "losses": losses,
                "final": -sum(trained) / len(trained),
                "recited": list(sampled.sequences[0].tokens) == text[len(start) :],
                "drift": sum(abs(a - b) for a, b in zip(trained, scored[1:])) / len(trained),
                "seeded": [list(each.tokens) for each in again[0].sequences]
                == [list(each.tokens) for each in again[1].sequences],
                "lengths": [len(each.tokens) for each in again[0].sequences],
                "topk": len(again[0].topk_prompt_logprobs[1]),
                "restored": max(abs(a - b) for a, b in zip(trained, after.loss_fn_outputs[0]["logprobs"].data)),
                "checkpoints": len(checkpoints),
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
