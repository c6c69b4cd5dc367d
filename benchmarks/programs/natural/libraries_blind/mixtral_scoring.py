"""Score token sequences with a small randomly initialised Mixtral (sparse mixture of experts)."""

import time

import torch
import torch.nn.functional as F
from transformers import MixtralConfig, MixtralForCausalLM


def build_model():
    config = MixtralConfig(
        vocab_size=1024,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=4,
        num_local_experts=8,
        num_experts_per_tok=2,
        max_position_embeddings=512,
        sliding_window=None,
        use_cache=False,
    )
    return MixtralForCausalLM(config).eval()


def make_corpus(n, length, vocab, generator):
    """Sequences from a sparse random bigram model."""
    successors = torch.randint(3, vocab, (vocab, 4), generator=generator)
    ids = torch.empty(n, length, dtype=torch.long)
    ids[:, 0] = torch.randint(3, vocab, (n,), generator=generator)
    for t in range(1, length):
        pick = torch.randint(0, 4, (n,), generator=generator)
        ids[:, t] = successors[ids[:, t - 1], pick]
    return ids


@torch.inference_mode()
def score(model, ids):
    logits = model(input_ids=ids).logits
    logp = F.log_softmax(logits[:, :-1].float(), dim=-1)
    token_logp = logp.gather(-1, ids[:, 1:, None]).squeeze(-1)
    return token_logp.mean(dim=-1)


def main():
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(7)
    model = build_model()
    n_params = sum(p.numel() for p in model.parameters())
    corpus = make_corpus(128, 96, model.config.vocab_size, g)
    reference = score(model, corpus[:4])

    compiled = torch.compile(model)
    for i in range(5):
        score(compiled, corpus[4 * i : 4 * i + 4])

    results, times = [], []
    for epoch in range(2):
        for start in range(0, len(corpus), 4):
            batch = corpus[start : start + 4]
            t0 = time.perf_counter()
            results.append(score(compiled, batch))
            times.append(time.perf_counter() - t0)

    scores = torch.cat(results)
    torch.testing.assert_close(scores[:4], reference, rtol=1e-3, atol=1e-3)
    times.sort()
    print(f"{n_params / 1e6:.1f} M parameters, mean log-probability {scores.mean():.4f}")
    print(
        f"median {1e3 * times[len(times) // 2]:.2f} ms, mean {1e3 * sum(times) / len(times):.2f} ms per batch"
    )


if __name__ == "__main__":
    main()
