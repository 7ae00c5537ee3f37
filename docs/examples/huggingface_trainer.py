"""A Hugging Face Trainer with a tiny BERT: one line more makes it a job."""
# ruff: noqa: INP001, D101

import tempfile

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import speedmatrix as sm


class Sentences(Dataset[dict[str, object]]):
    def __len__(self) -> int:
        return 1024

    def __getitem__(self, index: int) -> dict[str, object]:
        words = torch.randint(0, 1000, (64,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": words, "attention_mask": torch.ones_like(words), "labels": index % 2}


config = BertConfig(vocab_size=1000, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
trainer = Trainer(
    model=BertForSequenceClassification(config),
    args=TrainingArguments(output_dir=tempfile.gettempdir(), per_device_train_batch_size=16, report_to=[]),
    train_dataset=Sentences(),
)
job = sm.from_huggingface(trainer)

if __name__ == "__main__":
    trainer.train()
