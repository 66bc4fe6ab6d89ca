// Flash attention of several tokens, on a CPU. native/patches/09-shared-keys.patch calls it in llama.cpp.
//
// ggml's own takes the tokens of each head one by one, or, from 64 tokens on, by 64. Here a row is a token's query of one head,
// and all rows that use the same keys, those of several branches and of several heads, are computed together: keys and values
// are read and converted to 32 bits once for all of them.
//
// The cells are walked in tiles (Piece). In each, rows that see none of its cells are left out, so texts that share nothing cost
// no more than each alone. Where few pairs of a row and a cell are visible, as in cells that branches wrote side by side, the cells
// are left until a token has seen enough of them to fill vectors. A single token, or a few of long texts that share nothing, wait
// for memory more than they compute: they are computed with all heads of a cell one after the other (Cells).
//
// A row's numbers do not depend on the way, the batch, others' cells among its own or the threads: products of a score are added
// from the first number of a key to the last, weights and weighted values from the first cell to the last.
#pragma once

#include "mul_mat_vectors.h"

#if defined(GGML_SIMD) && !defined(__ARM_FEATURE_SVE) && !defined(__riscv_v_intrinsic)
#define SRB_SHARED_KEYS

#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC target("prefer-vector-width=512")  // for loops that the compiler turns into vectors: GCC takes half of them by itself
#endif

namespace srb {

static constexpr int LANES      = GGML_F32_EPR;
static constexpr int MOST_ROWS  = GGML_FA_TILE_Q;   // of a piece of work
static constexpr int MOST_CELLS = GGML_FA_TILE_KV;  // of a tile
static constexpr int CONVERTED  = 4;                // rows whose scores of a cell take as long as to turn its numbers into columns
static constexpr int FEW        = 8;                // tokens, at most, that may be computed by blocks of cells,
static constexpr int FAR        = 256;              // which is faster if each sees so many, most of them alone
static constexpr int LONG       = 512;              // cells from which on threads share those of one token
static constexpr int BLOCK      = 1024;             // cells, at most, whose scores are there at once
static constexpr int CHUNK      = 32;               // values that are converted at once, cell by cell
static constexpr int MOST_LEFT  = MOST_CELLS - LANES;  // cells of a row that are left for later
static constexpr int AHEAD      = 8;                // cells that are fetched from memory before they are converted
static constexpr uint16_t HIDDEN = 0xFC00;          // minus infinity with 16 bits, in a mask
static constexpr uint16_t FOUR_HIDDEN[4] = { HIDDEN, HIDDEN, HIDDEN, HIDDEN };

#if defined(__AVX512F__) || defined(__ARM_NEON__)
static constexpr int REGISTERS = 32, WIDEST = 4;
#else
static constexpr int REGISTERS = 16, WIDEST = 2;
#endif
static constexpr int WIDE = WIDEST * LANES;  // cells whose scores are computed at once

// Matrices ---------------------------------------------------------------------------------------------------------

// C[M][RN * LANES] += A[M][K] * B[K][RN * LANES] for M = RM; A is stored as [K][M] if it is TRANSPOSED.
template <bool TRANSPOSED, int RM, int RN>
static inline void multiply_block(float * C, int ldc, const float * A, int lda, const float * B, int ldb, int K) {
    GGML_F32_VEC sums[RM][RN];
    for (int i = 0; i < RM; i++) {
        for (int j = 0; j < RN; j++) {
            sums[i][j] = GGML_F32_VEC_LOAD(C + i * ldc + j * LANES);
        }
    }
    for (int k = 0; k < K; k++) {
        GGML_F32_VEC b[RN];
        for (int j = 0; j < RN; j++) {
            b[j] = GGML_F32_VEC_LOAD(B + k * ldb + j * LANES);
        }
        for (int i = 0; i < RM; i++) {
            const GGML_F32_VEC a = GGML_F32_VEC_SET1(TRANSPOSED ? A[k * lda + i] : A[i * lda + k]);
            for (int j = 0; j < RN; j++) {
                sums[i][j] = GGML_F32_VEC_FMA(sums[i][j], b[j], a);
            }
        }
    }
    for (int i = 0; i < RM; i++) {
        for (int j = 0; j < RN; j++) {
            GGML_F32_VEC_STORE(C + i * ldc + j * LANES, sums[i][j]);
        }
    }
}

template <bool TRANSPOSED, int RM, int RN>
static inline void multiply_columns(float * C, int ldc, const float * A, int lda, const float * B, int ldb, int M, int K) {
    int i = 0;
    for (; i + RM <= M; i += RM) {
        multiply_block<TRANSPOSED, RM, RN>(C + i * ldc, ldc, TRANSPOSED ? A + i : A + i * lda, lda, B, ldb, K);
    }
    if constexpr (RM > 1) {
        if (i < M) {
            multiply_columns<TRANSPOSED, RM / 2, RN>(C + i * ldc, ldc, TRANSPOSED ? A + i : A + i * lda, lda, B, ldb, M - i, K);
        }
    }
}

template <bool TRANSPOSED, int RN>
static inline void multiply_wide(float * C, int ldc, const float * A, int lda, const float * B, int ldb, int M, int K) {
    constexpr int RM = 8 * RN + RN + 1 <= REGISTERS ? 8 : 4;
    multiply_columns<TRANSPOSED, RM, RN>(C, ldc, A, lda, B, ldb, M, K);
}

// C[M][N] += A[M][K] * B[K][N], where N is a multiple of LANES.
template <bool TRANSPOSED>
static void multiply(float * C, int ldc, const float * A, int lda, const float * B, int ldb, int M, int N, int K) {
    for (int j = 0; j < N; j += WIDEST * LANES) {
        switch (std::min(WIDEST, (N - j) / LANES)) {
            case 1: multiply_wide<TRANSPOSED, 1>(C + j, ldc, A, lda, B + j, ldb, M, K); break;
            case 2: multiply_wide<TRANSPOSED, 2>(C + j, ldc, A, lda, B + j, ldb, M, K); break;
            case 3: multiply_wide<TRANSPOSED, 3>(C + j, ldc, A, lda, B + j, ldb, M, K); break;
            case 4: multiply_wide<TRANSPOSED, 4>(C + j, ldc, A, lda, B + j, ldb, M, K); break;
        }
    }
}

// As GGML_F32_VEC_FMA does it with vectors.
static inline float add_product(float sum, float a, float b) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    return fmaf(a, b, sum);
#else
    return sum + a * b;
#endif
}

