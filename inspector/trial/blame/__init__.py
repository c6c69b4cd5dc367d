"""What made a difference: the user's command run again with one thing after the other taken back."""
