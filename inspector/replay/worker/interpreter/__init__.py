"""Triton kernels of a GPU on a machine without one."""