static inline void prefetch(const char * from, int bytes) {
#ifdef __GNUC__
    for (int byte = 0; byte < bytes; byte += CACHE_LINE_SIZE) {
        __builtin_prefetch(from + byte);
    }
#endif
}

static inline int parts(int number, int size) { return (number + size - 1) / size; }

static inline int rounded_up(int number, int step) { return parts(number, step) * step; }

// The numbers of LANES rows, of `size` each, as columns: to[size][stride].
static void transpose_rows(const float * from, int size, float * to, int stride) {
    int d = 0;
#ifdef SRB_VECTORS
    static_assert(LANES == ROWS, "a lane for each row");
    for (; d + 4 <= size; d += 4) {
        Ints out[4];
        transpose(Rows<true>{ (const uint8_t *) (from + d), size * sizeof(float), LANES - 1 }, out);
        for (int i = 0; i < 4; i++) {
            memcpy(to + (d + i) * stride, out + i, LANES * sizeof(float));
        }
    }
#endif
    for (; d < size; d++) {
        for (int row = 0; row < LANES; row++) {
            to[d * stride + row] = from[row * size + d];
        }
    }
}

// Weights ----------------------------------------------------------------------------------------------------------
//
// A weight is exp(score), divided by a power of two of its row, which grows with the row's highest score. Such a division, and
// what was summed before with a smaller power, is exact: the sums do not depend on where the power grows, and so not on the
// other branches' cells among a branch's own.

static constexpr float LOG2E = 1.44269504f, LN2_HIGH = 0.693145752f, LN2_LOW = 1.42860677e-6f;  // HIGH has 16 bits
static constexpr float SHIFT = 12582912.0f;  // 1.5 * 2^23: the bits of SHIFT + n are those of SHIFT and n, if |n| < 2^22
static constexpr float MOST_SCORE = 2.9e6f;
static constexpr int LEAST_POWER = -4000000;  // of a row that has seen nothing; a hidden cell's power is less

static inline int32_t bits_of(float number) {
    int32_t bits;
    memcpy(&bits, &number, sizeof(bits));
    return bits;
}

static inline float highest_of(const float * numbers, int count) {
    float highest[LANES];
    std::fill_n(highest, LANES, -INFINITY);
    int i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (int lane = 0; lane < LANES; lane++) {
            highest[lane] = numbers[i + lane] > highest[lane] ? numbers[i + lane] : highest[lane];
        }
    }
    for (; i < count; i++) {
        highest[0] = std::max(highest[0], numbers[i]);
    }
    return *std::max_element(highest, highest + LANES);
}

// 2^power, or 0 for less than the least normal number; `power` is at most 0.
static inline float power_of_two(int32_t power) {
    const int32_t bits = power < -126 ? 0 : (power + 127) << 23;
    float number;
    memcpy(&number, &bits, sizeof(number));
    return number;
}

static inline float limited(float score) {
    score = score < -MOST_SCORE ? -MOST_SCORE : score;
    return score > MOST_SCORE ? MOST_SCORE : score;
}

// The power of two that is nearest to exp(score).
static inline int32_t power_of(float score) {
    return bits_of(add_product(SHIFT, limited(score), LOG2E)) - bits_of(SHIFT);
}

