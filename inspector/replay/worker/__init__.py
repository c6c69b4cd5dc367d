"""The child that runs a graph's code: the part of replay that imports torch. Importing this file does not.

The way of one launch through the sub-packages:

    main          reads the request, decides whether Triton's interpreter stands in for a GPU
    state         sets torch as it was in the run
    replay        one graph: code, inputs, the graph as a whole, then kernel by kernel
      code        loads output_code.py and the FX graph; `launches` hands every launch to a hook
      inputs      makes the arguments: kept ones, what the forward graph saved, or made up by their roles
      kernels     the hook: what the launch reads and writes, runs it, checks it, times it
        reference what it should have given: its FX nodes or its loop body in float64
        compare   compiled and eager against that reference
        timing    how long it takes, run again and again
      interpreter runs a Triton kernel on the CPU, watching its memory
    events        what is said to the parent
"""
