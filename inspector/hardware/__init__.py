"""What a machine can do, measured or from its datasheet, and how much arithmetic an operator asks of it."""