// exp(score) / 2^power, where `power` is at least that of `score`.
static inline float weight_of(float score, int32_t power) {
    score = limited(score);
    const float shifted = add_product(SHIFT, score, LOG2E), whole = shifted - SHIFT;
    const float rest = add_product(add_product(score, whole, -LN2_HIGH), whole, -LN2_LOW);  // at most ln(2) / 2
    float sum = 0.008312504f;  // a polynomial fitted to (exp(rest) - 1 - rest) / rest^2; with it exp has an error of 1e-7
    sum = add_product(0.04189033f, sum, rest);
    sum = add_product(0.16667116f, sum, rest);
    sum = add_product(0.4999923f, sum, rest);
    sum = add_product(rest, sum, rest * rest) + 1.0f;
    return sum * power_of_two(bits_of(shifted) - bits_of(SHIFT) - power);
}

// Attention --------------------------------------------------------------------------------------------------------

static bool has_floats(const ggml_tensor * tensor) {
    return tensor->type == GGML_TYPE_F32 || ggml_get_type_traits(tensor->type)->to_float;
}

static void to_floats(const ggml_tensor * tensor, const char * from, float * to, int count) {
    if (tensor->type == GGML_TYPE_F16) {
        ggml_cpu_fp16_to_fp32((const ggml_fp16_t *) from, to, count);
    } else if (tensor->type == GGML_TYPE_F32) {
        memcpy(to, from, count * sizeof(float));
    } else {
        ggml_get_type_traits(tensor->type)->to_float(from, to, count);
    }
}

// The number of cells of a tile that a mask does not hide.
static inline int num_visible(const uint16_t * masks, int cells) {
    uint16_t visible = 0;  // of 16 bits, as the masks: the compiler counts many at once
    for (int c = 0; c < cells; c++) {
        visible += masks[c] != HIDDEN;
    }
    return visible;
}

// Call `act` with the cells from `from` on, before `to`, that a mask does not hide, until it returns false; return where it ended.
template <class Act> static inline int64_t for_visible(const uint16_t * masks, int64_t from, int64_t to, Act act) {
    for (; from < to; from++) {
        if (from + 4 <= to && !memcmp(masks + from, FOUR_HIDDEN, sizeof(FOUR_HIDDEN))) {
            from += 3;
        } else if (masks[from] != HIDDEN && !act(from)) {
            return from + 1;
        }
    }
    return from;
}

// A node of the graph: where the numbers of its tokens, heads and cells lie, of the batch's part `i3`.
class Attention {
  public:
    Attention(ggml_tensor * dst, int i3)
        : dst(dst), q(dst->src[0]), k(dst->src[1]), v(dst->src[2]), mask(dst->src[3]), sinks(dst->src[4]),
          DK(k->ne[0]), DV(v->ne[0]), heads(q->ne[2] / k->ne[2]), i3(i3),
          q_data((const char *) q->data + i3 * q->nb[3]),
          k_data((const char *) k->data + i3 / (q->ne[3] / k->ne[3]) * k->nb[3]),
          v_data((const char *) v->data + i3 / (q->ne[3] / v->ne[3]) * v->nb[3]) {
        memcpy(&scale,    (const float *) dst->op_params + 0, sizeof(float));
        memcpy(&max_bias, (const float *) dst->op_params + 1, sizeof(float));
        memcpy(&softcap,  (const float *) dst->op_params + 2, sizeof(float));
        if (softcap != 0.0f) {
            scale /= softcap;
        }
    }

    // Whether all threads' memory is there: another version of ggml may reserve less.
    bool has_memory(const ggml_compute_params * params) const {
        return params->wsize >= params->nth * with_padding() * sizeof(float);
    }

  protected:
    ggml_tensor * dst;
    const ggml_tensor * q, * k, * v, * mask, * sinks;
    const int DK, DV;
    const int heads;  // that share keys
    const int i3;
    const char * q_data, * k_data, * v_data;
    float scale, max_bias, softcap;

    // The floats that ggml reserves for each thread, by the formula of ggml_graph_plan.
    int reserved() const {
        return MOST_ROWS*DK + 2*MOST_ROWS*MOST_CELLS + MOST_ROWS*DV + MOST_CELLS*DV + MOST_CELLS*DK;
    }

    size_t with_padding() const { return reserved() + CACHE_LINE_SIZE_F32; }

    float * memory(const ggml_compute_params * params, int thread) const {
        const uintptr_t own = (uintptr_t) ((float *) params->wdata + thread * with_padding());
        return (float *) ((own + CACHE_LINE_SIZE - 1) / CACHE_LINE_SIZE * CACHE_LINE_SIZE);
    }

    const float * query(int token, int head) const { return (const float *) (q_data + token * q->nb[1] + head * q->nb[2]); }
    const char * key(int64_t cell, int group) const { return k_data + cell * k->nb[1] + group * k->nb[2]; }
    const char * value(int64_t cell, int group) const { return v_data + cell * v->nb[1] + group * v->nb[2]; }

    // Of each cell, whether a token's head sees it, and how; null if it sees all.
    const uint16_t * masks_of(int token, int head) const {
        return !mask ? nullptr : (const uint16_t *) ((const char *) mask->data + token * mask->nb[1] +
            head % mask->ne[2] * mask->nb[2] + i3 % mask->ne[3] * mask->nb[3]);
    }

