"""Trains a small Mixtral mixture-of-experts model with the router load-balancing loss and gradient accumulation in pure bf16."""

import torch
from transformers import MixtralConfig, MixtralForCausalLM


def markov_batch(table, batch, length, gen):
    vocab, fan = table.shape
    state = torch.randint(0, vocab, (batch,), device="cuda", generator=gen)
    picks = torch.randint(0, fan, (length, batch), device="cuda", generator=gen)
    seq = []
    for i in range(length):
        seq.append(state)
        state = table[state, picks[i]]
    return torch.stack(seq, 1)


def main():
    torch.manual_seed(6)
    gen = torch.Generator(device="cuda").manual_seed(6)
    cfg = MixtralConfig(
        vocab_size=8000,
        hidden_size=512,
        intermediate_size=1024,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=4,
        num_local_experts=8,
        num_experts_per_tok=2,
        max_position_embeddings=1024,
        output_router_logits=True,
        router_aux_loss_coef=0.01,
        sliding_window=None,
    )
    model = MixtralForCausalLM(cfg).to("cuda", torch.bfloat16)
    model.train()
    compiled = torch.compile(model)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)
    table = torch.randint(0, cfg.vocab_size, (cfg.vocab_size, 4), device="cuda", generator=gen)
    pool = markov_batch(table, 64, 512, gen)

    accum = 2
    history, aux = [], []
    for step in range(12):
        total = 0.0
        for micro in range(accum):
            rows = torch.randint(0, pool.shape[0], (8,), device="cuda", generator=gen)
            ids = pool[rows]
            out = compiled(input_ids=ids, labels=ids, use_cache=False)
            (out.loss / accum).backward()
            total += out.loss.detach().float() / accum
            aux.append(out.aux_loss.detach().float())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        history.append(total.item())
    print("loss first %.4f last %.4f" % (history[0], history[-1]))
    print("aux loss %.4f" % torch.stack(aux).mean().item())


if __name__ == "__main__":
    main()
