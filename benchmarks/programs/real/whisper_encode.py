"""Whisper's encoder of transformers on mel features, half precision."""

import torch
from transformers import WhisperConfig, WhisperModel

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
config = WhisperConfig(
    d_model=384,
    encoder_layers=4,
    encoder_attention_heads=6,
    encoder_ffn_dim=1536,
    decoder_layers=2,
    decoder_attention_heads=6,
    decoder_ffn_dim=1536,
)
encoder = WhisperModel(config).get_encoder().to(device).half().eval()
encoder = torch.compile(encoder, mode="reduce-overhead")
mel = torch.randn(4, 80, 3000, device=device, dtype=torch.half)
with torch.inference_mode():
    for _ in range(25):
        out = encoder(mel).last_hidden_state.clone()
print(out.float().mean().item())
