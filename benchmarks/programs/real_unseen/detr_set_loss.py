"""Trains a small DETR-like set-prediction detector with Hungarian matching on synthetic rectangles, with a frozen timm backbone."""

import timm
import torch
import torch.nn as nn
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment
from torchvision.ops import box_convert, generalized_box_iou


class MiniDETR(nn.Module):
    def __init__(self, classes=10, queries=50, d=256):
        super().__init__()
        self.backbone = timm.create_model(
            "mobilenetv3_large_100", pretrained=False, features_only=True, out_indices=(4,)
        )
        self.proj = nn.Conv2d(self.backbone.feature_info.channels()[-1], d, 1)
        enc = nn.TransformerEncoderLayer(d, 8, 1024, dropout=0.0, batch_first=True, norm_first=True)
        dec = nn.TransformerDecoderLayer(d, 8, 1024, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(enc, 2, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(dec, 2, norm=nn.LayerNorm(d))
        self.query = nn.Parameter(torch.randn(queries, d) * 0.02)
        self.row = nn.Parameter(torch.rand(32, d // 2))
        self.col = nn.Parameter(torch.rand(32, d // 2))
        self.cls = nn.Linear(d, classes + 1)
        self.box = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d), nn.ReLU(), nn.Linear(d, 4))

    def forward(self, img):
        f = self.proj(self.backbone(img)[0])
        b, _, h, w = f.shape
        pos = torch.cat(
            [self.col[:w].unsqueeze(0).expand(h, -1, -1), self.row[:h].unsqueeze(1).expand(-1, w, -1)], -1
        ).flatten(0, 1)
        mem = self.encoder(f.flatten(2).transpose(1, 2) + pos)
        hs = self.decoder(self.query.expand(b, -1, -1), mem)
        return self.cls(hs), self.box(hs).sigmoid()


def draw(batch, size, gen):
    imgs = torch.randn(batch, 3, size, size, generator=gen) * 0.1
    targets = []
    for i in range(batch):
        n = int(torch.randint(2, 9, (1,), generator=gen))
        labels = torch.randint(0, 10, (n,), generator=gen)
        wh = torch.rand(n, 2, generator=gen) * 0.3 + 0.08
        c = wh / 2 + torch.rand(n, 2, generator=gen) * (1 - wh)
        boxes = torch.cat([c, wh], 1)
        for lab, (x1, y1, x2, y2) in zip(
            labels, (box_convert(boxes, "cxcywh", "xyxy") * size).long().tolist()
        ):
            imgs[i, int(lab) % 3, y1:y2, x1:x2] += 0.3 * (int(lab) + 1)
        targets.append((labels.cuda(), boxes.cuda()))
    return imgs.cuda(), targets


def giou(a, b):
    return generalized_box_iou(box_convert(a, "cxcywh", "xyxy"), box_convert(b, "cxcywh", "xyxy"))


def set_loss(logits, boxes, targets):
    prob = logits.softmax(-1)
    tgt_cls = torch.full(logits.shape[:2], logits.shape[-1] - 1, device=logits.device)
    l1 = gi = 0.0
    count = sum(len(t[0]) for t in targets)
    for i, (lab, box) in enumerate(targets):
        with torch.no_grad():
            cost = -prob[i][:, lab] + 5 * torch.cdist(boxes[i], box, p=1) - 2 * giou(boxes[i], box)
            r, c = linear_sum_assignment(cost.float().cpu().numpy())
        r, c = torch.as_tensor(r, device="cuda"), torch.as_tensor(c, device="cuda")
        tgt_cls[i, r] = lab[c]
        l1 = l1 + F.l1_loss(boxes[i, r], box[c], reduction="sum")
        gi = gi + (1 - giou(boxes[i, r], box[c]).diagonal()).sum()
    weight = torch.ones(logits.shape[-1], device=logits.device)
    weight[-1] = 0.1
    return F.cross_entropy(logits.transpose(1, 2), tgt_cls, weight=weight) + (5 * l1 + 2 * gi) / count


def main():
    torch.manual_seed(7)
    gen = torch.Generator().manual_seed(7)
    model = MiniDETR().cuda()
    model.backbone.requires_grad_(False)
    net = torch.compile(model)
    opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-4, weight_decay=1e-4)
    losses = []
    for _ in range(16):
        imgs, targets = draw(16, 384, gen)
        loss = set_loss(*net(imgs), targets)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        opt.step()
        losses.append(loss.item())
    print("set loss %.4f -> %.4f" % (losses[0], losses[-1]))


if __name__ == "__main__":
    main()
