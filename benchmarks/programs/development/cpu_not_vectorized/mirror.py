import torch


@torch.compile
def mirrored_blend(image):
    """Blend every row with its mirror image."""
    return 0.5 * torch.sin(image) + 0.5 * torch.sin(torch.flip(image, (1,)))


image = torch.rand(800, 800)
for _ in range(20):
    mirrored_blend(image)
