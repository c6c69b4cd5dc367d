"""Inspector's version: the one place that the package, ``--version`` and the wheel have it from."""

__version__ = "0.1.0"
