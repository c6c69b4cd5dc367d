import torch


def run_steps(state, steps):
    for i in range(steps):
        state = torch.sin(state) * 0.5 + state
        if i % 10 == 0:
            print("step", i, float(state.mean()))
    return state


simulate = torch.compile(run_steps)
x = torch.randn(1000)
for _ in range(20):
    simulate(x, 40)
