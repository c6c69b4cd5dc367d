"""Scores short texts with a RecurrentGemma (Griffin) language model from transformers."""

import time

import torch
from transformers import RecurrentGemmaConfig, RecurrentGemmaForCausalLM

torch.manual_seed(0)
torch.set_num_threads(2)

BATCH, SEQ = 4, 40
WARMUP, ROUNDS = 3, 12


def build():
    config = RecurrentGemmaConfig(
        num_hidden_layers=3,
        vocab_size=2048,
        hidden_size=256,
        intermediate_size=768,
        num_attention_heads=4,
        num_key_value_heads=1,
        lru_width=256,
        attention_window_size=40,
        block_types=("recurrent", "recurrent", "attention"),
        use_cache=False,
    )
    return RecurrentGemmaForCausalLM(config).eval()


def requests(n):
    g = torch.Generator().manual_seed(9)
    for _ in range(n):
        ids = torch.randint(3, 2048, (BATCH, SEQ), generator=g)
        ids[:, 0] = 2
        yield ids


model = build()
forward = torch.compile(model)


@torch.inference_mode()
def score(ids):
    logits = forward(input_ids=ids, use_cache=False).logits
    logp = torch.log_softmax(logits[:, :-1].float(), dim=-1)
    picked = logp.gather(-1, ids[:, 1:, None]).squeeze(-1)
    return picked.mean(dim=1)


def main():
    t0 = time.perf_counter()
    for ids in requests(WARMUP):
        score(ids)
    print(f"warm-up {time.perf_counter() - t0:.1f} s")
    times, nll = [], []
    for ids in requests(ROUNDS):
        t0 = time.perf_counter()
        s = score(ids)
        times.append(time.perf_counter() - t0)
        nll.append(-s)
    times.sort()
    print(f"time per step {times[len(times) // 2] * 1e3:.2f} ms for {BATCH}x{SEQ} tokens")
    print(f"mean nll {torch.cat(nll).mean().item():.4f}")


if __name__ == "__main__":
    main()
