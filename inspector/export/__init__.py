"""A run as one HTML file that needs nothing else, for an issue or a colleague without the tool."""
