"""Models of transformers with random weights and tiny configurations: inference, or one step of training.

python tiny_models.py [NAME ...]      all are correct: no verdict may blame a kernel of theirs
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
import transformers as hf
from torch import Tensor

Answer = Callable[[], object]
_TINY = {"vocab_size": 120, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4}
_GPT2 = {"vocab_size": 120, "n_embd": 48, "n_head": 4, "n_positions": 32}


def tokens(*shape: int) -> Tensor:
    return torch.randint(0, 120, shape)


def inference(model: torch.nn.Module, *args: object, **kwargs: object) -> Answer:
    def run() -> object:
        with torch.no_grad():
            return torch.compile(model.eval(), dynamic=False)(*args, **kwargs)

    return run


def training(model: torch.nn.Module, given: Tensor, labels: Tensor, **kwargs: object) -> Answer:
    def run() -> object:
        answer = torch.compile(model.train(), dynamic=False)(given, labels=labels, **kwargs)
        return answer.loss.backward()

    return run


def models() -> dict[str, Callable[[], Answer]]:
    x = tokens(2, 12)
    llama = hf.LlamaConfig(**_TINY, num_hidden_layers=2, num_key_value_heads=2)
    mixtral = hf.MixtralConfig(**_TINY, num_hidden_layers=1, num_key_value_heads=2, num_local_experts=4)
    bert = hf.BertConfig(**_TINY, num_hidden_layers=2)
    whisper = hf.WhisperConfig(
        vocab_size=120, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, num_mel_bins=16,
        max_source_positions=20, max_target_positions=16, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=3,
    )  # fmt: skip
    mamba = hf.MambaConfig(vocab_size=120, hidden_size=32, num_hidden_layers=1, state_size=4)
    deberta = hf.DebertaV2Config(
        **_TINY, num_hidden_layers=1, relative_attention=True, pos_att_type=["p2c", "c2p"]
    )
    wav2vec = hf.Wav2Vec2Config(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48, conv_dim=(16, 16),
        conv_stride=(5, 2), conv_kernel=(10, 3), num_feat_extract_layers=2, num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
    )  # fmt: skip
    return {
        "llama": lambda: inference(hf.LlamaForCausalLM(llama), x, use_cache=False),
        "llama_bf16": lambda: training(hf.LlamaForCausalLM(llama).bfloat16(), x, x, use_cache=False),
        "mixtral": lambda: inference(hf.MixtralForCausalLM(mixtral), x, use_cache=False),
        "gpt2": lambda: training(hf.GPT2LMHeadModel(hf.GPT2Config(**_GPT2, n_layer=2)), x, x),
        "gpt2_half": lambda: training(hf.GPT2LMHeadModel(hf.GPT2Config(**_GPT2, n_layer=1)).half(), x, x),
        "bert": lambda: training(hf.BertForSequenceClassification(bert), x, torch.tensor([0, 1])),
        "whisper": lambda: inference(
            hf.WhisperForConditionalGeneration(whisper),
            torch.randn(1, 16, 40),
            decoder_input_ids=tokens(1, 5),
            use_cache=False,
        ),
        "mamba": lambda: inference(hf.MambaForCausalLM(mamba), tokens(1, 8), use_cache=False),
        "deberta": lambda: inference(hf.DebertaV2Model(deberta), tokens(1, 10)),
        "wav2vec": lambda: inference(hf.Wav2Vec2Model(wav2vec), torch.randn(1, 800)),
    }


def main() -> None:
    torch.manual_seed(0)
    for name, make in models().items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        torch._dynamo.reset()
        try:
            make()()
            print(name, flush=True)
        except Exception as error:
            print(f"{name} failed: {type(error).__name__}: {str(error).splitlines()[:1]}", flush=True)


if __name__ == "__main__":
    main()
