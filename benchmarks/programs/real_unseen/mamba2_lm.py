"""Trains a two-layer Mamba-2 language model from transformers on a synthetic copy-and-count token stream in bf16 autocast."""

import torch
from transformers import Mamba2Config, Mamba2ForCausalLM


def make_batch(batch, length, vocab, gen):
    period = 16
    motif = torch.randint(10, vocab, (batch, period), device="cuda", generator=gen)
    seq = motif.repeat(1, length // period)
    noise = torch.randint(10, vocab, (batch, length), device="cuda", generator=gen)
    flip = torch.rand(batch, length, device="cuda", generator=gen) < 0.05
    return torch.where(flip, noise, seq)


def lr_at(step, total, peak=2e-3, warm=5):
    if step < warm:
        return peak * (step + 1) / warm
    frac = (step - warm) / max(1, total - warm)
    return peak * (1 - 0.9 * frac)


def main():
    torch.manual_seed(5)
    torch.set_float32_matmul_precision("high")
    gen = torch.Generator(device="cuda").manual_seed(5)
    cfg = Mamba2Config(
        vocab_size=4096,
        hidden_size=512,
        num_hidden_layers=2,
        state_size=64,
        expand=2,
        head_dim=64,
        num_heads=16,
        n_groups=1,
        chunk_size=64,
        conv_kernel=4,
        use_cache=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = Mamba2ForCausalLM(cfg).cuda()
    model.train()
    step_model = torch.compile(model)
    decay = [p for p in model.parameters() if p.ndim >= 2]
    no_decay = [p for p in model.parameters() if p.ndim < 2]
    opt = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": no_decay, "weight_decay": 0.0}],
        lr=2e-3,
        betas=(0.9, 0.95),
        fused=True,
    )
    steps = 24
    losses, norms = [], []
    for step in range(steps):
        for group in opt.param_groups:
            group["lr"] = lr_at(step, steps)
        ids = make_batch(8, 512, cfg.vocab_size, gen)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = step_model(input_ids=ids, labels=ids, use_cache=False)
        out.loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))
        opt.step()
        opt.zero_grad(set_to_none=True)
        losses.append(out.loss.detach())
    print("loss %.4f -> %.4f" % (losses[0].item(), losses[-1].item()))
    print("mean grad norm %.4f" % torch.stack(norms).mean().item())


if __name__ == "__main__":
    main()
