"""A colour table with its gamma applied, looked up for every pixel."""

import torch

torch.manual_seed(0)


def inputs():
    return torch.rand(1024, 4), torch.randint(0, 1024, (1024, 1024))


def step(table, pixels):
    return table.pow(2.2)[pixels] * 255.0


def twin(table, pixels):
    linear = table.pow(2.2)
    return linear.as_strided(linear.shape, linear.stride())[pixels] * 255.0


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