    // The factor of a head's masks.
    float slope_of(int head) const {
        const int n_head = q->ne[2], power = 1 << (int) floor(log2(n_head));
        return max_bias <= 0.0f ? 1.0f
            : head < power ? powf(powf(2.0f, -max_bias / power), head + 1)
                           : powf(powf(2.0f, -max_bias / 2.0f / power), 2 * (head - power) + 1);
    }

    // Make scores of sums of products, but for the masks.
    void scale_scores(float * scores, int count) const {
        ggml_vec_scale_f32(count, scores, scale);
        if (softcap != 0.0f) {
            ggml_vec_tanh_f32(count, scores, scores);
            ggml_vec_scale_f32(count, scores, softcap);
        }
    }

    // Divide a row's weights by the power of two of `score` from now on, and what it has summed so far, if that is more. `sums`
    // are all of its sums, or a part.
    static void raise(int32_t & power, float & total, float * sums, int size, float score) {
        const int32_t higher = power_of(score);
        if (higher > power) {
            const float factor = power_of_two(power - higher);
            ggml_vec_scale_f32(size, sums, factor);
            total *= factor;
            power = higher;
        }
    }

    // Write a row's result from the number `first` on, after the head's sink.
    void finish(int token, int head, int32_t power, float total, float * sums, int first, int size) const {
        if (sinks) {
            const float sink = ((const float *) sinks->data)[head];
            raise(power, total, sums, size, sink);
            total += weight_of(sink, power);
        }
        ggml_vec_scale_f32(size, sums, total == 0.0f ? 0.0f : 1.0f / total);
        const int64_t place = i3 * dst->ne[2] * dst->ne[1] + head + token * dst->ne[1];
        memcpy((float *) ((char *) dst->data + place * dst->nb[1]) + first, sums, size * sizeof(float));
    }
};

// Some of the rows that use the same keys: those of `group`, of the batch's part `i3`.
class Piece : Attention {
  public:
    Piece(const ggml_compute_params * params, ggml_tensor * dst, int i3, int group, int first, int rows)
        : Attention(dst, i3), group(group), first(first), rows(rows) {
        queries = memory(params, params->ith);
        scores  = queries + MOST_ROWS * DK;
        some    = scores  + MOST_ROWS * MOST_CELLS;
        sums    = some    + MOST_ROWS * MOST_CELLS;
        values  = sums    + MOST_ROWS * DV;
        keys    = values  + MOST_CELLS * DV;
    }

    void compute() {
        begin();
        for (int64_t tile = 0; tile < k->ne[1]; tile += MOST_CELLS) {
            find_cells(tile, (int) std::min((int64_t) MOST_CELLS, k->ne[1] - tile));
            look();
            if (is_sparse()) {
                leave();
            } else if (pairs) {
                for (int i = 0; i < num_seeing; i++) {
                    add_left(seeing[i]);
                }
                read();
                add_tile();
            }
        }
        end();
    }

  private:
    const int group, first, rows;

    float * queries;  // [DK][lanes of all rows]
    float * scores;   // [cells][lanes of the rows that see some], then their weights
    float * some;     // queries [DK][lanes] of the rows that see some, if not all do
    float * sums;     // [rows][DV]: of the weighted values
    float * values;   // [cells][DV]
    float * keys;     // [cells][DK]
    // Of each row: the power of two by which its weights are divided, their sum, its mask and the factor of the mask.
    int32_t powers[MOST_ROWS];
    float total[MOST_ROWS];
    const uint16_t * masks[MOST_ROWS];
    float slope[MOST_ROWS];

    // Of the present tile:
    int64_t start;
    int cells, pairs;
    int num_seeing, seeing[MOST_ROWS];  // the rows that see some of its cells
    bool sees_all[MOST_ROWS];
    int num_gathered = 0, gathered[MOST_ROWS];  // the rows whose queries are in `some`

    int alike[MOST_ROWS] = {};  // of the first of rows that see the same, as a token's heads do: their number, else 0
    // Of these first rows: the cells that were left for later.
    int32_t left[MOST_ROWS][MOST_LEFT];
    int num_left[MOST_ROWS] = {};

    int head(int row) const { return group * heads + (first + row) % heads; }
    int token(int row) const { return (first + row) / heads; }

    void begin() {
        const int lanes = rounded_up(rows, LANES);
        for (int row = 0; row < lanes; row++) {
            const float * from = row < rows ? query(token(row), head(row)) : nullptr;
            for (int d = 0; d < DK; d++) {
                queries[d * lanes + row] = from ? from[d] : 0.0f;
            }
        }
        for (int row = 0; row < rows; row++) {
            powers[row] = LEAST_POWER;
            total[row] = 0.0f;
            masks[row] = masks_of(token(row), head(row));
            slope[row] = slope_of(head(row));
        }
        for (int row = 0; row < rows; row += alike[row]) {
            for (alike[row] = 1; row + alike[row] < rows && masks[row + alike[row]] == masks[row]; alike[row]++) {}
        }
        memset(sums, 0, rows * DV * sizeof(float));
    }

