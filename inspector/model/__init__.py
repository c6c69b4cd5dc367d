"""What a run *is*: frozen plain data, no I/O, standard library only.

One module per subject: `source` (places in files), `problem`, `fx` (FX graphs), `schedule`
(Inductor's IR), `code` (output_code.py), `provenance`, `logs` (TORCH_LOGS), `trace`
(TORCH_TRACE), `run` (a captured program), `links` (what became what), `replay` (re-run results).
"""
