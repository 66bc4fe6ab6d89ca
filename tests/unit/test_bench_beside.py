"""What `bench.tables` reads of others: ik_llama.cpp's table, perf's samples, and the sizes of a model's weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader, dequantize

from bench import batched_bench, machine, where
from bench.tables import Side
from srb.bench.client import BenchFailed
from tests.models.random_gguf import BENCH_1B_Q4_K_M, Shape, write_llama

TABLE = """
main: n_kv_max = 2560, n_batch = 2048, n_ubatch = 512, flash_attn = 1

|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |
|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|
|   512 |     64 |    8 |   1024 |    0.251 |  2039.84 |    0.750 |   682.67 |    1.001 |  1022.98 |

llama_print_timings: load time = 100.00 ms
"""


def test_the_seconds_of_a_prompt_and_of_branches_are_read_from_the_table() -> None:
    assert batched_bench.rows_of(TABLE) == [batched_bench.Bare(0.251, 0.75)]


@pytest.mark.parametrize("output", ["", "error: unable to load model", "| model | size |\n|---|---|\n| llama | 1 |"])
def test_output_without_the_table_is_no_measure(output: str) -> None:
    with pytest.raises(BenchFailed, match="no table"):
        batched_bench.rows_of(output)


def test_a_program_that_fails_is_named_with_its_last_line(tmp_path: Path) -> None:
    program = tmp_path / "bench"
    program.write_text(
        "#!/bin/sh\necho '|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s |'\necho no room\nexit 1\n"
    )
    program.chmod(0o755)
    with pytest.raises(BenchFailed, match="ended with 1 and 0 rows: no room"):
        batched_bench.run(program, tmp_path / "model.gguf", 512, 8, 64, threads=2)


def test_of_the_bare_models_steps_one_is_left_out_as_a_server_s_first_token_is_its_prompt_s(tmp_path: Path) -> None:
    program = tmp_path / "bench"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{TABLE}\nEND\n")
    program.chmod(0o755)
    side = Side.bare(program, tmp_path / "model.gguf", tokens=4)
    assert side.prompt() == 0.251
    assert side.decode(8) == pytest.approx(0.75 * 3 / 4)


def test_an_address_between_two_names_is_before_the_next_one() -> None:
    library = where.Library(Path("libggml-cpu.so"), 1000, [(10, 20, "first"), (100, 50, "last")])
    names = [library.name_at(1000 + offset) for offset in (9, 10, 29, 30, 99, 100, 149, 500)]
    assert names == ["before first", "first", "first", "before last", "before last", "last", "last", "last"]


@pytest.mark.parametrize(
    ("file", "name", "part"),
    [
        ("/x/libggml-cpu.so", "before srb_mul_mat_size", "products"),
        ("/x/libggml-cpu.so", "ggml_compute_forward_add_non_quantized", "other operations"),
        ("/x/libggml-cpu.so", "before ggml_compute_forward_dup", "attention"),
        ("/x/libggml-cpu.so", "ggml_compute_forward_dup", "other operations"),
        ("/x/libggml-cpu.so", "srb::Piece::multiply_tile(float const*, int)", "attention"),
        ("/x/libggml-cpu.so", "ggml_barrier", "barriers"),
        ("/x/libggml-cpu.so", "ggml_compute_forward_rms_norm", "other operations"),
        ("/usr/lib/libgomp.so.1.0.0", "", "barriers"),
        ("/x/libllama.so", "llama_sampler_sample", "sampling"),
        ("/x/libllama.so", "llama_decode", "llama_decode around them"),
        ("/usr/bin/python3.11", "", "Python"),
        ("[kernel.kallsyms]", "", "system"),
    ],
)
def test_a_sample_belongs_to_the_part_of_its_function(file: str, name: str, part: str) -> None:
    assert where.part_of(file, name) == part


def test_the_decode_thread_is_the_one_that_is_in_libllama() -> None:
    computing = [where.Sample(7, 0.0, 0, "/x/libggml-cpu.so")] * 9
    assert where.decode_thread([*computing, where.Sample(8, 0.0, 0, "/x/libllama.so")]) == 8
    with pytest.raises(BenchFailed, match="no thread"):
        where.decode_thread(computing)


def test_a_token_reads_all_layers_and_the_vocabulary_once(tmp_path: Path) -> None:
    shape = Shape(dim=64, layers=2, heads=4, kv_heads=2, ffn=128, vocab=512)
    weights = machine.weights_of(write_llama(tmp_path / "model.gguf", shape))
    products = 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128)
    assert weights.products == products
    assert weights.bytes == 4 * (products + 2 * 2 * 64 + 512 * 64)


def test_random_bits_in_q4_k_m_are_numbers_of_the_scale_of_others(tmp_path: Path) -> None:
    shape = replace(BENCH_1B_Q4_K_M, dim=256, layers=8, heads=4, kv_heads=4, ffn=512, vocab=512)
    tensors = {each.name: each for each in GGUFReader(write_llama(tmp_path / "model.gguf", shape)).tensors}
    for name, kind, scale in (
        ("blk.1.attn_q", "Q4_K", 256),
        ("blk.1.ffn_down", "Q4_K", 512),
        ("blk.7.attn_v", "Q6_K", 256),
    ):
        tensor = tensors[f"{name}.weight"]
        values = dequantize(tensor.data, tensor.tensor_type)
        assert tensor.tensor_type.name == kind
        assert abs(values.mean()) < 0.1 * scale**-0.5
        assert np.isclose(values.std(), scale**-0.5, rtol=0.05)
