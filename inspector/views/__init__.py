"""What is shown of a run and of one graph, as plain data, for whoever shows it: screens, or a page."""
