"""The user's command run again with a change, to see what it wins. Executes that command."""
