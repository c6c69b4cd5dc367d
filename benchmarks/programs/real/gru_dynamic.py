"""A GRU over batches of changing size and length, with an attribute that counts its steps."""

import torch


class Tagger(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(200, 32)
        self.gru = torch.nn.GRU(32, 32, batch_first=True)
        self.out = torch.nn.Linear(32, 8)
        self.steps = 0

    def forward(self, words):
        self.steps += 1
        hidden, _ = self.gru(self.embed(words))
        return self.out(torch.nn.functional.relu(hidden)) * min(1.0, self.steps / 1000)


torch.manual_seed(0)
model = Tagger()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
step = torch.compile(model)
for batch, length in ((8, 12), (8, 15), (6, 9), (8, 12), (3, 20), (8, 12), (8, 12), (8, 12)):
    words, tags = torch.randint(0, 200, (batch, length)), torch.randint(0, 8, (batch, length))
    loss = torch.nn.functional.cross_entropy(step(words).flatten(0, 1), tags.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(round(loss.item(), 4))
