"""torchaudio's Conformer encoder with lengths, training mode off."""

import torch
import torchaudio

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = (
    torchaudio.models.Conformer(
        input_dim=144, num_heads=4, ffn_dim=576, num_layers=6, depthwise_conv_kernel_size=31
    )
    .to(device)
    .eval()
)
compiled = torch.compile(model)
x = torch.randn(8, 400, 144, device=device)
lengths = torch.randint(200, 400, (8,), device=device)
lengths[0] = 400
with torch.no_grad():
    for _ in range(30):
        out, n = compiled(x, lengths)
print(out.mean().item())
