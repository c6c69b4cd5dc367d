"""Neural Turing machine trained on a priority-recall task: items arrive with a priority, and have to be
given back in the order of their priorities."""

import time

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(7)

BITS = 8
N_SLOTS, WIDTH = 96, 24
CONTROLLER = 128
BATCH = 48
N_ITEMS, N_RECALL = 8, 6
STEPS = 34


class Head(nn.Module):
    def __init__(self, write: bool):
        super().__init__()
        self.write = write
        self.n_addr = WIDTH + 1 + 1 + 3 + 1
        self.fc = nn.Linear(CONTROLLER, self.n_addr + (2 * WIDTH if write else 0))
        nn.init.xavier_uniform_(self.fc.weight, gain=1.2)
        nn.init.normal_(self.fc.bias, std=0.01)

    def address(self, p, memory, w_prev):
        key, beta, gate, shift, gamma = torch.split(p[:, : self.n_addr], [WIDTH, 1, 1, 3, 1], dim=1)
        beta, gate = F.softplus(beta), torch.sigmoid(gate)
        shift, gamma = torch.softmax(shift, dim=1), 1 + F.softplus(gamma)
        sim = F.cosine_similarity(memory, torch.tanh(key).unsqueeze(1), dim=-1, eps=1e-6)
        w_c = torch.softmax(beta * sim, dim=1)
        w_g = gate * w_c + (1 - gate) * w_prev
        w_s = sum(shift[:, k : k + 1] * torch.roll(w_g, k - 1, dims=1) for k in range(3))
        w = (w_s + 1e-8) ** gamma
        return w / w.sum(dim=1, keepdim=True)

    def forward(self, h, memory, w_prev):
        p = self.fc(h)
        w = self.address(p, memory, w_prev)
        if self.write:
            erase = torch.sigmoid(p[:, self.n_addr : self.n_addr + WIDTH])
            add = torch.tanh(p[:, self.n_addr + WIDTH :])
            memory = memory * (1 - w.unsqueeze(2) * erase.unsqueeze(1)) + w.unsqueeze(2) * add.unsqueeze(1)
            return memory, w
        return torch.bmm(w.unsqueeze(1), memory).squeeze(1), w


class NTMCell(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.controller = nn.LSTMCell(n_in + WIDTH, CONTROLLER)
        self.reader, self.writer = Head(False), Head(True)
        self.out = nn.Linear(CONTROLLER + WIDTH, n_out)
        self.mem_bias = nn.Parameter(torch.randn(N_SLOTS, WIDTH) * 0.05)
        self.h0 = nn.Parameter(torch.randn(2, CONTROLLER) * 0.05)

    def initial(self, batch):
        w = torch.zeros(batch, N_SLOTS)
        w[:, 0] = 1.0
        memory = self.mem_bias.expand(batch, -1, -1)
        h, c = self.h0[0].expand(batch, -1), self.h0[1].expand(batch, -1)
        return h, c, memory, w, w.clone(), torch.zeros(batch, WIDTH)

    def forward(self, x, state):
        h, c, memory, wr, ww, read = state
        h, c = self.controller(torch.cat([x, read], dim=1), (h, c))
        memory, ww = self.writer(h, memory, ww)
        read, wr = self.reader(h, memory, wr)
        y = self.out(torch.cat([h, read], dim=1))
        return y, (h, c, memory, wr, ww, read)


def make_batch():
    items = torch.randint(0, 2, (BATCH, N_ITEMS, BITS)).float()
    priority = torch.rand(BATCH, N_ITEMS, 1) * 2 - 1
    order = priority.squeeze(-1).argsort(dim=1, descending=True)[:, :N_RECALL]
    target = torch.gather(items, 1, order.unsqueeze(-1).expand(-1, -1, BITS))
    length = N_ITEMS + 1 + N_RECALL
    x = torch.zeros(BATCH, length, BITS + 2)
    x[:, :N_ITEMS, :BITS] = items
    x[:, :N_ITEMS, BITS : BITS + 1] = priority
    x[:, N_ITEMS, BITS + 1] = 1.0  # the "now answer" flag
    return x, target


def main():
    cell = NTMCell(BITS + 2, BITS)
    step_fn = torch.compile(cell)
    opt = torch.optim.RMSprop(cell.parameters(), lr=3e-3, momentum=0.9, alpha=0.95)
    print("parameters:", sum(p.numel() for p in cell.parameters()))
    t0 = time.perf_counter()
    for it in range(STEPS):
        x, target = make_batch()
        state = cell.initial(BATCH)
        outs = []
        for t in range(x.shape[1]):
            y, state = step_fn(x[:, t], state)
            if t > N_ITEMS:
                outs.append(y)
        logits = torch.stack(outs, dim=1)
        loss = F.binary_cross_entropy_with_logits(logits, target)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_value_(cell.parameters(), 10.0)
        opt.step()
        if it % 8 == 0 or it == STEPS - 1:
            wrong = ((logits > 0).float() != target).float().sum(dim=(1, 2)).mean()
            print(f"iter {it:3d}  loss {loss.item():.4f}  wrong bits per sequence {wrong.item():.2f}")
    print(f"training took {time.perf_counter() - t0:.1f} s")


if __name__ == "__main__":
    main()
