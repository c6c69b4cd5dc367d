"""Widgets: they draw view models and report what the user does; they hold no knowledge of torch."""
