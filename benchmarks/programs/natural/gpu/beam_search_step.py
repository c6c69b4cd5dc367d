"""One beam expansion over a vocabulary with cache reordering."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def beam_step(logits, scores, sequences, lengths, cache, done, eos=2, alpha=0.6):
    batch, beams, vocab = logits.shape
    logp = logits.log_softmax(-1)
    finished = torch.full_like(logp, float("-inf"))
    finished[..., eos] = 0.0
    logp = torch.where(done[..., None], finished, logp)
    total = scores[..., None] + logp
    norm = ((5 + lengths + (~done).long()) / 6.0) ** alpha
    ranked = (total / norm[..., None]).view(batch, -1)
    _, index = ranked.topk(beams, dim=1)
    beam, token = index // vocab, index % vocab
    scores = total.view(batch, -1).gather(1, index)
    sequences = sequences.gather(1, beam[..., None].expand_as(sequences))
    sequences = torch.cat([sequences[..., 1:], token[..., None]], -1)
    cache = cache.gather(1, beam[:, :, None, None].expand_as(cache))
    lengths = lengths.gather(1, beam) + (~done.gather(1, beam)).long()
    done = done.gather(1, beam) | (token == eos)
    return scores, sequences, lengths, cache, done


def build(device, compiled):
    torch.manual_seed(0)
    batch, beams, vocab = pick(32, 2), 8, pick(50_000, 100)
    logits = torch.randn(batch, beams, vocab, device=device)
    scores = -torch.rand(batch, beams, device=device)
    sequences = torch.zeros(batch, beams, 64, dtype=torch.long, device=device)
    lengths = torch.full((batch, beams), 10, device=device)
    cache = torch.randn(batch, beams, pick(128, 4), pick(512, 8), device=device)
    done = torch.rand(batch, beams, device=device) < 0.1
    run = torch.compile(beam_step, backend=BACKEND) if compiled else beam_step

    @torch.no_grad()
    def step():
        return run(logits, scores, sequences, lengths, cache, done)[0]

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