    // Leave out what no row sees at a tile's ends: of a prompt's newest cells half, and of a window's oldest.
    void find_cells(int64_t tile, int size) {
        start = tile;
        cells = size;
        if (!mask) {
            return;
        }
        uint16_t seen[MOST_CELLS] = {};
        for (int row = 0; row < rows; row += alike[row]) {
            for (int c = 0; c < size; c++) {
                seen[c] |= masks[row][tile + c] ^ HIDDEN;
            }
        }
        for (; cells && !seen[cells - 1]; cells--) {}
        for (; cells && !seen[start - tile]; cells--, start++) {}
    }

    // Find the rows that see some of the tile's cells, and count what they see.
    void look() {
        pairs = num_seeing = 0;
        int visible = cells;
        bool all = true;
        for (int row = 0; row < rows; row++) {
            if (mask && (row == 0 || masks[row] != masks[row - 1])) {
                visible = num_visible(masks[row] + start, cells);
                uint16_t bits = 0;
                for (int c = 0; c < cells && visible == cells; c++) {
                    bits |= masks[row][start + c];
                }
                all = visible == cells && !(bits & 0x7FFF);
            }
            sees_all[row] = all;
            if (visible) {
                seeing[num_seeing++] = row;
                pairs += visible;
            }
        }
    }

    void read() {
        const int bytes_k = ggml_row_size(k->type, DK), bytes_v = ggml_row_size(v->type, DV);
        for (int c = 0; c < cells; c++) {
            const int64_t soon = std::min(start + c + AHEAD, k->ne[1] - 1);
            prefetch(key(soon, group), bytes_k);
            prefetch(value(soon, group), bytes_v);
            to_floats(k, key(start + c, group), keys + c * DK, DK);
            to_floats(v, value(start + c, group), values + c * DV, DV);
        }
    }

    void raise(int row, float score) { Attention::raise(powers[row], total[row], sums + row * DV, DV, score); }

    // Whether so few pairs are visible that each is better computed alone, for which a cell is converted for each token.
    bool is_sparse() const {
        return mask && 2 * pairs * (heads + CONVERTED) < heads * (rounded_up(num_seeing, LANES) + num_seeing) * cells;
    }

    // Leave the tile's cells for later. They are added to what their rows have seen once these fill vectors.
    void leave() {
        const int bytes_k = ggml_row_size(k->type, DK), bytes_v = ggml_row_size(v->type, DV);
        for (int i = 0; i < num_seeing; i += alike[seeing[i]]) {
            const int row = seeing[i];
            for_visible(masks[row], start, start + cells, [&](int64_t cell) {
                left[row][num_left[row]++] = (int32_t) cell;
                prefetch(key(cell, group), bytes_k);
                prefetch(value(cell, group), bytes_v);
                if (num_left[row] == MOST_LEFT) {
                    add_left(row);
                }
                return true;
            });
        }
    }

    // Add the cells that were left of a row, and of those after it that see the same.
    void add_left(int row) {
        const int number = num_left[row], lanes = rounded_up(number, LANES), same = alike[row];
        if (!number) {
            return;
        }
        const int32_t * from = left[row];
        float * columns = keys + LANES * DK;  // [DK][MOST_LEFT]
        for (int c = 0; c < number; c += LANES) {
            for (int i = 0; i < LANES; i++) {
                to_floats(k, key(from[std::min(c + i, number - 1)], group), keys + i * DK, DK);
            }
            transpose_rows(keys, DK, columns + c, MOST_LEFT);
        }
        for (int c = 0; c < number; c++) {
            to_floats(v, value(from[c], group), values + c * DV, DV);
        }
        std::fill_n(scores, same * MOST_LEFT, 0.0f);
        multiply<false>(scores, MOST_LEFT, query(token(row), head(row)), q->nb[2] / sizeof(float), columns, MOST_LEFT, same, lanes, DK);
        for (int i = 0; i < same; i++) {
            // Each score and weight is computed as in add_tile, to the last bit: a branch is the same alone and among others.
            float * own = scores + i * MOST_LEFT;
            scale_scores(own, lanes);
            for (int c = 0; c < number; c++) {
                own[c] = add_product(own[c], slope[row + i], GGML_CPU_FP16_TO_FP32(masks[row][from[c]]));
            }
            raise(row + i, highest_of(own, number));
            for (int c = 0; c < number; c++) {
                own[c] = weight_of(own[c], powers[row + i]);
            }
            for (int c = 0; c < number; c++) {
                total[row + i] += own[c];
            }
        }
        multiply<false>(sums + row * DV, DV, scores, MOST_LEFT, values, DV, same, DV, number);
        num_left[row] = 0;
    }

