"""Expectation and maximisation for a hidden Markov model of word tags, in log space, over a batch of sentences."""

import torch


def em(log_init, log_trans, log_emit, words):
    b, t = words.shape
    emit = log_emit.T[words]
    alpha = [log_init + emit[:, 0]]
    for k in range(1, t):
        alpha.append(torch.logsumexp(alpha[-1][:, :, None] + log_trans, 1) + emit[:, k])
    beta = [torch.zeros_like(alpha[0])]
    for k in range(t - 2, -1, -1):
        beta.append(torch.logsumexp(log_trans + (emit[:, k + 1] + beta[-1])[:, None, :], 2))
    alpha, beta = torch.stack(alpha, 1), torch.stack(beta[::-1], 1)
    evidence = torch.logsumexp(alpha[:, -1], -1)
    gamma = (alpha + beta - evidence[:, None, None]).exp()
    xi = alpha[:, :-1, :, None] + log_trans + (emit + beta)[:, 1:, None, :] - evidence[:, None, None, None]
    trans = xi.exp().sum((0, 1))
    counts = torch.zeros_like(log_emit).T.index_add(0, words.flatten(), gamma.flatten(0, 1)).T + 1e-3
    return (
        (gamma[:, 0].sum(0) / b).log(),
        (trans / trans.sum(1, keepdim=True)).log(),
        (counts / counts.sum(1, keepdim=True)).log(),
        evidence.mean(),
    )


torch.manual_seed(0)
s, vocab = 12, 2000
params = [torch.log_softmax(torch.randn(*shape), -1) for shape in ((s,), (s, s), (s, vocab))]
words = torch.randint(vocab, (128, 20))
fit = torch.compile(em)
for _ in range(15):
    *params, evidence = fit(*params, words)
print(evidence.item())
