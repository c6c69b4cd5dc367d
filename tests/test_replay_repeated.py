"""What has no formula is compared with itself: random numbers are drawn again, own kernels run once more."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from inspector.replay.worker.kernels.own_kernels import own_kernel  # noqa: E402
from inspector.replay.worker.reference.operator import (  # noqa: E402
    NotRepeatable,
    generator_states,
    repeat,
)
from inspector.replay.worker.reference.philox import integers, normal, philox, repeated, uniform  # noqa: E402

# Of Philox4x32-10 with counter 0 and key 0 (Random123, kat_vectors).
WORDS = (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
ZERO = torch.tensor(0)
SCALE = 4.6566127342e-10


def test_the_words_are_philox_s() -> None:
    assert tuple(int(word) for word in philox((ZERO, ZERO), ZERO)) == WORDS


def test_a_kernel_in_cpp_drops_a_bit_and_one_in_triton_turns_it() -> None:
    """cpp_prefix.h: uint32_to_uniform_float; triton/language/random.py: uint_to_uniform_float."""
    assert float(uniform(ZERO, ZERO, "cpp")) == pytest.approx((WORDS[0] & 0x7FFFFFFF) * SCALE, rel=3e-7)
    four = uniform(ZERO, torch.arange(4), "triton by four")
    wanted = [(word if word < 1 << 31 else 0xFFFFFFFF - word) * SCALE for word in WORDS]
    assert four.tolist() == pytest.approx(wanted, rel=3e-7)


def test_a_cpp_kernel_takes_half_of_a_seed() -> None:
    seed = torch.tensor(7 + (5 << 32))
    assert uniform(seed, ZERO, "cpp") == uniform(torch.tensor(7), ZERO, "cpp")
    assert uniform(seed, ZERO, "triton") != uniform(torch.tensor(7), ZERO, "triton")


def test_normal_numbers_are_those_of_box_and_muller() -> None:
    first, second = (1 - (word & 0x7FFFFFFF) * SCALE for word in WORDS[:2])
    wanted = math.sqrt(-2 * math.log(first)) * math.cos(2 * math.pi * second)
    got = normal(ZERO, ZERO, "cpp", lambda _, value: value)
    assert float(got) == pytest.approx(wanted, rel=1e-5)


def test_integers_are_64_unsigned_bits_modulo_the_range() -> None:
    wanted = (WORDS[0] | WORDS[1] << 32) % 1000 - 500
    assert int(integers(ZERO, ZERO, torch.tensor(-500), torch.tensor(500), "cpp")) == wanted
    with pytest.raises(ValueError, match="31 bits"):
        integers(ZERO, ZERO, torch.tensor(0), torch.tensor(1 << 40), "cpp")


def test_numbers_by_four_are_known_where_offsets_follow_each_other() -> None:
    whole = uniform(ZERO, torch.arange(12), "triton by four")
    assert torch.equal(uniform(ZERO, torch.arange(4, 12), "triton by four"), whole[4:])
    with pytest.raises(ValueError, match="do not follow"):
        uniform(ZERO, torch.arange(12).flip(0), "triton by four")


CPP = "aten.randint.low_out(-9223372036854775808, 9223372036854775807, [1], out=buf0)\nnormalized_rand_cpu("


@pytest.mark.parametrize(
    ("random", "text", "known"),
    [
        ({"prims.inductor_seeds", "prims.inductor_random"}, CPP, True),
        ({"prims.inductor_random"}, "tl.rand(tmp0, tmp1)", True),
        (set(), CPP, False),
        ({"prims.inductor_seeds", "aten.randperm"}, CPP + "tmp0); randperm.default(7)", True),
        ({"prims.inductor_seeds", "aten.randperm"}, "randperm.default(7)\n" + CPP, False),
        ({"prims.inductor_seeds"}, CPP + CPP, False),
        ({"prims.inductor_random"}, "triton_helpers.rand4x(tmp0, tmp1, XBLOCK)", False),
        ({"prims.inductor_random"}, "tl.rand(tmp0, tmp1) normalized_rand_cpu(", False),
    ],
)
def test_a_graph_draws_as_its_code_where_all_of_it_is_known(random: set[str], text: str, known: bool) -> None:
    assert bool(repeated(random, text, 0)) == known


def test_operators_that_draw_are_repeated_from_the_same_state() -> None:
    bernoulli, given = torch.ops.aten.bernoulli.default, (torch.full((50,), 0.5),)
    before = generator_states()
    drawn = bernoulli(*given)
    behind = torch.rand(3)
    torch.set_rng_state(before[0])
    bernoulli(*given)
    again = repeat(bernoulli, given, {}, wide=True, generators=before)
    assert torch.equal(again, drawn.double())
    assert torch.equal(torch.rand(3), behind), "the generator goes on from where it was"
    with pytest.raises(NotRepeatable, match="random"):
        repeat(bernoulli, given, {}, wide=False)


def test_an_own_kernel_runs_on_copies_that_share_memory_as_its_arguments_do() -> None:
    whole = torch.arange(6.0)
    part = whole[2:4]
    kernel = own_kernel(((whole, 3, part), {}), {"buf0": whole, "buf1": 5})
    first, second = kernel.arguments
    second += 10
    assert first.tolist() == kernel.outputs["buf0"].tolist() == [0, 1, 12, 13, 4, 5]
    assert whole.tolist() == [0, 1, 2, 3, 4, 5] and "buf1" not in kernel.outputs