    void add_tile() {
        const int all = rounded_up(rows, LANES), lanes = rounded_up(num_seeing, LANES);
        if (lanes < all && DK * lanes <= MOST_ROWS * MOST_CELLS) {
            if (num_seeing != num_gathered || memcmp(seeing, gathered, num_seeing * sizeof(int))) {
                memset(some, 0, DK * lanes * sizeof(float));
                for (int d = 0; d < DK; d++) {
                    for (int i = 0; i < num_seeing; i++) {
                        some[d * lanes + i] = queries[d * all + seeing[i]];
                    }
                }
                num_gathered = num_seeing;
                memcpy(gathered, seeing, num_seeing * sizeof(int));
            }
            multiply_tile(some, lanes);
        } else {
            num_seeing = rows;
            for (int row = 0; row < rows; row++) {
                seeing[row] = row;
            }
            multiply_tile(queries, all);
        }
    }

    void multiply_tile(const float * own, int lanes) {
        memset(scores, 0, cells * lanes * sizeof(float));
        multiply<false>(scores, lanes, keys, DK, own, lanes, cells, lanes, DK);
        scale_scores(scores, cells * lanes);
        for (int i = 0; mask && i < num_seeing; i += LANES) {
            add_masks(scores + i, lanes, seeing + i, std::min(LANES, num_seeing - i));
        }
        float highest[MOST_ROWS], summed[MOST_ROWS];
        int32_t own_powers[MOST_ROWS];
        for (int i = 0; i < lanes; i++) {
            highest[i] = -INFINITY;
        }
        for (int c = 0; c < cells; c++) {
            for (int i = 0; i < lanes; i++) {
                const float score = scores[c * lanes + i];
                highest[i] = score > highest[i] ? score : highest[i];
            }
        }
        for (int i = 0; i < num_seeing; i++) {
            raise(seeing[i], highest[i]);
        }
        for (int i = 0; i < lanes; i++) {
            own_powers[i] = i < num_seeing ? powers[seeing[i]] : power_of(highest[i]);
            summed[i] = i < num_seeing ? total[seeing[i]] : 0.0f;
        }
        for (int c = 0; c < cells; c++) {
            for (int i = 0; i < lanes; i++) {
                const float weight = weight_of(scores[c * lanes + i], own_powers[i]);
                scores[c * lanes + i] = weight;
                summed[i] += weight;
            }
        }
        for (int i = 0, run; i < num_seeing; i += run) {  // rows that follow each other
            for (run = 0; i + run < num_seeing && seeing[i + run] == seeing[i] + run; run++) {
                total[seeing[i + run]] = summed[i + run];
            }
            multiply<true>(sums + seeing[i] * DV, DV, scores + i, lanes, values, DV, run, DV, cells);
        }
    }

    // Add the masks of up to LANES rows to their scores.
    void add_masks(float * own, int lanes, const int * which, int count) {
        if (std::all_of(which, which + count, [&](int row) { return sees_all[row]; })) {
            return;
        }
        float biases[LANES * MOST_CELLS], columns[MOST_CELLS * LANES], slopes[LANES] = {};
        const int wide = rounded_up(cells, 4);
        for (int i = 0; i < LANES; i++) {
            float * to = biases + i * wide;
            if (i < count && !sees_all[which[i]]) {
                slopes[i] = slope[which[i]];
                ggml_cpu_fp16_to_fp32((const ggml_fp16_t *) masks[which[i]] + start, to, cells);
                std::fill(to + cells, to + wide, 0.0f);
            } else {
                std::fill_n(to, wide, 0.0f);
            }
        }
        transpose_rows(biases, wide, columns, LANES);
        for (int c = 0; c < cells; c++) {
            for (int i = 0; i < LANES; i++) {
                own[c * lanes + i] = add_product(own[c * lanes + i], slopes[i], columns[c * LANES + i]);
            }
        }
    }

    void end() {
        for (int row = 0; row < rows; row++) {
            add_left(row);
        }
        for (int row = 0; row < rows; row++) {
            finish(token(row), head(row), powers[row], total[row], sums + row * DV, 0, DV);
        }
    }
};

// A single token, or a few that see little in common, one after the other: by blocks of the cells that it sees, all heads of a cell
// one after the other. These lie side by side in memory, while the cells of one head lie far apart, and a processor waits for most.
//
// Threads share a block's cells while they compute scores, and the numbers of the results while they add up weighted values. So
// every score, weight and sum is computed as in a Piece, to the last bit, with any number of threads.
class Cells : Attention {
  public:
    Cells(const ggml_compute_params * params, ggml_tensor * dst)
        : Attention(dst, 0), params(params), groups(k->ne[2]), n_head(q->ne[2]), tokens(q->ne[1]) {
        // Floats: of a thread, and of a cell of the block.
        const int64_t threads = params->nth, a_thread = (LANES + WIDE) * DK + CHUNK * DV + 3 * n_head;
        const int64_t a_cell = n_head + threads * (n_head + 1);
        const int64_t free = threads * (reserved() - a_thread) - n_head * DV;
        block = (int) std::min<int64_t>(BLOCK, free / a_cell) / LANES * LANES;
        own_size = a_thread + block * (n_head + 1);
    }

