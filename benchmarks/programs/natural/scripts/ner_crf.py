"""Sequence tagging: windowed convolution and a CRF, batches padded to their longest sentence."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Tagger(nn.Module):
    def __init__(self, vocab=5000, dim=96, tags=17):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.conv1 = nn.Conv1d(dim, dim, 3, padding=1)
        self.conv2 = nn.Conv1d(dim, dim, 3, padding=1)
        self.out = nn.Linear(dim, tags)
        self.trans = nn.Parameter(torch.randn(tags, tags) * 0.1)

    def emissions(self, words):
        x = F.dropout(self.emb(words), 0.3, self.training).transpose(1, 2)
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x)) + x
        return self.out(x.transpose(1, 2))

    def forward(self, words, tags):
        e = self.emissions(words)
        mask = words != 0
        gold = e[:, 0].gather(1, tags[:, :1]).squeeze(1)
        alpha = e[:, 0]
        for t in range(1, words.shape[1]):
            m = mask[:, t]
            step = e[:, t].gather(1, tags[:, t : t + 1]).squeeze(1) + self.trans[tags[:, t - 1], tags[:, t]]
            gold = gold + step * m
            new = torch.logsumexp(alpha[:, :, None] + self.trans[None], 1) + e[:, t]
            alpha = torch.where(m[:, None], new, alpha)
        return (torch.logsumexp(alpha, 1) - gold).mean()


torch.manual_seed(0)
model = Tagger()
step = torch.compile(model)
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for it in range(30):
    longest = [24, 24, 24, 20][it % 4] if it < 12 else 24
    words = torch.randint(1, 5000, (32, longest))
    lengths = torch.randint(5, longest + 1, (32,))
    lengths[0] = longest
    words[torch.arange(longest)[None] >= lengths[:, None]] = 0
    tags = torch.randint(0, 17, (32, longest))
    loss = step(words, tags)
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    opt.step()
print(loss.item())
