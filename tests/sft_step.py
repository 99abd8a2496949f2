"""One update of TRL's SFTTrainer on a file of demonstrations: python sft_step.py FILE FOLDER."""

import json
import sys

from datasets import load_dataset
from transformers.utils import logging
from trl import SFTConfig, SFTTrainer

from agentgym.inference.models.tiny import tiny_model, word_tokenizer

CHAT_TEMPLATE = (
    "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "{% for call in message['tool_calls'] or [] %}{{ call['function'] | tojson }}{% endfor %}"
    "<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def main(path: str, folder: str) -> None:
    data = load_dataset("json", data_files=path, split="train", cache_dir=f"{folder}/cache")
    tokenizer = word_tokenizer(message["content"] for row in data for message in row["messages"])
    tokenizer.chat_template = CHAT_TEMPLATE
    language_model = tiny_model("0.1m", tokenizer)
    logging.disable_progress_bar()
    config = SFTConfig(
        output_dir=folder,
        max_steps=1,
        per_device_train_batch_size=2,
        max_length=1024,
        report_to=[],
        save_strategy="no",
        logging_steps=1,
        use_cpu=True,
        bf16=False,
    )
    trainer = SFTTrainer(
        language_model.model, args=config, train_dataset=data, processing_class=language_model.tokenizer
    )
    trainer.train()
    shown = tokenizer.decode(trainer.train_dataset[0]["input_ids"])
    loss = trainer.state.log_history[0]["loss"]
    sys.stdout.write(json.dumps({"columns": data.column_names, "loss": loss, "shown": shown}))


if __name__ == "__main__":
    main(*sys.argv[1:])
