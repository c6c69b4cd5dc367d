"""Generates from a small randomly initialised T5 with a static key-value cache and a compiled forward, for several batches of prompts."""

import torch
from transformers import T5Config, T5ForConditionalGeneration


def build():
    cfg = T5Config(
        vocab_size=8192,
        d_model=512,
        d_kv=64,
        d_ff=1024,
        num_layers=3,
        num_decoder_layers=3,
        num_heads=8,
        feed_forward_proj="gated-gelu",
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=1,
        tie_word_embeddings=False,
    )
    return T5ForConditionalGeneration(cfg)


def make_prompts(batch, length, vocab, gen):
    ids = torch.randint(2, vocab, (batch, length), generator=gen)
    lens = torch.randint(length // 2, length + 1, (batch,), generator=gen)
    mask = (torch.arange(length)[None] < lens[:, None]).long()
    return (ids * mask).cuda(), mask.cuda()


def distinct_ngrams(seqs, n=2):
    grams, total = set(), 0
    for s in seqs.tolist():
        for i in range(len(s) - n + 1):
            grams.add(tuple(s[i : i + n]))
            total += 1
    return len(grams) / total


@torch.inference_mode()
def main():
    torch.manual_seed(4)
    gen = torch.Generator().manual_seed(4)
    model = build().to("cuda", torch.bfloat16).eval()
    model.generation_config.cache_implementation = "static"
    model.forward = torch.compile(model.forward)

    outs = []
    for call in range(12):
        ids, mask = make_prompts(16, 128, model.config.vocab_size, gen)
        out = model.generate(
            input_ids=ids,
            attention_mask=mask,
            do_sample=False,
            max_new_tokens=24,
            min_new_tokens=24,
        )
        outs.append(out.cpu())
    seqs = torch.cat(outs)
    print("generated", tuple(seqs.shape), "checksum", int(seqs.sum()))
    print("distinct bigrams %.4f" % distinct_ngrams(seqs))


if __name__ == "__main__":
    main()
