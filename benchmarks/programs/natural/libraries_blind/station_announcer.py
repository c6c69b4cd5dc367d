"""Text-to-speech for train announcements: a small VITS (transformers) behind a request loop."""

import random

import torch
from transformers import VitsConfig, VitsModel

ALPHABET = "_abcdefghijklmnopqrstuvwxyz ,.'0123456789"
TOWNS = [
    "linden",
    "oakford",
    "st marys",
    "harbour bridge",
    "north quay",
    "elm park",
    "castle hill",
    "mill lane",
    "great western junction",
    "upper ashdown",
]


def build_voice():
    torch.manual_seed(9)
    cfg = VitsConfig(
        vocab_size=len(ALPHABET),
        hidden_size=48,
        num_hidden_layers=3,
        num_attention_heads=2,
        ffn_dim=128,
        flow_size=48,
        spectrogram_bins=129,
        upsample_initial_channel=32,
        upsample_rates=[4, 4, 4],
        upsample_kernel_sizes=[8, 8, 8],
        resblock_kernel_sizes=[3, 5],
        resblock_dilation_sizes=[[1, 3], [1, 3]],
        duration_predictor_filter_channels=48,
        duration_predictor_num_flows=2,
        prior_encoder_num_flows=2,
        prior_encoder_num_wavenet_layers=2,
        posterior_encoder_num_wavenet_layers=2,
        noise_scale_duration=0.3,
        layerdrop=0.0,
    )
    return VitsModel(cfg).eval()


def encode(text):
    ids = [ALPHABET.index(c) for c in text if c in ALPHABET]
    # blanks between the letters, as VITS was trained
    out = [0] * (2 * len(ids) + 1)
    out[1::2] = ids
    return out


def pad_batch(texts):
    seqs = [encode(t) for t in texts]
    longest = max(map(len, seqs))
    ids = torch.zeros(len(seqs), longest, dtype=torch.long)
    mask = torch.zeros(len(seqs), longest, dtype=torch.long)
    for row, s in enumerate(seqs):
        ids[row, : len(s)] = torch.tensor(s)
        mask[row, : len(s)] = 1
    return ids, mask


def announcements(n, seed):
    rng = random.Random(seed)
    for _ in range(n):
        town, via = rng.sample(TOWNS, 2)
        kind = rng.randrange(3)
        if kind == 0:
            yield f"next stop {town}."
        elif kind == 1:
            yield f"train to {town} via {via}, platform {rng.randint(1, 12)}."
        else:
            yield f"the {rng.randint(0, 23)} {rng.randint(10, 59)} to {town} is late."


class Announcer:
    def __init__(self):
        self.voice = build_voice()
        self.synth = torch.compile(self.voice, dynamic=True)

    @torch.inference_mode()
    def speak(self, texts, rate=1.0):
        ids, mask = pad_batch(texts)
        out = self.synth(input_ids=ids, attention_mask=mask, speaking_rate=rate)
        return [w[: int(n)] for w, n in zip(out.waveform, out.sequence_lengths)]


def loudness_normalise(wave, target=0.1):
    rms = wave.pow(2).mean().sqrt().clamp_min(1e-6)
    return (wave * (target / rms)).clamp(-1, 1)


def main():
    announcer = Announcer()
    announcer.speak(["welcome aboard."])  # warm up
    seconds, energy, peak, served = 0.0, 0.0, 0.0, 0
    for text in announcements(50, seed=2):
        for wave in announcer.speak([text]):
            wave = loudness_normalise(wave)
            seconds += len(wave) / announcer.voice.config.sampling_rate
            energy += wave.diff().pow(2).sum().item()
            peak = max(peak, wave.abs().max().item())
            served += 1
    # the evening time table is read out in pairs
    queue = list(announcements(16, seed=3))
    for a, b in zip(queue[::2], queue[1::2]):
        for wave in announcer.speak([a, b]):
            seconds += len(wave) / announcer.voice.config.sampling_rate
            served += 1
    print(f"{served} announcements, {seconds:.2f} s of audio")
    print(f"difference energy {energy:.3f}, peak {peak:.4f}")


if __name__ == "__main__":
    main()
