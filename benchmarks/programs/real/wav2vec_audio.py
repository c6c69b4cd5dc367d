"""Features of torchaudio's wav2vec 2.0 for clips of two lengths."""

import torch
import torchaudio

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = torchaudio.models.wav2vec2_base(aux_num_out=32).to(device).eval()
compiled = torch.compile(model)
with torch.inference_mode():
    for step in range(24):
        clip = torch.randn(4, 16000 if step % 2 else 24000, device=device)
        logits, _ = compiled(clip)
print(logits.argmax(-1).float().mean().item())
