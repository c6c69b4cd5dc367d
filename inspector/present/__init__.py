"""The words of every subject, once: units, tables and styled lines as plain data; no I/O, no user interface."""
