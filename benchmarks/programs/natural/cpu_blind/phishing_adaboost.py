"""AdaBoost with decision stumps on a synthetic table of phishing-page features, written with tensors.

The columns are sorted once.  In every round the weighted error of all thresholds of all columns is found with a
cumulative sum along the sorted samples.
"""

import torch

torch.manual_seed(11)

N_TRAIN, N_TEST, N_FEATURES = 16_000, 6_000, 64
ROUNDS = 260


def make_pages(n, gen):
    """URL lengths, counts of dots, ages of domains...: some continuous columns, some small integers."""
    x = torch.randn(n, N_FEATURES, generator=gen)
    x[:, 20:40] = torch.floor(x[:, 20:40].abs() * 3)
    x[:, 40:52] = (x[:, 40:52] > 0.8).float()
    logit = (
        1.3 * (x[:, 0] > 0.4).float()
        - 1.1 * (x[:, 3] < -0.2).float()
        + 0.35 * x[:, 22]
        + 1.5 * x[:, 41] * (x[:, 1] > 0).float()
        - 0.8 * x[:, 7].abs()
        + 0.6 * torch.sin(2 * x[:, 12])
        - 0.7
    )
    y = torch.where(torch.rand(n, generator=gen) < torch.sigmoid(2.0 * logit), 1.0, -1.0)
    return x, y


class StumpBooster:
    def __init__(self, rounds, shrinkage=1.0):
        self.rounds = rounds
        self.shrinkage = shrinkage
        self.stumps = []

    def prepare(self, x, y):
        columns = x.t().contiguous()  # (features, samples)
        self.sorted_x, self.order = torch.sort(columns, dim=1)
        self.sorted_y = y[self.order]
        # a cut after position i is possible only where the value changes
        gap = torch.zeros_like(self.sorted_x, dtype=torch.bool)
        gap[:, :-1] = self.sorted_x[:, 1:] > self.sorted_x[:, :-1]
        self.can_cut = gap

    @staticmethod
    @torch.compile
    def find_stump(weights, order, sorted_y, can_cut):
        wy = weights[order] * sorted_y
        left = torch.cumsum(wy, dim=1)  # signed weight at or below the cut
        total = left[:, -1:]
        # stump "+1 above, -1 below" has the edge total - 2 left; the other polarity its negative
        edge = torch.where(can_cut, total - 2 * left, 0.0)
        strength = edge.abs().flatten()
        best = strength.argmax()
        return best, edge.flatten()[best]

    @staticmethod
    @torch.compile
    def reweight(weights, y, prediction, alpha):
        w = weights * torch.exp(-alpha * y * prediction)
        return w / w.sum()

    def fit(self, x, y):
        self.prepare(x, y)
        n = x.shape[0]
        weights = torch.full((n,), 1.0 / n)
        for t in range(self.rounds):
            best, edge = self.find_stump(weights, self.order, self.sorted_y, self.can_cut)
            feature, position = divmod(best.item(), n)
            threshold = 0.5 * (self.sorted_x[feature, position] + self.sorted_x[feature, position + 1])
            polarity = torch.sign(edge)
            error = (0.5 * (1 - edge.abs())).clamp(1e-6, 1 - 1e-6)
            alpha = self.shrinkage * 0.5 * torch.log((1 - error) / error)
            prediction = polarity * torch.where(x[:, feature] > threshold, 1.0, -1.0)
            weights = self.reweight(weights, y, prediction, alpha)
            self.stumps.append((feature, threshold.item(), polarity.item(), alpha.item()))
            if t % 65 == 0:
                print(
                    f"round {t:4d}  column {feature:3d}  threshold {threshold:8.3f}  weighted error {error:.4f}"
                )
        return self

    def decision(self, x):
        score = torch.zeros(x.shape[0])
        for feature, threshold, polarity, alpha in self.stumps:
            score += alpha * polarity * torch.where(x[:, feature] > threshold, 1.0, -1.0)
        return score


def main():
    gen = torch.Generator().manual_seed(5)
    x, y = make_pages(N_TRAIN, gen)
    x_test, y_test = make_pages(N_TEST, gen)
    model = StumpBooster(ROUNDS).fit(x, y)
    for name, a, b in (("train", x, y), ("test", x_test, y_test)):
        score = model.decision(a)
        accuracy = (torch.sign(score) == b).float().mean()
        loss = torch.exp(-score * b).mean()
        print(f"{name}: accuracy {accuracy:.4f}  exponential loss {loss:.4f}")
    used = sorted({s[0] for s in model.stumps})
    print(f"{len(used)} columns used, first: {used[:10]}")


if __name__ == "__main__":
    main()
