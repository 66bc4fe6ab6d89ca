// Products of quantized weights with the columns of a batch: ggml's mul_mat and mul_mat_id for a CPU with AVX2, AVX512 or NEON.
//
// ggml has several kernels, for one column and for many, most of which unpack a weight again for each column, and each adds in
// an order of its own. Here a block of 16 rows (8 with AVX2, 4 with NEON) is unpacked once and multiplied with all columns, so that n
// branches cost little more than one; and a result depends on its row and its column alone:
//  1. A column becomes 8-bit numbers with a scale for each 32 of them.
//  2. Products of a block's numbers are added as integers, which is exact in any order.
//  3. The blocks' sums, times both scales, are added as floats from the first block to the last, with one rounding each.
// So neither the number of columns nor their order, neither threads nor the width of vectors change a bit of it.

#include "mul_mat.h"

#include "ggml-cpu-impl.h"
#include "mul_mat_vectors.h"

#ifdef SRB_VECTORS
#include <cstring>

#include "mul_mat_weights.h"

namespace srb {
namespace {

constexpr int MOST_BLOCKS = 32;  // that are unpacked at once: with their scales they stay in the first cache
constexpr int MOST_COLUMNS = 4;  // of which the sums stay in registers
constexpr int MOST_GROUPS = 4;  // of rows that are unpacked at once for many columns: those are read less often
constexpr size_t CACHE_LINE = 64;  // bytes
constexpr int SECOND_CACHE = 2;  // as __builtin_prefetch counts: the next rows are too many for the first one
constexpr int MANY_COLUMNS = 8;  // from which groups are computed in pairs: a number of a column is loaded once for both

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
void quantize(const float * x, int64_t begin, int64_t end, Column out) {
    for (int64_t b = begin; b < end; b++) {
        const float largest = largest_of(x + b * BLOCK);
        const float scale = largest / 127.0f;
        int32_t * halves = out.halves + 2 * b;
        round_to_bytes(x + b * BLOCK, largest > 0 ? 127.0f / largest : 0.0f, out.values + b * BLOCK, halves);
        out.scales[b] = scale;
        out.sums[b] = scale * (float) (halves[0] + halves[1]);
    }
}

// One product's columns: where a column's numbers are, and where its results go.
struct Job {
    int64_t n;  // numbers of a column
    int64_t n_columns;
    uint8_t * columns;  // quantized, Column::size(n) bytes each
    float * out;
    int64_t out_stride;
    // of mul_mat_id: which columns, and the results of each; otherwise all in order
    const int32_t * which = nullptr;
    const int32_t * to = nullptr;