    // Whether this can compute the node, and is faster than by tiles: where tokens see most cells alone.
    bool are_better() const {
        if (tokens > FEW || block < MOST_CELLS || q->ne[3] > 1 || !mask || mask->ne[2] > 1) {
            return false;
        }
        if (tokens == 1 || heads > 1) {
            return tokens == 1;
        }
        int64_t visible = 0, all = 0;  // pairs of a token and a cell, and cells that any token sees
        for (int64_t begin = 0; begin < k->ne[1]; begin += MOST_CELLS) {
            const int number = (int) std::min((int64_t) MOST_CELLS, k->ne[1] - begin);
            uint16_t seeing[MOST_CELLS] = {}, any = 0;  // of each cell the tokens that see it
            for (int token = 0; token < tokens; token++) {
                const uint16_t * masks = masks_of(token, 0) + begin;
                for (int c = 0; c < number; c++) {
                    seeing[c] += masks[c] != HIDDEN;
                }
            }
            for (int c = 0; c < number; c++) {
                visible += seeing[c];
                any += seeing[c] != 0;
            }
            all += any;
        }
        return visible >= tokens * FAR && visible * 2 < all * 3;
    }

    void compute() {
        scores  = (float *) params->wdata;
        sums    = scores + n_head * block;
        columns = sums + n_head * DV + params->ith * own_size;
        keys    = columns + WIDE * DK;
        values  = keys + LANES * DK;
        weights = values + CHUNK * DV;
        seen    = (int32_t *) (weights + n_head * block);
        powers  = seen + block;
        total   = (float *) (powers + n_head);
        slopes  = total + n_head;
        for (int head = 0; head < n_head; head++) {
            slopes[head] = slope_of(head);
        }
        for (token = 0; token < tokens; token++) {
            masks = masks_of(token, 0);
            std::fill_n(powers, n_head, LEAST_POWER);
            std::fill_n(total, n_head, 0.0f);
            for_shares([&](int group, int from, int to) {
                for (int head = group * heads; head < (group + 1) * heads; head++) {
                    std::fill(sums + head * DV + from, sums + head * DV + to, 0.0f);
                }
            });
            for (int64_t cell = 0; (cell = find_seen(cell)), number; ) {
                add_scores(share_of(params->ith), share_of(params->ith + 1));
                ggml_barrier(params->threadpool);
                add_values();
                ggml_barrier(params->threadpool);
            }
            for_shares([&](int group, int from, int to) {
                for (int head = group * heads; head < (group + 1) * heads; head++) {
                    finish(token, head, powers[head], total[head], sums + head * DV + from, from, to - from);
                }
            });
        }
    }

  private:
    const ggml_compute_params * params;
    const int groups, n_head, tokens;
    int64_t own_size;
    int block;               // the most cells of a block
    int token, number;       // the present one, and the cells of its present block
    const uint16_t * masks;  // the token's

    // Of all threads: [n_head][block] and [n_head][DV]. Of the sums each has its share.
    float * scores, * sums;
    // Of this one.
    float * columns;   // [DK][WIDE]: some keys
    float * keys;      // [LANES][DK]: of these the last ones, as they lie in memory
    float * values;    // [CHUNK][numbers of a share]
    float * weights;   // [n_head][block]
    int32_t * seen;    // the block's cells
    int32_t * powers;  // [n_head]: by what weights are divided
    float * total;     // [n_head]: sums of the weights
    float * slopes;    // [n_head]: the factors of the masks

    // Call `act` for each group with this thread's share of the DV numbers of its results.
    template <class Act> void for_shares(Act act) const {
        const int64_t parts = DV / LANES, all = groups * parts;
        for (int group = 0; group < groups; group++) {
            const int64_t from = std::max<int64_t>(params->ith * all / params->nth - group * parts, 0);
            const int64_t to = std::min((params->ith + 1) * all / params->nth - group * parts, parts);
            if (from < to) {
                act(group, (int) from * LANES, (int) to * LANES);
            }
        }
    }

    // Where the cells of the block begin whose scores a thread computes.
    int share_of(int thread) const { return std::min(number, rounded_up((int) (thread * (int64_t) number / params->nth), LANES)); }

    // Find the next cells that the token sees, from `cell` on, as many as a block has; return the cell after them.
    int64_t find_seen(int64_t cell) {
        number = 0;
        return for_visible(masks, cell, k->ne[1], [&](int64_t visible) {
            seen[number++] = (int32_t) visible;
            return number < block;
        });
    }

    // Compute the scores of the block's cells from `begin` to before `end`.
    void add_scores(int begin, int end) {
        const int bytes = ggml_row_size(k->type, DK), between = q->nb[2] / sizeof(float);
        for (int first = begin; first < end; first += WIDE) {
            const int wide = std::min(WIDE, end - first), lanes = rounded_up(wide, LANES);
            for (int group = 0; group < groups; group++) {
                for (int c = 0; c < lanes; c += LANES) {
                    for (int i = 0; i < LANES; i++) {
                        const int at = first + std::min(c + i, wide - 1);
                        prefetch(key(seen[std::min(at + WIDE, number - 1)], group), bytes);
                        to_floats(k, key(seen[at], group), keys + i * DK, DK);
                    }
                    transpose_rows(keys, DK, columns + c, WIDE);
                }
                float * own = scores + group * heads * block + first;
                for (int head = 0; head < heads; head++) {
                    std::fill_n(own + head * block, lanes, 0.0f);
                }
                multiply<false>(own, block, query(token, group * heads), between, columns, WIDE, heads, lanes, DK);
            }
            finish_scores(first, wide, lanes);
        }
    }

