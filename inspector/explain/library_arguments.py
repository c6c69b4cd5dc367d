"""Arguments of libraries that take a graph break in the library's own code away.

Each was tried with the version that it names: a usual call breaks the graph there, and not with the argument
(wav2vec2 breaks in other places too, each of which has its own).
"""

from __future__ import annotations

from typing import NamedTuple

from inspector.model.logs import GraphBreak
from inspector.model.source import own_name


class Argument(NamedTuple):
    """`files` end a path of the library, `functions` are those in it that lead to the break, `code` is on the
    line, where a function has several."""

    tried: str
    files: str
    functions: str
    says: str
    code: str = ""


_PYG, _DIFFUSERS, _TRANSFORMERS = "torch_geometric 2.8.1", "diffusers 0.42.1", "transformers 5.23.0"
_TORCHMETRICS, _TORCH = "torchmetrics 1.9.0", "torch 2.13.0"
_LOOPS = "add_self_loops=False, with the loops added to the graph once, before the compiled function"

ARGUMENTS = (
    Argument(_PYG, "nn/pool/glob.py", "global_add_pool global_mean_pool global_max_pool",
             "give the pool size=, the number of graphs in a batch"),
    Argument(_PYG, "nn/norm/graph_norm.py nn/norm/instance_norm.py nn/norm/layer_norm.py", "forward",
             "give the norm batch_size=, the number of graphs in a batch"),
    Argument(_PYG, "nn/aggr/base.py", "__call__", "give the aggregation dim_size=, the number of groups"),
    Argument(_PYG, "nn/conv/gcn_conv.py", "gcn_norm", _LOOPS),
    Argument(_PYG, "nn/conv/gat_conv.py nn/conv/gatv2_conv.py", "forward", _LOOPS),
    Argument(_PYG, "utils/_to_dense_batch.py", "to_dense_batch",
             "give to_dense_batch batch_size= and max_num_nodes="),
    Argument(_PYG, "utils/_softmax.py", "softmax", "give softmax num_nodes=, the number of groups"),
    Argument(_PYG, "utils/_degree.py", "degree", "give degree num_nodes="),
    Argument(_PYG, "utils/loop.py", "add_self_loops", "give add_self_loops num_nodes="),
    Argument(_PYG, "utils/_scatter.py", "scatter", "give scatter dim_size=, the number of groups"),
    Argument(_DIFFUSERS, " ".join(f"schedulers/scheduling_{name}.py" for name in (
                 "deis_multistep", "dpmsolver_multistep", "dpmsolver_singlestep", "euler_ancestral_discrete",
                 "flow_match_euler_discrete", "heun_discrete", "k_dpm_2_discrete", "unipc_multistep")),
             "index_for_timestep",
             "call the scheduler's set_begin_index(0) after set_timesteps, or it searches for its step"),
    Argument(_TORCH, "nn/parallel/distributed.py", "_pre_forward _run_ddp_forward",
             "compile the module before it is wrapped: DistributedDataParallel(torch.compile(module))"),
    Argument(_TORCHMETRICS, "functional/classification/stat_scores.py",
             "_binary_stat_scores_tensor_validation _multilabel_stat_scores_tensor_validation",
             "give the metric validate_args=False, once its inputs are known to be right"),
    Argument(_TRANSFORMERS, "models/mixtral/modeling_mixtral.py", "forward",
             'make the model with experts_implementation="grouped_mm"', "expert_"),
    Argument(_TRANSFORMERS, "models/wav2vec2/modeling_wav2vec2.py", "_mask_hidden_states",
             "make the config with apply_spec_augment=False, and mask outside the compiled function"),
    Argument(_TRANSFORMERS, "models/wav2vec2/modeling_wav2vec2.py", "forward",
             "make the config with layerdrop=0.0: then training leaves no layer out", "skip_the_layer"),
    Argument(_TRANSFORMERS, "models/bart/modeling_bart.py", "forward",
             "make the config with encoder_layerdrop=0.0 and decoder_layerdrop=0.0", "self.layerdrop"),
)  # fmt: skip
"""What the user calls stands before what that calls in turn."""


def cure(broken: GraphBreak) -> str | None:
    """What takes a break away, and the version with which that was tried."""
    for argument in ARGUMENTS:
        package = argument.tried.split()[0]
        ends = tuple(f"/{package}/{file}" for file in argument.files.split())
        for frame in broken.frames:
            function = own_name(frame.function or "")
            there = frame.path.replace("\\", "/").endswith(ends) and function in argument.functions.split()
            if there and argument.code in (frame.code or ""):
                return f"{argument.says} (tried with {argument.tried})"
    return None
