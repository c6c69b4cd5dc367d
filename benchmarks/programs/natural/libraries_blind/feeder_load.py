"""Day-ahead load forecasts for distribution feeders with an Autoformer.

Hourly load of 200 synthetic feeders: daily and weekly cycles, temperature
response and noise. The model sees one week of context (plus lags) and
predicts the following 24 hours as a Student-t distribution.
"""

import time

import torch
from transformers import AutoformerConfig, AutoformerForPrediction

torch.manual_seed(2024)

N_FEEDERS = 200
HOURS = 24 * 7 * 16
CONTEXT = 24 * 5
HORIZON = 24
BATCH = 16
LAGS = [1, 2, 24, 48, 168]


def synthetic_load():
    t = torch.arange(HOURS).float()
    phase = torch.rand(N_FEEDERS, 1) * 4 - 2
    daily = torch.sin(2 * torch.pi * (t + phase - 9) / 24) + 0.4 * torch.sin(4 * torch.pi * (t + phase) / 24)
    weekend = ((t // 24) % 7 >= 5).float()
    temperature = (
        10 + 8 * torch.sin(2 * torch.pi * t / (24 * 90)) + 4 * torch.sin(2 * torch.pi * (t - 14) / 24)
    )
    heating = torch.rand(N_FEEDERS, 1) * torch.relu(15 - temperature) * 0.1
    scale = torch.exp(torch.randn(N_FEEDERS, 1) * 0.5 + 3)
    noise = torch.randn(N_FEEDERS, HOURS) * 0.1
    load = scale * (3 + daily * (1 - 0.3 * weekend) + heating + noise).clamp(min=0.1)
    features = torch.stack(
        [
            (t % 24) / 23 - 0.5,
            ((t // 24) % 7) / 6 - 0.5,
            weekend,
            (temperature - 10) / 10,
        ],
        dim=-1,
    )
    return load, features


load, features = synthetic_load()
past_length = CONTEXT + max(LAGS)


def sample_batch(last_hour):
    feeder = torch.randint(N_FEEDERS, (BATCH,))
    start = torch.randint(0, last_hour - past_length - HORIZON, (BATCH,))
    idx = start[:, None] + torch.arange(past_length + HORIZON)
    values = load[feeder[:, None], idx]
    time_feat = features[idx]
    return dict(
        past_values=values[:, :past_length],
        past_time_features=time_feat[:, :past_length],
        past_observed_mask=torch.ones(BATCH, past_length),
        static_categorical_features=feeder[:, None],
        future_values=values[:, past_length:],
        future_time_features=time_feat[:, past_length:],
    )


config = AutoformerConfig(
    prediction_length=HORIZON,
    context_length=CONTEXT,
    lags_sequence=LAGS,
    num_time_features=features.shape[-1],
    num_static_categorical_features=1,
    cardinality=[N_FEEDERS],
    embedding_dimension=[8],
    d_model=64,
    encoder_layers=2,
    decoder_layers=1,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=128,
    decoder_ffn_dim=128,
    label_length=HORIZON,
    moving_average=25,
    dropout=0.05,
)
model = AutoformerForPrediction(config)
model.train()
compiled = torch.compile(model)

optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, weight_decay=0.1)
TRAIN_END = HOURS - 24 * 21

print(f"{sum(p.numel() for p in model.parameters()) / 1e3:.0f}k parameters")
t0 = time.perf_counter()
for step in range(60):
    batch = sample_batch(TRAIN_END)
    loss = compiled(**batch).loss
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 10 == 9:
        print(f"step {step + 1:3d}  nll {loss.item():.4f}  ({time.perf_counter() - t0:.1f} s)")

model.eval()
with torch.no_grad():
    nll = 0.0
    for _ in range(5):
        nll += model(**sample_batch(HOURS)).loss.item()
print(f"validation nll {nll / 5:.4f}")
