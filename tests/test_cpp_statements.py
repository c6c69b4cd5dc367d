"""Statements of C++ kernels as torch 2.13 writes them for integers in several vectors."""

from inspector.analysis.cpp_statements import cpp_statements

SOURCE = """
{
    auto tmp0 = at::vec::VectorizedN<int64_t,2>::loadu(in_ptr0 + static_cast<int64_t>(x0), 8);
    auto tmp7 = static_cast<int64_t>(747796405);
    auto tmp8 = at::vec::VectorizedN<int64_t,2>(tmp7);
    auto tmp9 = tmp0 ^ tmp8;
    auto tmp10 = remainder_integral(tmp9, tmp8);
    auto tmp11 = decltype(tmp10)(tmp10 ^ tmp9);
    auto tmp12 = tmp11 << tmp8;
    auto tmp13 = tmp12 >> tmp8;
}
"""


def test_integers_in_several_vectors_are_told_apart() -> None:
    kinds = [set(each.kinds) for each in cpp_statements(SOURCE)]
    assert kinds == [set(), set(), set(), {"xor"}, {"remainder"}, {"xor"}, {"lshift"}, {"rshift"}]
