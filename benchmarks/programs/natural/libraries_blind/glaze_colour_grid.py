"""Predict the fired colour (CIE Lab) of a ceramic glaze from its oxide recipe and firing schedule.

A skorch regressor in a scikit-learn pipeline; width and dropout are chosen by a small grid search, then the
best model screens random candidate recipes for a target celadon green.
"""

import numpy as np
import torch
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetRegressor
from skorch.callbacks import EarlyStopping, LRScheduler
from torch import nn

OXIDES = [
    "SiO2",
    "Al2O3",
    "B2O3",
    "Na2O",
    "K2O",
    "CaO",
    "MgO",
    "ZnO",
    "BaO",
    "TiO2",
    "SnO2",
    "Fe2O3",
    "CoO",
    "CuO",
    "MnO2",
    "Cr2O3",
]
FIRING = ["peak_temp", "soak_min", "cool_rate", "reduction", "thickness"]


def make_recipes(n, rng):
    base = rng.gamma(2.0, 1.0, (n, 11)) * np.array([30, 7, 3, 2, 2, 6, 1.5, 2, 1, 0.8, 0.8])
    colourants = rng.exponential(0.7, (n, 5)) * (rng.random((n, 5)) < 0.4)
    x = np.concatenate([base, colourants], axis=1)
    x = 100 * x / x.sum(axis=1, keepdims=True)
    firing = np.stack(
        [
            rng.normal(1230, 25, n),
            rng.uniform(5, 60, n),
            rng.uniform(40, 180, n),
            rng.random(n),
            rng.gamma(6, 0.08, n),
        ],
        axis=1,
    )
    return np.concatenate([x, firing], axis=1).astype(np.float32)


def fire(x, rng):
    fe, co, cu, mn, cr = x[:, 11:16].T
    red, thick = x[:, 19], x[:, 20]
    melt = 1 / (1 + np.exp(-(x[:, 16] - 1215 + 3 * (x[:, 3] + x[:, 4])) / 12))
    light = 88 - 9 * np.log1p(3 * (fe + mn)) - 22 * np.log1p(4 * co) - 6 * thick * cu + 3 * x[:, 10]
    a = 7 * np.log1p(2 * fe) * (1 - red) - 6 * red * np.tanh(fe) + 11 * cu * (red - 0.5) - 5 * np.tanh(3 * cr)
    b = 10 * np.log1p(fe) * (1 - 0.8 * red) - 25 * np.log1p(5 * co) + 4 * x[:, 9] * melt - 3 * cu
    lab = np.stack([light * (0.9 + 0.1 * melt), a * melt, b * melt], axis=1)
    return (lab + rng.normal(0, 0.8, lab.shape)).astype(np.float32)


class GlazeNet(nn.Module):
    def __init__(self, n_in=len(OXIDES) + len(FIRING), hidden=128, depth=3, dropout=0.1):
        super().__init__()
        layers, width = [], n_in
        for _ in range(depth):
            layers += [nn.Linear(width, hidden), nn.BatchNorm1d(hidden), nn.SiLU(), nn.Dropout(dropout)]
            width = hidden
        self.trunk = nn.Sequential(*layers)
        self.lightness = nn.Linear(hidden, 1)
        self.chroma = nn.Linear(hidden, 2)

    def forward(self, x):
        h = self.trunk(x)
        return torch.cat([50 + 25 * self.lightness(h), 20 * self.chroma(h)], dim=1)


def delta_e(lab, target):
    return np.sqrt(((lab - target) ** 2).sum(axis=1))


def main():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    x = make_recipes(6000, rng)
    y = fire(x, rng)
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.2, random_state=0)

    net = NeuralNetRegressor(
        GlazeNet,
        criterion=nn.HuberLoss,
        optimizer=torch.optim.AdamW,
        lr=3e-3,
        batch_size=128,
        max_epochs=6,
        iterator_train__shuffle=True,
        callbacks=[
            ("early", EarlyStopping(patience=5)),
            ("lr", LRScheduler(policy=torch.optim.lr_scheduler.ExponentialLR, gamma=0.9)),
        ],
        compile=True,
        verbose=0,
    )
    pipe = Pipeline([("scale", StandardScaler()), ("net", net)])
    grid = GridSearchCV(
        pipe,
        {"net__module__hidden": [96, 192], "net__module__dropout": [0.0, 0.15]},
        cv=3,
        scoring="neg_mean_absolute_error",
        refit=True,
        error_score="raise",
    )
    grid.fit(x_train, y_train)
    for params, score in zip(grid.cv_results_["params"], grid.cv_results_["mean_test_score"]):
        print(f"  {params}  MAE {-score:.3f}")

    pred = grid.predict(x_test)
    print(f"best {grid.best_params_}, test median dE {np.median(delta_e(pred, y_test)):.2f}")

    target = np.array([72.0, -7.0, 4.0], dtype=np.float32)
    candidates = make_recipes(40_000, rng)
    lab = grid.predict(candidates)
    order = np.argsort(delta_e(lab, target))[:5]
    for i in order:
        top = np.argsort(-candidates[i, 11:16])[:2]
        names = ", ".join(f"{OXIDES[11 + t]} {candidates[i, 11 + t]:.2f}%" for t in top)
        print(f"  dE {delta_e(lab[i : i + 1], target)[0]:.2f}  {names}, reduction {candidates[i, 19]:.2f}")


if __name__ == "__main__":
    main()
