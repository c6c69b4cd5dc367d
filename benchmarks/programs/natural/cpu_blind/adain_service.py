"""Arbitrary style transfer (AdaIN) behind a small request queue.

Photos come in whatever size the phone app cropped them to; the style
statistics of the gallery are computed once when the service starts.
"""

import queue
import random
import statistics
import threading
import time

import torch
import torch.nn as nn

torch.manual_seed(0)
random.seed(0)


def block(c_in, c_out):
    return nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(c_in, c_out, 3), nn.ReLU())


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 3, 1),
            block(3, 24),
            block(24, 24),
            nn.MaxPool2d(2, ceil_mode=True),
            block(24, 48),
            block(48, 48),
            nn.MaxPool2d(2, ceil_mode=True),
            block(48, 96),
            block(96, 96),
        )

    def forward(self, x):
        return self.net(x)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            block(96, 96),
            block(96, 48),
            nn.Upsample(scale_factor=2, mode="nearest"),
            block(48, 48),
            block(48, 24),
            nn.Upsample(scale_factor=2, mode="nearest"),
            block(24, 24),
            nn.ReflectionPad2d(1),
            nn.Conv2d(24, 3, 3),
        )

    def forward(self, x):
        return self.net(x)


def stats(f, eps=1e-5):
    var, mean = torch.var_mean(f, dim=(2, 3), keepdim=True)
    return mean, (var + eps).sqrt()


class StyleNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = Encoder(), Decoder()
        self.register_buffer("mu", torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1))
        self.register_buffer("sd", torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1))

    def style_code(self, img):
        return stats(self.enc((img - self.mu) / self.sd))

    def forward(self, img_u8, s_mean, s_std, alpha):
        h, w = img_u8.shape[1:3]
        x = img_u8.permute(0, 3, 1, 2).float() / 255
        f = self.enc((x - self.mu) / self.sd)
        m, s = stats(f)
        t = (f - m) / s * s_std + s_mean
        f = alpha * t + (1 - alpha) * f
        y = self.dec(f)[:, :, :h, :w] * self.sd + self.mu
        # keep some of the photo's luminance so that faces stay readable
        lum = (x * x.new_tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)).sum(1, keepdim=True)
        y = 0.85 * y + 0.15 * lum
        return (y.clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous()


def app(requests, n):
    """The clients: crops of different sizes and strengths."""
    sides = [96, 112, 128, 136, 160, 176, 192, 224]
    for i in range(n):
        h, w = random.choice(sides), random.choice(sides)
        photo = torch.randint(0, 256, (1, h, w, 3), dtype=torch.uint8)
        requests.put((i, photo, random.randrange(6), time.perf_counter()))
        time.sleep(0.001)
    requests.put(None)


@torch.no_grad()
def main():
    net = StyleNet().eval()
    gallery = [net.style_code(torch.rand(1, 3, 192, 192)) for _ in range(6)]
    stylize = torch.compile(net)

    requests = queue.Queue(maxsize=4)
    client = threading.Thread(target=app, args=(requests, 220), daemon=True)
    client.start()

    alpha = torch.tensor(0.8)
    work, wait, mpix = [], [], 0.0
    checksum = 0
    while (req := requests.get()) is not None:
        i, photo, style, stamp = req
        t0 = time.perf_counter()
        out = stylize(photo, *gallery[style], alpha)
        t1 = time.perf_counter()
        work.append((t1 - t0) * 1e3)
        wait.append((t1 - stamp) * 1e3)
        mpix += out.shape[1] * out.shape[2] / 1e6
        checksum = (checksum + int(out.sum())) % 1000003
    client.join()
    print(
        f"{len(work)} photos, {mpix:.1f} Mpix, p50 {statistics.median(work):.1f} ms, "
        f"p95 {sorted(work)[int(0.95 * len(work))]:.1f} ms, queue {statistics.median(wait):.1f} ms, "
        f"checksum {checksum}"
    )


if __name__ == "__main__":
    main()
