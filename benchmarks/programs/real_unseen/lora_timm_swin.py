"""Fine-tunes LoRA adapters (peft) on a shallow timm Swin transformer with mixup targets and bf16 autocast, then merges them for evaluation."""

import numpy as np
import timm
import torch
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy


def textures(labels, size, gen):
    n = labels.shape[0]
    t = torch.linspace(0, 1, size, device="cuda")
    yy, xx = torch.meshgrid(t, t, indexing="ij")
    angle = labels.float().view(n, 1, 1) * (3.14159 / 20)
    freq = 20 + 6 * (labels % 5).float().view(n, 1, 1)
    phase = torch.rand(n, 1, 1, device="cuda", generator=gen) * 6.28
    wave = torch.sin(6.28 * freq * (xx * angle.cos() + yy * angle.sin()) + phase)
    img = wave[:, None].repeat(1, 3, 1, 1)
    return img + 0.3 * torch.randn(img.shape, device="cuda", generator=gen)


def main():
    torch.manual_seed(22)
    np.random.seed(22)
    gen = torch.Generator(device="cuda").manual_seed(22)
    base = timm.create_model(
        "swin_tiny_patch4_window7_224",
        pretrained=False,
        num_classes=20,
        depths=(2, 2, 2, 2),
        drop_path_rate=0.0,
    )
    config = LoraConfig(
        r=16,
        lora_alpha=32,
        lora_dropout=0.05,
        target_modules=["qkv", "fc1", "fc2"],
        modules_to_save=["head.fc"],
    )
    model = get_peft_model(base, config).cuda()
    net = torch.compile(model)
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(params, lr=1e-3, weight_decay=0.01)
    mixup = Mixup(mixup_alpha=0.2, cutmix_alpha=0.0, num_classes=20, label_smoothing=0.1)
    criterion = SoftTargetCrossEntropy()

    model.train()
    losses = []
    for step in range(16):
        y = torch.randint(0, 20, (32,), device="cuda", generator=gen)
        x, target = mixup(textures(y, 224, gen), y)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = net(x)
        loss = criterion(out.float(), target)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        losses.append(loss.detach())

    merged = model.merge_and_unload().eval()
    with torch.inference_mode():
        y = torch.randint(0, 20, (64,), device="cuda", generator=gen)
        logits = merged(textures(y, 224, gen))
        ce = F.cross_entropy(logits, y)
    trainable = sum(p.numel() for p in params)
    print("trainable", trainable, "loss %.4f -> %.4f" % (losses[0].item(), losses[-1].item()))
    print("merged eval ce %.4f" % ce.item())


if __name__ == "__main__":
    main()
