// Products of weights that are floats (F32, F16, BF16) with floats: exact numbers on both sides, and one order of sums.
//
// Of each 32 numbers of a row 16 are multiplied at once and added to 16 sums, then the other 16; the 16 sums of a row and a
// column are added at the end. A vector of any width holds as many of them as it has lanes.

#pragma once

#include <algorithm>
#include <cstring>

#include "ggml.h"
#include "mul_mat_job.h"
#include "mul_mat_vectors.h"

namespace srb {
namespace {  // of mul_mat.cpp alone: the compiler inlines what is called once, and sums stay in registers

constexpr int SUMS = 16;  // of a row and a column
constexpr int PARTS = SUMS / ROWS;  // vectors that hold them
constexpr int MOST_TOGETHER = PARTS == 1 ? 6 : 3;  // columns for which a weight is loaded once
constexpr int64_t COLUMNS_IN_CACHE = 256 * 1024;  // bytes of columns that all rows are multiplied with before the next ones

// How many rows are computed at once with so many columns.
constexpr int rows_with(int columns) {
    int rows = 8;
    while (rows * columns * PARTS > SUMS_AT_ONCE) {
        rows /= 2;
    }
    return rows;
}

// The type of a weight, and a vector of those 16 of 32 that are multiplied first (0) or then (1), from the sum `lane` on.
template <ggml_type type> struct FloatWeights;

template <> struct FloatWeights<GGML_TYPE_F32> {
    using number = float;
    static constexpr bool in_pairs = false;
    static Floats load(const number * block, int half, int lane) { return load_floats(block + SUMS * half + lane); }
};

template <> struct FloatWeights<GGML_TYPE_F16> {
    using number = uint16_t;
    static constexpr bool in_pairs = false;
    static Floats load(const number * block, int half, int lane) { return load_halves(block + SUMS * half + lane); }
};

// Two of them are a lane of integers, and each becomes a float in one instruction: the even ones first, then the odd ones.
template <> struct FloatWeights<GGML_TYPE_BF16> {
    using number = uint16_t;
    static constexpr bool in_pairs = true;
    static Floats load(const number * block, int half, int lane) {
        const Ints pairs = load_ints(block + 2 * lane);
        return as_floats(half ? bit_and(pairs, all((int32_t) 0xffff0000)) : left<16>(pairs));
    }
};

inline int64_t blocks_of(int64_t n) { return (n + BLOCK - 1) / BLOCK; }

// A column is whole blocks, the last one filled up with zeros.
inline size_t float_column_size(int64_t n) { return blocks_of(n) * BLOCK * sizeof(float); }

// `in_pairs`: a block's even numbers come first, then the odd ones.
template <bool in_pairs> void write_floats(const float * x, int64_t n, int64_t begin, int64_t end, uint8_t * column) {
    float * out = (float *) column;
    for (int64_t b = begin; b < end; b++) {
        float block[BLOCK] = {};
        std::memcpy(block, x + b * BLOCK, std::min<int64_t>(BLOCK, n - b * BLOCK) * sizeof(float));
        for (int i = 0; i < BLOCK; i++) {
            out[b * BLOCK + i] = block[in_pairs ? i % SUMS * 2 + i / SUMS : i];
        }
    }
}

// Compute R rows, from `row` on, with C columns, from `column` on.
template <ggml_type type, int R, int C>
inline void multiply_floats(const Job & job, const uint8_t * matrix, size_t stride, int64_t row, int64_t column) {
    using W = FloatWeights<type>;
    using number = typename W::number;
    const number * rows[R];
    const float * columns[C];
    Floats sums[R][C][PARTS];
    for (int r = 0; r < R; r++) {
        rows[r] = (const number *) (matrix + (row + r) * stride);
        for (int c = 0; c < C; c++) {
            for (int p = 0; p < PARTS; p++) {
                sums[r][c][p] = all(0.0f);
            }
        }
    }
    for (int c = 0; c < C; c++) {
        columns[c] = (const float *) job.column(column + c);
    }
    const auto add_block = [&](int64_t at, const number * const * blocks, int64_t block) {
        for (int half = 0; half < 2; half++) {
            for (int p = 0; p < PARTS; p++) {
                Floats w[R];
                for (int r = 0; r < R; r++) {
                    w[r] = W::load(blocks[r] + block, half, p * ROWS);
                }
                for (int c = 0; c < C; c++) {
                    const Floats x = load_floats(columns[c] + at + SUMS * half + p * ROWS);
                    for (int r = 0; r < R; r++) {
                        sums[r][c][p] = fma(w[r], x, sums[r][c][p]);
                    }
                }
            }
        }
    };
    const int64_t whole = job.n / BLOCK * BLOCK;
    for (int64_t at = 0; at < whole; at += BLOCK) {
        add_block(at, rows, at);
    }
    if (whole < job.n) {
        number last[R][BLOCK] = {};
        const number * blocks[R];
        for (int r = 0; r < R; r++) {
            std::memcpy(last[r], rows[r] + whole, (job.n - whole) * sizeof(number));
            blocks[r] = last[r];
        }
        add_block(whole, blocks, 0);
    }
    for (int c = 0; c < C; c++) {
        float * out = job.result(column + c) + row;
        for (int r = 0; r < R; r++) {
            out[r] = sum_of(sums[r][c]);
        }
    }
}

template <ggml_type type, int C>
inline void multiply_rows(const Job & job, const uint8_t * matrix, size_t stride, int64_t begin, int64_t end, int64_t column) {
    constexpr int R = rows_with(C);
    int64_t row = begin;
    for (; row + R <= end; row += R) {
        multiply_floats<type, R, C>(job, matrix, stride, row, column);
    }
    for (; row < end; row++) {
        multiply_floats<type, 1, C>(job, matrix, stride, row, column);
    }
}

template <ggml_type type>
void multiply_rows(const Job & job, const uint8_t * matrix, size_t stride, int64_t begin, int64_t end, int64_t column, int columns) {
    switch (columns) {
        case 1: return multiply_rows<type, 1>(job, matrix, stride, begin, end, column);
        case 2: return multiply_rows<type, 2>(job, matrix, stride, begin, end, column);
        case 3: return multiply_rows<type, 3>(job, matrix, stride, begin, end, column);
    }
    if constexpr (MOST_TOGETHER == 6) {
        switch (columns) {
            case 4: return multiply_rows<type, 4>(job, matrix, stride, begin, end, column);
            case 5: return multiply_rows<type, 5>(job, matrix, stride, begin, end, column);
            case 6: return multiply_rows<type, 6>(job, matrix, stride, begin, end, column);
        }
    }
}

template <ggml_type type>
void compute_floats(const Job & job, const uint8_t * matrix, size_t stride, int64_t begin, int64_t end) {
    // A few rows with all columns that the cache holds, before the next rows: their weights come from memory once.
    const int64_t most = std::max<int64_t>(MOST_TOGETHER, COLUMNS_IN_CACHE / job.column_size);
    for (int64_t first = 0; first < job.n_columns; first += most) {
        const int64_t last = std::min(first + most, job.n_columns);
        for (int64_t row = begin; row < end; row += UNIT / 2) {
            for (int64_t column = first; column < last;) {
                const int64_t left = last - column, tiles = (left + MOST_TOGETHER - 1) / MOST_TOGETHER;
                const int columns = (int) ((left + tiles - 1) / tiles);  // as even as can be: 4 and 4 are faster than 6 and 2
                multiply_rows<type>(job, matrix, stride, row, std::min<int64_t>(row + UNIT / 2, end), column, columns);
                column += columns;
            }
        }
    }
}

}  // namespace
}  // namespace srb
