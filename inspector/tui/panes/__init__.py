"""The panes of a graph: `table` describes them, `layout` places their views, a module each fills them."""
