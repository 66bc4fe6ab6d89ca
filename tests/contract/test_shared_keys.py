"""native/shared_keys.h: its flash attention is attention, whatever the tokens see of the cells."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from typing import Any

import llama_cpp as lib
import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.contract.processor import cpu_library
from tests.walks import examples

F32, F16, Q8_0, BF16 = 0, 1, 8, 30  # enum ggml_type
LONG = 512  # cells from which on a single token is computed by blocks of cells
MOST = 2e-5  # difference to sums of 64 bits; keys and values are rounded before
GUARD, UNTOUCHED = 1 << 16, 0xA5  # bytes behind the work memory, and what is in each
GGMLS_MOST = 2e-4  # the same, where ggml computes it its own way
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """One attention: its sizes, and what tells it from the plainest."""

    tokens: int
    groups: int  # of heads that share keys
    heads: int  # of a group
    size_k: int
    size_v: int
    cells: int
    sees: str
    type_k: int = F16
    type_v: int = F16
    threads: int = 1
    softcap: float = 0.0
    max_bias: float = 0.0
    has_sinks: bool = False
    seed: int = 0
    memory: int = 1  # by what ggml's work memory is divided


def test_llama_cpp_is_built_with_it() -> None:
    assert b"SHARED_KEYS = 1" in lib.llama_print_system_info(), "llama.cpp was not built by make install"


cases = st.builds(
    Case,
    tokens=st.integers(1, 150),
    groups=st.integers(1, 3),
    heads=st.integers(1, 5),
    size_k=st.sampled_from([32, 64, 96, 128, 192]),
    size_v=st.sampled_from([32, 64, 80, 128]),
    cells=st.one_of(st.integers(1, 400), st.integers(LONG, 2 * LONG)),
    sees=st.sampled_from(["all", "before", "window", "beside", "turns", "texts", "own", "mixed", "no mask", "nothing"]),
    type_k=st.sampled_from([F32, F16, BF16, Q8_0]),
    type_v=st.sampled_from([F32, F16, BF16]),
    threads=st.sampled_from([1, 1, 2, 5]),
    softcap=st.sampled_from([0.0, 0.0, 20.0]),
    max_bias=st.sampled_from([0.0, 0.0, 8.0]),
    has_sinks=st.booleans(),
    seed=st.integers(0, 9),
)


@settings(max_examples=examples(100), deadline=None)
@given(cases)
@example(Case(8, 4, 3, 64, 64, 1056, "all"))
@example(Case(32, 2, 3, 64, 64, 512, "beside", threads=2))
@example(Case(32, 2, 3, 64, 64, 512, "own", threads=2))
@example(Case(64, 1, 2, 128, 128, 300, "mixed", has_sinks=True))
@example(Case(3, 1, 16, 576, 512, 130, "before"))
@example(Case(8, 12, 1, 64, 64, 1056, "beside", threads=2))
@example(Case(9, 2, 4, 128, 128, 1056, "own", type_k=Q8_0, threads=5, softcap=20.0, has_sinks=True))
@example(Case(60, 4, 3, 64, 64, 777, "own", threads=2, max_bias=8.0))
@example(Case(4, 1, 5, 576, 512, 600, "own", threads=4))
@example(Case(8, 2, 1, 128, 128, 9000, "own", threads=3, softcap=20.0, has_sinks=True))  # long texts
# Another version of ggml may reserve less memory: then it computes the node its own way.
@example(Case(8, 2, 2, 64, 64, 256, "all", type_k=F32, type_v=F32, memory=8))
@example(Case(40, 2, 2, 64, 64, 256, "mixed", type_k=F32, type_v=F32, threads=2, memory=8))
@example(Case(8, 2, 2, 64, 64, 600, "own", type_k=F32, type_v=F32, threads=2, memory=8))
def test_it_is_attention(case: Case) -> None:
    pick = np.random.default_rng(case.seed)
    q = pick.normal(size=(case.groups * case.heads, case.tokens, case.size_k)).astype(np.float32)
    k = pick.normal(size=(case.groups, case.cells, case.size_k)).astype(np.float32)
    v = pick.normal(size=(case.groups, case.cells, case.size_v)).astype(np.float32)
    sinks = pick.normal(size=case.groups * case.heads).astype(np.float32) if case.has_sinks else None
    mask = None if case.sees == "no mask" else np.where(_visible(case, pick), 0.0, -np.inf).astype(np.float16)
    if mask is None:
        case = replace(case, max_bias=0.0)  # is a factor of the mask
    elif case.max_bias:
        mask += -pick.integers(0, 9, mask.shape).astype(np.float16)
    with Graph() as graph:
        found, k, v = graph.attention(case, q, k, v, mask, sinks)
    expected = _attention(case, q, k, v, mask, sinks)
    most = MOST if case.memory == 1 else GGMLS_MOST
    np.testing.assert_allclose(found, expected, atol=most * max(1.0, float(np.abs(expected).max())), rtol=0)


@settings(max_examples=examples(100), deadline=None)
@given(
    st.integers(2, 40),
    st.integers(1, 3),
    st.sampled_from(["all", "before", "window", "beside", "turns", "texts", "own", "mixed"]),
    st.sampled_from([16, 32, 64, 80, 128]),
    st.one_of(st.integers(1, LONG - 1), st.integers(LONG, 3 * LONG)),
    st.sampled_from([0.0, 20.0, 50.0]),
    st.sampled_from([0.0, 8.0]),
    st.sampled_from([1, 2, 5]),
    st.integers(0, 9),
)
@example(8, 1, "beside", 64, 256, 0.0, 0.0, 1, 0)
@example(8, 2, "beside", 16, 256, 50.0, 0.0, 2, 0)
@example(8, 1, "own", 64, 1200, 0.0, 0.0, 2, 0)
@example(4, 1, "own", 64, 1200, 20.0, 8.0, 5, 0)  # long texts: by blocks of cells
@example(32, 1, "turns", 64, 1200, 0.0, 0.0, 2, 0)  # common cells of all, between those of each
@example(24, 3, "texts", 80, 1300, 20.0, 8.0, 1, 0)
@example(8, 3, "all", 64, 1200, 0.0, 0.0, 2, 0)  # by tiles, and each alone by blocks of cells
@example(40, 3, "own", 128, 1400, 20.0, 8.0, 5, 0)
def test_a_token_among_others_cells_is_what_it_is_alone_and_with_any_threads(
    tokens: int, heads: int, sees: str, size: int, cells: int, softcap: float, max_bias: float, threads: int, seed: int
) -> None:
    case = Case(tokens, 2, heads, size, size, cells, sees, threads=threads, softcap=softcap, max_bias=max_bias)
    pick = np.random.default_rng(seed)
    q = pick.normal(size=(2 * heads, tokens, size)).astype(np.float32)
    k, v = (4 * pick.normal(size=(2, cells, size)).astype(np.float32) for _ in range(2))
    mask = np.where(_visible(case, pick), 0.0, -np.inf).astype(np.float16)
    mask += -pick.integers(0, 9 if max_bias else 1, mask.shape).astype(np.float16)
    with Graph() as graph:
        together, _, _ = graph.attention(case, q, k, v, mask, None)
        for token in {0, tokens - 1} & set(np.flatnonzero(np.isfinite(mask).any(1))):
            seen = np.flatnonzero(np.isfinite(mask[token]))
            one = replace(case, tokens=1, cells=len(seen), threads=1)
            alone, _, _ = graph.attention(one, q[:, [token]], k[:, seen], v[:, seen], mask[[token]][:, seen], None)
            assert np.array_equal(together[token], alone[0])


def _visible(case: Case, pick: np.random.Generator) -> Array:
    """Return which token sees which cell, shape (tokens, cells)."""
    token, cell = np.arange(case.tokens)[:, None], np.arange(case.cells)[None, :]
    last = max(0, case.cells - case.tokens) + token
    beside = cell % case.tokens == token
    match case.sees:
        case "before":
            return cell <= last
        case "window":
            return (cell <= last) & (cell > last - 20)
        case "beside":  # a common beginning, then the cells of branches that were written side by side
            return (cell < case.cells // 2) | beside
        case "turns":  # stretches of a text that all go on from, and between them branches side by side
            return (cell // 64 % 5 == 0) | beside
        case "texts":  # two such texts, each with half of the tokens
            return (cell // 64 % 5 == token * 2 // case.tokens) | beside
        case "own":  # texts that share nothing, one after the other
            return cell * case.tokens // case.cells == token
        case "mixed":
            return pick.random((case.tokens, case.cells)) < pick.random((case.tokens, 1)) ** 4
        case "nothing":
            return np.broadcast_to(cell < 0, (case.tokens, case.cells))
    return np.broadcast_to(cell >= 0, (case.tokens, case.cells))


def _attention(case: Case, q: Array, k: Array, v: Array, mask: Array | None, sinks: Array | None) -> Array:
    """Return attention as it is written down, with 64 bits: shape (tokens, heads, size_v)."""
    num_heads = case.groups * case.heads
    power = 2 ** int(np.log2(num_heads))
    out = np.zeros((case.tokens, num_heads, case.size_v))
    for head in range(num_heads):
        scores = q[head].astype(np.float64) @ k[head // case.heads].T.astype(np.float64) / np.sqrt(case.size_k)
        if case.softcap:
            scores = case.softcap * np.tanh(scores / case.softcap)
        if mask is not None:
            first = 2.0 ** (-case.max_bias / power) if head < power else 2.0 ** (-case.max_bias / 2 / power)
            slope = first ** (head + 1 if head < power else 2 * (head - power) + 1) if case.max_bias else 1.0
            scores = scores + slope * mask.astype(np.float64)
        highest = scores.max(axis=1, keepdims=True)
        if sinks is not None:
            highest = np.maximum(highest, sinks[head])
        weights = np.exp(scores - np.where(np.isinf(highest), 0.0, highest))
        total = weights.sum(axis=1, keepdims=True)
        if sinks is not None:
            total += np.exp(sinks[head] - highest)
        out[:, head] = weights @ v[head // case.heads].astype(np.float64) / np.where(total == 0, 1.0, total)
    return out


class _Params(ctypes.Structure):
    _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


class _Plan(ctypes.Structure):  # ggml_cplan
    _fields_ = [
        *[("work_size", ctypes.c_size_t), ("work_data", ctypes.c_void_p)],
        *[("n_threads", ctypes.c_int), ("threadpool", ctypes.c_void_p)],
        *[("abort_callback", ctypes.c_void_p), ("abort_callback_data", ctypes.c_void_p), ("use_ref", ctypes.c_bool)],
    ]


class Graph:
    """A graph of ggml with one node."""

    def __enter__(self) -> Graph:
        self._lib = lib.llama_cpp._lib
        self._context = self._call("ggml_init", ctypes.c_void_p, _Params(256 << 20, None, False))
        return self

    def __exit__(self, *_: object) -> None:
        self._call("ggml_free", None, self._pointer(self._context))

    def attention(
        self, case: Case, q: Array, k: Array, v: Array, mask: Array | None, sinks: Array | None
    ) -> tuple[Array, Array, Array]:
        """Return what ggml computes, shape (tokens, heads, size_v), and the keys and values as they are stored."""
        context, none = self._pointer(self._context), self._pointer(None)
        arrays = (np.swapaxes(k, 0, 1), case.type_k), (np.swapaxes(v, 0, 1), case.type_v)  # as they lie in the KV store
        tensors = [self._tensor(array, kind) for array, kind in arrays]
        axes = [ctypes.c_int(axis) for axis in (0, 2, 1, 3)]
        keys, values = (
            self._pointer(self._call("ggml_permute", ctypes.c_void_p, context, tensor, *axes)) for tensor in tensors
        )
        node = self._call(
            "ggml_flash_attn_ext", ctypes.c_void_p, context, self._tensor(q, F32), keys, values,
            none if mask is None else self._tensor(mask, F16), ctypes.c_float(case.size_k**-0.5),
            ctypes.c_float(case.max_bias), ctypes.c_float(case.softcap),
        )  # fmt: skip
        if sinks is not None:
            self._call("ggml_flash_attn_ext_add_sinks", None, self._pointer(node), self._tensor(sinks, F32))
        graph = self._pointer(self._call("ggml_new_graph", ctypes.c_void_p, context))
        self._call("ggml_build_forward_expand", None, graph, self._pointer(node))
        plan = self._call("ggml_graph_plan", _Plan, graph, ctypes.c_int(case.threads), none)
        memory = np.full(plan.work_size + GUARD, UNTOUCHED, np.uint8)
        plan.work_data, plan.work_size = memory.ctypes.data, plan.work_size // case.memory
        assert self._call("ggml_graph_compute", ctypes.c_int, graph, ctypes.byref(plan)) == 0
        assert (memory[plan.work_size :] == UNTOUCHED).all(), "it has written beyond the memory that is its own"
        shape = (case.tokens, case.groups * case.heads, case.size_v)
        data = self._call("ggml_get_data", ctypes.c_void_p, self._pointer(node))
        found = np.ctypeslib.as_array((ctypes.c_float * int(np.prod(shape))).from_address(data)).reshape(shape).copy()
        stored = (self._stored(tensor, *array) for tensor, array in zip(tensors, arrays, strict=True))
        return found, *(np.swapaxes(array, 0, 1) for array in stored)

    def _tensor(self, array: Array, kind: int) -> ctypes.c_void_p:
        """Return a tensor with the values of an array, whose last dimension is the tensor's first."""
        sizes = [ctypes.c_int64(size) for size in reversed(array.shape)]
        new = f"ggml_new_tensor_{array.ndim}d"
        tensor = self._pointer(
            self._call(new, ctypes.c_void_p, self._pointer(self._context), ctypes.c_int(kind), *sizes)
        )
        data = self._pointer(self._call("ggml_get_data", ctypes.c_void_p, tensor))
        source = np.ascontiguousarray(array)
        if array.dtype == np.float16 or kind == F32:
            ctypes.memmove(data, source.ctypes.data, source.nbytes)
            return tensor
        numbers = ctypes.c_int64(0), ctypes.c_int64(source.size // array.shape[-1]), ctypes.c_int64(array.shape[-1])
        given = self._pointer(source.ctypes.data), data, *numbers, self._pointer(None)
        self._call("ggml_quantize_chunk", ctypes.c_size_t, ctypes.c_int(kind), *given)
        return tensor

    def _stored(self, tensor: ctypes.c_void_p, like: Array, kind: int) -> Array:
        """Return a tensor's values with 32 bits, in the shape of the array that was stored."""
        shape = like.shape
        data, out = self._call("ggml_get_data", ctypes.c_void_p, tensor), np.zeros(shape, np.float32)
        size = out.size
        if kind == F32:
            return np.ctypeslib.as_array((ctypes.c_float * size).from_address(data)).reshape(shape).copy()
        if kind == F16:
            raw = np.ctypeslib.as_array((ctypes.c_uint16 * size).from_address(data))
            return raw.view(np.float16).astype(np.float32).reshape(shape)
        if kind == BF16:
            raw = np.ctypeslib.as_array((ctypes.c_uint16 * size).from_address(data))
            return (raw.astype(np.uint32) << 16).view(np.float32).reshape(shape)
        blocks = np.dtype([("scale", np.float16), ("values", np.int8, 32)])
        stored = np.frombuffer((ctypes.c_char * (size // 32 * 34)).from_address(data), blocks)
        return (stored["scale"].astype(np.float32)[:, None] * stored["values"]).reshape(shape)

    def _call(self, name: str, returns: Any, *given: Any) -> Any:
        function = getattr(self._lib if hasattr(self._lib, name) else cpu_library(), name)
        function.restype, function.argtypes = returns, None
        return function(*given)

    @staticmethod
    def _pointer(address: int | None) -> ctypes.c_void_p:
        return ctypes.c_void_p(address)
