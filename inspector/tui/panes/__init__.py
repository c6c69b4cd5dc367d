"""The panes of a graph: `table` describes and fills them, `layout` places their views."""
