"""Kidney transplant rejection from biopsy slides: TransMIL on patch embeddings with Nystrom attention.

A slide is one bag of patch embeddings (hundreds to more than a thousand); the bag size differs for each slide.
"""

import math

import torch
import torch.nn.functional as F
from nystrom_attention import NystromAttention
from torch import nn

EMBED, DIM, GRADES = 256, 128, 3
SLIDES, EPOCHS = 48, 2


def make_slides(n, gen):
    """Bags with few informative patches: tubulitis and arteritis directions, in proportion to the grade."""
    tubulitis = F.normalize(torch.randn(EMBED, generator=gen), dim=0)
    arteritis = F.normalize(torch.randn(EMBED, generator=gen), dim=0)
    bags = []
    for _ in range(n):
        grade = int(torch.randint(GRADES, (1,), generator=gen))
        size = int(torch.randint(250, 1300, (1,), generator=gen))
        x = torch.randn(size, EMBED, generator=gen)
        share = [0.0, 0.12, 0.12][grade]
        x += 9.0 * (torch.rand(size, 1, generator=gen) < share) * tubulitis
        if grade == 2:
            x += 12.0 * (torch.rand(size, 1, generator=gen) < 0.08) * arteritis
        bags.append((x, torch.tensor([grade])))
    return bags


class TransLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.attn = NystromAttention(
            dim=dim,
            dim_head=dim // 8,
            heads=8,
            num_landmarks=dim // 2,
            pinv_iterations=6,
            residual=True,
            dropout=0.1,
        )

    def forward(self, x):
        return x + self.attn(self.norm(x))


class PPEG(nn.Module):
    """Pyramid position encoding: depthwise convolutions over the patches laid out as a square."""

    def __init__(self, dim):
        super().__init__()
        self.proj = nn.Conv2d(dim, dim, 7, padding=3, groups=dim)
        self.proj1 = nn.Conv2d(dim, dim, 5, padding=2, groups=dim)
        self.proj2 = nn.Conv2d(dim, dim, 3, padding=1, groups=dim)

    def forward(self, x, side):
        cls, patches = x[:, :1], x[:, 1:]
        grid = patches.transpose(1, 2).reshape(x.shape[0], -1, side, side)
        grid = self.proj(grid) + grid + self.proj1(grid) + self.proj2(grid)
        return torch.cat([cls, grid.flatten(2).transpose(1, 2)], dim=1)


class TransMIL(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(EMBED, DIM), nn.ReLU())
        self.cls = nn.Parameter(torch.randn(1, 1, DIM) * 0.02)
        self.layer1 = TransLayer(DIM)
        self.pos = PPEG(DIM)
        self.layer2 = TransLayer(DIM)
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, GRADES)

    def forward(self, bag):
        h = self.embed(bag)[None]
        n = h.shape[1]
        side = math.ceil(math.sqrt(n))
        h = torch.cat([h, h[:, : side * side - n]], dim=1)  # wrap around to fill the square
        h = torch.cat([self.cls.expand(1, -1, -1), h], dim=1)
        h = self.layer1(h)
        h = self.pos(h, side)
        h = self.layer2(h)
        return self.head(self.norm(h)[:, 0])


def evaluate(model, slides):
    model.eval()
    right, margin = 0, 0.0
    with torch.no_grad():
        for bag, grade in slides:
            p = model(bag).softmax(-1)
            right += int(p.argmax() == grade)
            top = p.topk(2).values[0]
            margin += float(top[0] - top[1])
    return right / len(slides), margin / len(slides)


def main():
    torch.manual_seed(2)
    gen = torch.Generator().manual_seed(2)
    slides = make_slides(SLIDES + 16, gen)
    train, test = slides[:SLIDES], slides[SLIDES:]
    sizes = [len(bag) for bag, _ in slides]
    print(f"{len(slides)} slides, {min(sizes)} to {max(sizes)} patches")

    model = torch.compile(TransMIL())
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=1e-4)
    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for i in torch.randperm(len(train), generator=gen).tolist():
            bag, grade = train[i]
            loss = F.cross_entropy(model(bag), grade)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        accuracy, margin = evaluate(model, test)
        print(
            f"epoch {epoch}: loss {total / len(train):.3f}, test accuracy {accuracy:.2f}, margin {margin:.2f}"
        )


if __name__ == "__main__":
    main()
