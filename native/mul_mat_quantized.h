// Products of quantized weights with a column of 8-bit numbers.
//
//  1. A column becomes 8-bit numbers with a scale for each 32 of them.
//  2. Products of a block's numbers are added as integers, which is exact in any order.
//  3. The blocks' sums, times both scales, are added as floats from the first block to the last, with one rounding each.

#pragma once

#include <algorithm>
#include <cstring>

#include "mul_mat_job.h"
#include "mul_mat_weights.h"

namespace srb {
namespace {  // of mul_mat.cpp alone: the compiler inlines what is called once, and sums stay in registers

constexpr int MOST_BLOCKS = ROWS < 16 ? 32 : 24;  // that are unpacked at once: of all groups they stay in the first cache
constexpr int MOST_COLUMNS = 4;  // of which the sums stay in registers
constexpr int MOST_GROUPS = ROWS < 16 ? 4 : 2;  // of rows that are unpacked at once for many columns: those are read less often
constexpr int FIRST_CACHE = 3;  // as __builtin_prefetch counts
constexpr size_t AHEAD = 16 * 1024;  // bytes, but no row of this group: less comes too late, and 48 KB push out what is in use
constexpr size_t AHEAD_OF_ONE = 8 * 1024;  // of a single column: rows of some KB are fetched by processors themselves, too

// A float that keeps its exponent when an integer below 2^22 is added to its bits. Times a scale it is exact, as such a scale has at
// most 18 bits: so the fma that subtracts it rounds once, as the product of the integer and the scale would.
constexpr float LARGE = 3 << 22;
constexpr int32_t LARGE_BITS = 0x4b400000;

// A column of a batch as 8-bit numbers: all of them, then for each block its scale, the sum of its numbers times that scale,
// and the sum of each half.
struct Column {
    int8_t * values;
    float * scales;
    float * sums;
    int32_t * halves;

