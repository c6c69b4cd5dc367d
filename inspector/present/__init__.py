"""The words of every subject, once: units, tables and styled lines as plain data. No I/O, no widgets."""
