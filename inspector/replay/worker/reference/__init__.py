"""What a buffer should hold: FX nodes, loop bodies and operators evaluated in float64."""