    Column() = default;
    Column(uint8_t * data, int64_t n) {
        values = (int8_t *) data;
        scales = (float *) (data + n);
        sums = scales + n / BLOCK;
        halves = (int32_t *) (sums + n / BLOCK);
    }
    static size_t size(int64_t n) {  // bytes
        return (n + n / BLOCK * (2 * sizeof(float) + 2 * sizeof(int32_t)) + 63) / 64 * 64;
    }
};

// Quantize the blocks [begin, end) of `x`, each by itself.
inline void quantize(const float * x, int64_t n, int64_t begin, int64_t end, uint8_t * column) {
    const Column out(column, n);
    for (int64_t b = begin; b < end; b++) {
        const float largest = largest_of(x + b * BLOCK);
        const float scale = largest / 127.0f;
        int32_t * halves = out.halves + 2 * b;
        round_to_bytes(x + b * BLOCK, largest > 0 ? 127.0f / largest : 0.0f, out.values + b * BLOCK, halves);
        out.scales[b] = scale;
        out.sums[b] = scale * (float) (halves[0] + halves[1]);
    }
}

inline Ints numbers(const Column & column, int64_t first) {  // four of a column, in each lane
    int32_t four;
    std::memcpy(&four, column.values + first, 4);
    return all(four);
}

// Add to `dots` the products of the vectors from `begin` on, of a block or of its half, whose first number in a column is `first`.
template <class W, int n, int g>
inline void add_dots(const Unpacked * const * weights, int b, int begin, const Column * columns, int64_t first, Ints (*dots)[n]) {
    constexpr int vectors = W::halves ? 4 : 8;
#ifdef SRB_PAIRS
    // So many sums of two products have room in 16 bits: 8 with weights of 4 bits, 4 with 5 and 2 with 6. All are exact.
    constexpr int at_once = W::has_sign ? 1 : std::min(vectors, INT16_MAX / (2 * 127 * ((1 << W::bits) - 1)));
    if constexpr (at_once > 1) {
        for (int i = 0; i < vectors; i += at_once) {
            Ints sums[g][n];
            for (int j = 0; j < at_once; j++) {
                for (int c = 0; c < n; c++) {
                    const Ints x = numbers(columns[c], first + 4 * (begin + i + j));
                    for (int r = 0; r < g; r++) {
                        const Ints two = pairs(weights[r][b].values[begin + i + j], x);
                        sums[r][c] = j ? add_pairs(sums[r][c], two) : two;
                    }
                }
            }
            for (int r = 0; r < g; r++) {
                for (int c = 0; c < n; c++) {
                    dots[r][c] = add_all(dots[r][c], sums[r][c]);
                }
            }
        }
        return;
    }
#endif
    for (int i = begin; i < begin + vectors; i++) {
        for (int c = 0; c < n; c++) {
            const Ints x = numbers(columns[c], first + 4 * i);
            for (int r = 0; r < g; r++) {
                const Ints w = weights[r][b].values[i];
                dots[r][c] = W::has_sign ? signed_dot(dots[r][c], w, x) : dot(dots[r][c], w, x);
            }
        }
    }
}

// Add to `sums` the products of some blocks with `n` columns, for `g` groups of rows.
template <class W, int n, int g>
inline void add_products(const Unpacked * const * weights, int blocks, const Column * columns, int64_t block, Floats (*sums)[n]) {
    constexpr int parts = W::halves ? 2 : 1;
    for (int b = 0; b < blocks; b++) {
        Floats part[g][n];
        for (int h = 0; h < parts; h++) {
            // The first sums begin with LARGE's bits, so that they are the bits of LARGE + sum, without a conversion.
            const int32_t first = h ? 0 : LARGE_BITS;
            Ints dots[g][n];
            for (int c = 0; c < n; c++) {
                Ints begin = all(first);
                if constexpr (W::offset_bits > 0) {
                    const int32_t * halves = columns[c].halves + 2 * (block + b);
                    begin = all(first - ((W::halves ? halves[h] : halves[0] + halves[1]) * (1 << W::offset_bits)));
                }
                for (int r = 0; r < g; r++) {
                    dots[r][c] = begin;
                }
            }
            add_dots<W, n, g>(weights, b, 4 * h, columns, (block + b) * BLOCK, dots);
            for (int r = 0; r < g; r++) {
                const Floats scale = weights[r][b].scales[h], less = mul(scale, all(-LARGE));
                for (int c = 0; c < n; c++) {
                    part[r][c] = h ? fma(to_floats(dots[r][c]), scale, part[r][c]) : fma(as_floats(dots[r][c]), scale, less);
                }
            }
        }
        for (int c = 0; c < n; c++) {
            for (int r = 0; r < g; r++) {
                sums[r][c] = fma(part[r][c], all(columns[c].scales[block + b]), sums[r][c]);
                if constexpr (W::mins) {
                    sums[r][c] = fma(weights[r][b].min, all(columns[c].sums[block + b]), sums[r][c]);
                }
            }
        }
    }
}

inline Floats load_some(const float * p, int number) {
    if (number == ROWS) {
        return load_floats(p);
    }
    float lanes[ROWS] = {};
    std::memcpy(lanes, p, number * sizeof(float));
    return load_floats(lanes);
}

inline void store_some(float * p, Floats x, int number) {
    if (number == ROWS) {
        store_floats(p, x);
    } else {
        float lanes[ROWS];
        store_floats(lanes, x);
        std::memcpy(p, lanes, number * sizeof(float));
    }
}

// Compute `n` columns from `column` on with the blocks that are unpacked; `rows` of the last group are real ones.
template <class W, int n, int g>
inline void some_columns(const Job & job, const Unpacked * const * weights, int blocks, int64_t block, int64_t row, int rows, int64_t column) {
    Floats sums[g][n];
    float * to[n];
    Column columns[n];
    for (int c = 0; c < n; c++) {
        columns[c] = Column(job.column(column + c), job.n);
        to[c] = job.result(column + c) + row;
        for (int r = 0; r < g; r++) {
            sums[r][c] = block ? load_some(to[c] + r * ROWS, r + 1 < g ? ROWS : rows) : all(0.0f);
        }
    }
    add_products<W, n, g>(weights, blocks, columns, block, sums);
    for (int c = 0; c < n; c++) {
        for (int r = 0; r < g; r++) {
            store_some(to[c] + r * ROWS, sums[r][c], r + 1 < g ? ROWS : rows);
        }
    }
}

// Compute `n` columns for all groups that are unpacked.
template <class W, int n>
inline void all_groups(const Job & job, const Unpacked (*weights)[MOST_BLOCKS], int groups, int blocks, int64_t block, int64_t row,
                       int rows, int64_t column) {
    int r = 0;
    if constexpr (MOST_PAIRED == 2) {
        for (; r + 2 <= groups; r += 2) {
            const Unpacked * const both[] = {weights[r], weights[r + 1]};
            some_columns<W, n, 2>(job, both, blocks, block, row + r * ROWS, r + 2 < groups ? ROWS : rows, column);
        }
    }
    for (; r < groups; r++) {
        const Unpacked * const one[] = {weights[r]};
        some_columns<W, n, 1>(job, one, blocks, block, row + r * ROWS, r + 1 < groups ? ROWS : rows, column);
    }
}

// Fetch the next `bytes`: a processor fetches by itself what lies behind in one row, but here each of 16 rows is read by a few bytes.
// Without this a single column, whose time is that of reading the weights, takes twice as long. Past the last row it fetches nothing.
SRB_INLINE void fetch(const uint8_t * ahead, size_t bytes) {
    for (size_t i = 0; i < bytes; i += CACHE_LINE) {
        __builtin_prefetch(ahead + i, 0, FIRST_CACHE);
    }
}

#ifdef SRB_STRAIGHT
// Compute the only column for a group of rows, the same sums in the same order; `rows` of them are real ones.
template <class W, bool whole>
inline void one_column(const Job & job, const uint8_t * first, const uint8_t * ahead, size_t stride, int64_t row, int rows) {
    const Column column(job.column(0), job.n);
    const int64_t n_blocks = job.n / BLOCK;
    Floats sum = all(0.0f);
    for (int64_t block = 0; block < n_blocks; block += W::blocks, first += sizeof(typename W::block)) {
        alignas(64) Unpacked weights[W::blocks];
        W::unpack(Rows<whole, true>{first, stride, rows - 1}, weights);
        for (int b = 0; b < W::blocks; b++) {
            fetch(ahead, ROWS * sizeof(typename W::block) / W::blocks);
            ahead += ROWS * sizeof(typename W::block) / W::blocks;
            const int8_t * x = column.values + (block + b) * BLOCK;
            const int32_t * halves = column.halves + 2 * (block + b);
            const Ints * values = weights[b].values;
            Ints dots[2][4];
            for (int i = 0; i < 4; i++) {
                dots[0][i] = dot(zero(), values[i], sixteen(x));
                dots[1][i] = dot(W::halves ? zero() : dots[0][i], values[4 + i], sixteen(x + BLOCK / 2));
            }
            Floats part;
            for (int h = 0; h < (W::halves ? 2 : 1); h++) {
                const int32_t offset = (W::halves ? halves[h] : halves[0] + halves[1]) * (1 << W::offset_bits);
                const Ints integers = sums_of_rows(dots[W::halves ? h : 1]);
                const Floats d = to_floats(W::offset_bits ? add(integers, all(-offset)) : integers);
                part = h ? fma(d, weights[b].scales[h], part) : mul(d, weights[b].scales[h]);
            }
            sum = fma(part, all(column.scales[block + b]), sum);
            if constexpr (W::mins) {
                sum = fma(weights[b].min, all(column.sums[block + b]), sum);
            }
        }
    }
    store_some(job.result(0) + row, sum, rows);
}
#endif

template <ggml_type type>
void compute_quantized(const Job & job, const uint8_t * matrix, size_t stride, int64_t begin, int64_t end) {
    using W = Weights<type>;
    alignas(64) Unpacked weights[MOST_GROUPS][MOST_BLOCKS];
    const int64_t n_blocks = job.n / BLOCK;
    // As many at once each time, as sums are loaded and stored for each.
    constexpr int64_t most = MOST_BLOCKS / W::blocks * W::blocks;
    const int64_t times = (n_blocks + most - 1) / most;
    const int64_t some_blocks = (n_blocks + times * W::blocks - 1) / (times * W::blocks) * W::blocks;
    const int64_t at_once = (job.n_columns < MANY_COLUMNS ? 1 : MOST_GROUPS) * ROWS;
    for (int64_t row = begin; row < end; row += at_once) {
        const int64_t n_rows = std::min(at_once, end - row);
        const int groups = (int) ((n_rows + ROWS - 1) / ROWS);
        const int last = (int) (n_rows - (groups - 1) * ROWS);  // rows of the last group
        const uint8_t * ahead = matrix + row * stride + std::max(at_once * stride, AHEAD);
#ifdef SRB_STRAIGHT
        if (job.n_columns == 1) {
            const auto & compute = last == ROWS ? one_column<W, true> : one_column<W, false>;
            compute(job, matrix + row * stride, matrix + row * stride + AHEAD_OF_ONE, stride, row, last);
            continue;
        }
#endif
        for (int64_t block = 0; block < n_blocks; block += some_blocks) {
            const int blocks = (int) std::min(some_blocks, n_blocks - block);
            for (int r = 0; r < groups; r++) {
                const uint8_t * first = matrix + (row + r * ROWS) * stride + block / W::blocks * sizeof(typename W::block);
                for (int b = 0; b < blocks; b += W::blocks, first += sizeof(typename W::block)) {
                    fetch(ahead, ROWS * sizeof(typename W::block));
                    ahead += ROWS * sizeof(typename W::block);
                    if (r + 1 < groups || last == ROWS) {
                        W::unpack(Rows<true>{first, stride, ROWS - 1}, weights[r] + b);
                    } else {
                        W::unpack(Rows<false>{first, stride, last - 1}, weights[r] + b);
                    }
                }
            }
            int64_t column = 0;
            for (; column + MOST_COLUMNS <= job.n_columns; column += MOST_COLUMNS) {
                all_groups<W, MOST_COLUMNS>(job, weights, groups, blocks, block, row, last, column);
            }
            switch (job.n_columns - column) {
                case 3: all_groups<W, 3>(job, weights, groups, blocks, block, row, last, column); break;
                case 2: all_groups<W, 2>(job, weights, groups, blocks, block, row, last, column); break;
                case 1: all_groups<W, 1>(job, weights, groups, blocks, block, row, last, column); break;
            }
        }
    }
}

}  // namespace
}  // namespace srb
