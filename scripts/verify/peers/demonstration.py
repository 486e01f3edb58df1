"""Trains with TRL's GRPOTrainer, for demonstration.ts.

    demonstration.py SETTINGS.json

Prints a line of JSON for the ids of the prompts, for the completions of each step, and for the end
of each step. Reads the rewards of each step as a line of JSON.
"""
import json
import sys
import warnings

sys.path.pop(0)  # the folder of this file, which has a safetensors.py

import peft
import torch
import transformers
import trl
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback

warnings.filterwarnings("ignore")
settings = json.loads(open(sys.argv[1]).read())
torch.set_num_threads(settings["threads"])
lines, sys.stdout = sys.stdout, sys.stderr


def tell(**fields):
    print(json.dumps(fields), file=lines, flush=True)


tokenizer = AutoTokenizer.from_pretrained(settings["model"])
model = AutoModelForCausalLM.from_pretrained(settings["model"], dtype=torch.float32)
prompts = [[{"role": "user", "content": query}] for query in settings["queries"]]
tell(type="prompts", versions={each.__name__: each.__version__ for each in (trl, torch, transformers, peft)}, ids=[
    tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=True)["input_ids"] for prompt in prompts
])


def rewards(completions, index, completion_ids, **_):
    tell(type="completions", tasks=index, texts=[reply[0]["content"] for reply in completions],
         tokens=sum(len(ids) for ids in completion_ids))
    return json.loads(sys.stdin.readline())


class Steps(TrainerCallback):
    def on_step_begin(self, *_, **__):
        tell(type="begin")

    def on_step_end(self, *_, **__):
        tell(type="step")


lora = settings["lora"]
trainer = trl.GRPOTrainer(
    model=model,
    processing_class=tokenizer,
    reward_funcs=rewards,
    peft_config=None if lora is None else peft.LoraConfig(
        r=lora["rank"], lora_alpha=lora["alpha"], target_modules="all-linear", task_type="CAUSAL_LM",
    ),
    args=trl.GRPOConfig(
        output_dir=settings["out"], seed=settings["seed"], max_steps=settings["steps"],
        learning_rate=settings["learningRate"], lr_scheduler_type="constant", weight_decay=0.0, max_grad_norm=1.0,
        beta=0.0, loss_type="dapo", temperature=1.0, num_generations=settings["group"],
        max_completion_length=settings["maxNewTokens"], per_device_train_batch_size=settings["group"],
        gradient_accumulation_steps=settings["prompts"], shuffle_dataset=False,
        use_cpu=True, bf16=False, gradient_checkpointing=False,
        report_to=[], save_strategy="no", disable_tqdm=True, logging_strategy="no",
    ),
    train_dataset=Dataset.from_dict({"prompt": prompts, "index": list(range(len(prompts)))}),
    callbacks=[Steps()],
)
trainer.train()
if lora is not None:
    trainer.model.save_pretrained(settings["out"])
else:
    trainer.model.save_pretrained(settings["out"])
    tokenizer.save_pretrained(settings["out"])
tell(type="end")