    void finish_scores(int first, int wide, int lanes) {
        float biases[WIDE] = {};
        bool any = false;
        for (int i = 0; i < wide; i++) {
            biases[i] = GGML_CPU_FP16_TO_FP32(masks[seen[first + i]]);
            any |= biases[i] != 0.0f;
        }
        for (int head = 0; head < n_head; head++) {
            float * own = scores + head * block + first;
            scale_scores(own, lanes);
            for (int i = 0; i < lanes && any; i++) {
                own[i] = add_product(own[i], biases[i], slopes[head]);
            }
        }
    }

    // Add the block's values to this thread's share of the token's results.
    void add_values() {
        for_shares([&](int group, int from, int to) { find_weights(group, from, to); });
        const int size = ggml_blck_size(v->type);
        for (int chunk = 0; chunk < number; chunk += CHUNK) {
            const int rows = std::min(CHUNK, number - chunk);
            for_shares([&](int group, int from, int to) {
                const int begin = from / size * size, width = rounded_up(to, size) - begin;
                const char * part = v_data + ggml_row_size(v->type, begin) + group * v->nb[2];
                const int bytes = ggml_row_size(v->type, width);
                for (int i = 0; i < rows; i++) {
                    prefetch(part + seen[std::min(chunk + i + CHUNK, number - 1)] * v->nb[1], bytes);
                    to_floats(v, part + seen[chunk + i] * v->nb[1], values + i * width, width);
                }
                multiply<false>(sums + group * heads * DV + from, DV, weights + group * heads * block + chunk, block,
                                values + (from - begin), width, heads, to - from, rows);
            });
        }
    }

    // Find the weights of the block's cells for a group's heads.
    void find_weights(int group, int from, int to) {
        const int head = group * heads;
        for (int i = head; i < head + heads; i++) {
            const float * own = scores + i * block;
            raise(powers[i], total[i], sums + i * DV + from, to - from, highest_of(own, number));
            for (int c = 0; c < number; c++) {
                weights[i * block + c] = weight_of(own[c], powers[i]);
            }
        }
        int i = head;
        for (; i + 4 <= head + heads; i += 4) {  // a sum waits for its last addition: several at once
            add_weights<4>(i);
        }
        for (; i < head + heads; i++) {
            add_weights<1>(i);
        }
    }

    template <int N> void add_weights(int head) {
        float totals[N];
        std::copy_n(total + head, N, totals);
        for (int c = 0; c < number; c++) {
            for (int i = 0; i < N; i++) {
                totals[i] += weights[(head + i) * block + c];
            }
        }
        std::copy_n(totals, N, total + head);
    }
};

// Compute a node GGML_OP_FLASH_ATTN_EXT; return false where ggml shall do it its own way.
static bool flash_attention(const ggml_compute_params * params, ggml_tensor * dst) {
    const ggml_tensor * q = dst->src[0], * k = dst->src[1], * v = dst->src[2], * mask = dst->src[3];
    const int rows = q->ne[1] * (q->ne[2] / k->ne[2]), groups = k->ne[2] * q->ne[3];  // rows of each group
    if (q->type != GGML_TYPE_F32 || !has_floats(k) || !has_floats(v) || v->ne[0] % LANES != 0 || k->ne[2] != v->ne[2] ||
        (mask && mask->type != GGML_TYPE_F16) || !Attention(dst, 0).has_memory(params)) {
        return false;
    }
    if (k->ne[1] >= LONG) {
        Cells cells(params, dst);
        if (cells.are_better()) {
            cells.compute();
            return true;
        }
    }
    // Pieces of as many rows each, four for a thread if they are not small.
    int pieces = params->nth == 1 ? 1 : std::min(parts(4 * params->nth, groups), std::max(1, rows / 16));
    int size = parts(rows, std::max(pieces, parts(rows, MOST_ROWS)));
    size = size > LANES ? std::min(MOST_ROWS, rounded_up(size, LANES)) : size;
    pieces = parts(rows, size);

    if (params->ith == 0) {
        ggml_threadpool_chunk_set(params->threadpool, params->nth);
    }
    ggml_barrier(params->threadpool);
    for (int i = params->ith; i < groups * pieces; i = ggml_threadpool_chunk_add(params->threadpool, 1)) {
        const int group = i / pieces, first = i % pieces * size;
        Piece(params, dst, group / k->ne[2], group % k->ne[2], first, std::min(size, rows - first)).compute();
    }
    return true;
}

}  // namespace srb

#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
#endif
