"""Inspector: what `torch.compile` did to a program, and why it is or isn't fast."""

__version__ = "0.1.0"