    Column column(int64_t c) const { return {columns + (which ? which[c] : c) * Column::size(n), n}; }
    float * result(int64_t c) const { return out + (to ? to[c] : c) * out_stride; }
};

// Add to `sums` the products of some blocks with `n` columns, for `g` groups of rows.
template <class W, int n, int g>
inline void add_products(const Unpacked * const * weights, int blocks, const Column * columns, int64_t block, Floats (*sums)[n]) {
    constexpr int parts = W::halves ? 2 : 1;
    for (int b = 0; b < blocks; b++) {
        Floats part[g][n];
        for (int h = 0; h < parts; h++) {
            Ints dots[g][n];
            for (int c = 0; c < n; c++) {
                Ints begin = zero();
                if constexpr (W::offset_bits > 0) {
                    const int32_t * halves = columns[c].halves + 2 * (block + b);
                    begin = all(-((W::halves ? halves[h] : halves[0] + halves[1]) * (1 << W::offset_bits)));
                }
                for (int r = 0; r < g; r++) {
                    dots[r][c] = begin;
                }
            }
            for (int i = 8 / parts * h; i < 8 / parts * (h + 1); i++) {
                for (int c = 0; c < n; c++) {
                    int32_t four;
                    std::memcpy(&four, columns[c].values + (block + b) * BLOCK + 4 * i, 4);
                    const Ints numbers = all(four);
                    for (int r = 0; r < g; r++) {
                        const Ints w = weights[r][b].values[i];
                        dots[r][c] = W::has_sign ? signed_dot(dots[r][c], w, numbers) : dot(dots[r][c], w, numbers);
                    }
                }
            }
            for (int r = 0; r < g; r++) {
                const Floats scale = weights[r][b].scales[h];
                for (int c = 0; c < n; c++) {
                    const Floats d = to_floats(dots[r][c]);
                    part[r][c] = h ? fma(d, scale, part[r][c]) : mul(d, scale);
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
        columns[c] = job.column(column + c);
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

// Compute the rows [begin, end) of a product; `begin` is a multiple of ROWS.
template <ggml_type type>
void compute_rows(const Job & job, const uint8_t * matrix, size_t stride, int64_t begin, int64_t end) {
    using W = Weights<type>;
    alignas(64) Unpacked weights[MOST_GROUPS][MOST_BLOCKS];
    const int64_t n_blocks = job.n / BLOCK;
    const int64_t at_once = (job.n_columns < MANY_COLUMNS ? 1 : MOST_GROUPS) * ROWS;
    for (int64_t row = begin; row < end; row += at_once) {
        const int64_t n_rows = std::min(at_once, end - row);
        const int groups = (int) ((n_rows + ROWS - 1) / ROWS);
        const int last = (int) (n_rows - (groups - 1) * ROWS);  // rows of the last group
        // A processor fetches by itself what lies behind in one row, but here each of 16 rows is read by a few bytes: without this
        // a single column, whose time is that of reading the weights, takes a quarter longer. Past the last row it fetches nothing.
        const uint8_t * ahead = matrix + (row + at_once) * stride;
        for (int64_t block = 0; block < n_blocks; block += MOST_BLOCKS) {
            const int blocks = (int) std::min<int64_t>(MOST_BLOCKS, n_blocks - block);
            for (int r = 0; r < groups; r++) {
                const uint8_t * first = matrix + (row + r * ROWS) * stride + block / W::blocks * sizeof(typename W::block);
                for (int b = 0; b < blocks; b += W::blocks, first += sizeof(typename W::block)) {
                    for (size_t i = 0; i < ROWS * sizeof(typename W::block); i += CACHE_LINE) {
                        __builtin_prefetch(ahead + i, 0, SECOND_CACHE);
                    }
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

using Compute = void (*)(const Job &, const uint8_t *, size_t, int64_t, int64_t);

Compute compute_of(ggml_type type) {
    switch (type) {
        case GGML_TYPE_Q4_0: return compute_rows<GGML_TYPE_Q4_0>;
        case GGML_TYPE_Q4_1: return compute_rows<GGML_TYPE_Q4_1>;
        case GGML_TYPE_Q5_0: return compute_rows<GGML_TYPE_Q5_0>;
        case GGML_TYPE_Q5_1: return compute_rows<GGML_TYPE_Q5_1>;
        case GGML_TYPE_Q8_0: return compute_rows<GGML_TYPE_Q8_0>;
        case GGML_TYPE_Q4_K: return compute_rows<GGML_TYPE_Q4_K>;
        case GGML_TYPE_Q5_K: return compute_rows<GGML_TYPE_Q5_K>;
        case GGML_TYPE_Q6_K: return compute_rows<GGML_TYPE_Q6_K>;
        case GGML_TYPE_IQ4_NL: return compute_rows<GGML_TYPE_IQ4_NL>;
        case GGML_TYPE_IQ4_XS: return compute_rows<GGML_TYPE_IQ4_XS>;
        default: return nullptr;
    }
}

// Whether a product is computed here: of a quantized matrix, row after row, with floats, number after number.
bool is_ours(const ggml_tensor * dst) {
    const ggml_tensor * a = dst->src[0], * b = dst->src[1];
    return compute_of(a->type) && b->type == GGML_TYPE_F32 && a->nb[0] == ggml_type_size(a->type) && b->nb[0] == sizeof(float) &&
           dst->type == GGML_TYPE_F32 && dst->nb[0] == sizeof(float);
}

uint8_t * aligned(void * p) { return (uint8_t *) (((uintptr_t) p + 63) / 64 * 64); }

// Quantize all columns of `b`, each thread its part of each.
void quantize_all(const ggml_compute_params * params, const ggml_tensor * b, uint8_t * columns) {
    const int64_t n_blocks = b->ne[0] / BLOCK;
    const int64_t n_columns = ggml_nrows(b);
    // Whole columns, where each thread has some; otherwise its blocks of each.
    const bool whole = n_columns >= 4 * params->nth;
    const int64_t begin = whole ? 0 : params->ith * n_blocks / params->nth;
    const int64_t end = whole ? n_blocks : (params->ith + 1) * n_blocks / params->nth;
    const int64_t first = whole ? params->ith * n_columns / params->nth : 0;
    const int64_t last = whole ? (params->ith + 1) * n_columns / params->nth : n_columns;
    for (int64_t c = first; c < last; c++) {
        const int64_t i1 = c % b->ne[1], i2 = c / b->ne[1] % b->ne[2], i3 = c / b->ne[1] / b->ne[2];
        const char * x = (const char *) b->data + i1 * b->nb[1] + i2 * b->nb[2] + i3 * b->nb[3];
        quantize((const float *) x, begin, end, Column(columns + c * Column::size(b->ne[0]), b->ne[0]));
    }
}

// Rows that a thread takes at once: a multiple of ROWS, some eight parts for each thread.
int64_t rows_at_once(int64_t n_rows, int64_t n_columns, int threads) {
    const int64_t unit = n_columns < MANY_COLUMNS ? ROWS : MOST_GROUPS * ROWS;
    return std::max<int64_t>(unit, n_rows / (8 * threads) / unit * unit);
}

}  // namespace
}  // namespace srb

size_t srb_mul_mat_size(const ggml_tensor * dst) {
    if (!srb::is_ours(dst)) {
        return 0;
    }
    const ggml_tensor * b = dst->src[1];
    size_t size = srb::Column::size(b->ne[0]) * ggml_nrows(b) + 64;
    if (dst->op == GGML_OP_MUL_MAT_ID) {
        size += (dst->src[0]->ne[2] + 1 + 2 * ggml_nelements(dst->src[2])) * sizeof(int32_t);
    }
    return size;
}

bool srb_mul_mat(const ggml_compute_params * params, ggml_tensor * dst) {
    using namespace srb;
    const ggml_tensor * a = dst->src[0], * b = dst->src[1];
    if (params->use_ref || !is_ours(dst)) {
        return false;
    }
    uint8_t * columns = aligned(params->wdata);
    GGML_ASSERT(params->wsize >= srb_mul_mat_size(dst));
    quantize_all(params, b, columns);
    if (params->ith == 0) {
        ggml_threadpool_chunk_set(params->threadpool, params->nth);
    }
    ggml_barrier(params->threadpool);

    const Compute compute = compute_of(a->type);
    const int64_t rows = a->ne[1], at_once = rows_at_once(rows, b->ne[1], params->nth);
    const int64_t parts = (rows + at_once - 1) / at_once, matrices = b->ne[2] * b->ne[3];
    for (int64_t part = params->ith; part < parts * matrices; part = ggml_threadpool_chunk_add(params->threadpool, 1)) {
        const int64_t matrix = part / parts, i2 = matrix % b->ne[2], i3 = matrix / b->ne[2];
        const char * weights = (const char *) a->data + i2 / (b->ne[2] / a->ne[2]) * a->nb[2] + i3 / (b->ne[3] / a->ne[3]) * a->nb[3];
        Job job{b->ne[0], b->ne[1], columns + matrix * b->ne[1] * Column::size(b->ne[0]), nullptr, (int64_t) (dst->nb[1] / sizeof(float))};
        job.out = (float *) ((char *) dst->data + i2 * dst->nb[2] + i3 * dst->nb[3]);
        const int64_t begin = part % parts * at_once;
        compute(job, (const uint8_t *) weights, a->nb[1], begin, std::min(begin + at_once, rows));
    }
    return true;
}

bool srb_mul_mat_id(const ggml_compute_params * params, ggml_tensor * dst) {
    using namespace srb;
    const ggml_tensor * a = dst->src[0], * b = dst->src[1], * ids = dst->src[2];
    if (params->use_ref || !is_ours(dst) || dst->nb[2] % dst->nb[1]) {
        return false;
    }
    const int64_t n_experts = a->ne[2], n_used = ids->ne[0], n_tokens = ids->ne[1];
    uint8_t * columns = aligned(params->wdata);
    // For each expert where its entries begin; then of each entry the column, and the row of results.
    int32_t * begins = (int32_t *) (columns + Column::size(b->ne[0]) * ggml_nrows(b));
    int32_t * which = begins + n_experts + 1, * to = which + n_used * n_tokens;
    GGML_ASSERT(params->wsize >= srb_mul_mat_size(dst));
    quantize_all(params, b, columns);
    if (params->ith == 0) {
        const auto expert = [&](int64_t used, int64_t token) {
            const int32_t e = *(const int32_t *) ((const char *) ids->data + used * ids->nb[0] + token * ids->nb[1]);
            GGML_ASSERT(0 <= e && e < n_experts);
            return e;
        };
        std::fill(begins, begins + n_experts + 1, 0);
        for (int64_t token = 0; token < n_tokens; token++) {
            for (int64_t used = 0; used < n_used; used++) {
                begins[expert(used, token) + 1]++;
            }
        }
        for (int64_t e = 0; e < n_experts; e++) {
            begins[e + 1] += begins[e];
        }
        for (int64_t token = n_tokens - 1; token >= 0; token--) {  // from behind, so that `begins` of the next expert comes to its own
            for (int64_t used = n_used - 1; used >= 0; used--) {
                const int32_t at = --begins[expert(used, token) + 1];
                which[at] = (int32_t) (used % b->ne[1] + token * b->ne[1]);
                to[at] = (int32_t) (used + token * (dst->nb[2] / dst->nb[1]));
            }
        }
        ggml_threadpool_chunk_set(params->threadpool, params->nth);
    }
    ggml_barrier(params->threadpool);

    // After the loop from behind begins[e + 1] is where expert e begins, and the last one ends with all.
    const auto begin_of = [&](int64_t e) { return e < n_experts ? begins[e + 1] : (int32_t) (n_used * n_tokens); };
    const Compute compute = compute_of(a->type);
    const int64_t rows = a->ne[1], at_once = rows_at_once(rows, 1, params->nth);
    const int64_t parts = (rows + at_once - 1) / at_once;
    for (int64_t part = params->ith; part < parts * n_experts; part = ggml_threadpool_chunk_add(params->threadpool, 1)) {
        const int64_t expert = part / parts, first = begin_of(expert), n = begin_of(expert + 1) - first;
        if (n == 0) {
            continue;
        }
        Job job{b->ne[0], n, columns, (float *) dst->data, (int64_t) (dst->nb[1] / sizeof(float)), which + first, to + first};
        const int64_t begin = part % parts * at_once;
        compute(job, (const uint8_t *) a->data + expert * a->nb[2], a->nb[1], begin, std::min(begin + at_once, rows));
    }
    return true;
}

#else  // another processor: ggml computes them

size_t srb_mul_mat_size(const ggml_tensor *) { return 0; }
bool srb_mul_mat(const ggml_compute_params *, ggml_tensor *) { return false; }
bool srb_mul_mat_id(const ggml_compute_params *, ggml_tensor *) { return false; }

#endif
