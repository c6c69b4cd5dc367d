"""A run as an archive for somebody else: private names replaced, binaries and caches left out."""
