// Products of weights with the columns of a batch: ggml's mul_mat and mul_mat_id for a CPU with AVX2, AVX512 or NEON.
//
// ggml has several kernels, for one column and for many, most of which unpack a weight again for each column, and each adds in
// an order of its own. Here a block of 16 rows (8 with AVX2, 4 with NEON) of quantized weights is unpacked once and multiplied with all
// columns (mul_mat_quantized.h), and floats are loaded once for several (mul_mat_floats.h), so that n branches cost little more than
// one. And a result depends on its row and its column alone, since each type has one order of sums: neither the number of columns nor
// their order, neither threads nor the width of vectors change a bit of it.

#include "mul_mat.h"

#include "ggml-cpu-impl.h"
#include "mul_mat_vectors.h"

#ifdef SRB_VECTORS
#include <algorithm>
#include <atomic>

#include "mul_mat_floats.h"
#include "mul_mat_quantized.h"

namespace srb {
namespace {

template <ggml_type type> constexpr Kernel QUANTIZED = {false, Column::size, quantize, compute_quantized<type>};
template <ggml_type type, bool in_pairs = FloatWeights<type>::in_pairs>
constexpr Kernel FLOATS = {!in_pairs, float_column_size, write_floats<in_pairs>, compute_floats<type>};

const Kernel * kernel_of(ggml_type type) {
    switch (type) {
        case GGML_TYPE_F32: return &FLOATS<GGML_TYPE_F32>;
        case GGML_TYPE_F16: return &FLOATS<GGML_TYPE_F16>;
        case GGML_TYPE_BF16: return &FLOATS<GGML_TYPE_BF16>;
        case GGML_TYPE_Q4_0: return &QUANTIZED<GGML_TYPE_Q4_0>;
        case GGML_TYPE_Q4_1: return &QUANTIZED<GGML_TYPE_Q4_1>;
        case GGML_TYPE_Q5_0: return &QUANTIZED<GGML_TYPE_Q5_0>;
        case GGML_TYPE_Q5_1: return &QUANTIZED<GGML_TYPE_Q5_1>;
        case GGML_TYPE_Q8_0: return &QUANTIZED<GGML_TYPE_Q8_0>;
        case GGML_TYPE_Q4_K: return &QUANTIZED<GGML_TYPE_Q4_K>;
        case GGML_TYPE_Q5_K: return &QUANTIZED<GGML_TYPE_Q5_K>;
        case GGML_TYPE_Q6_K: return &QUANTIZED<GGML_TYPE_Q6_K>;
        case GGML_TYPE_IQ4_NL: return &QUANTIZED<GGML_TYPE_IQ4_NL>;
        case GGML_TYPE_IQ4_XS: return &QUANTIZED<GGML_TYPE_IQ4_XS>;
        default: return nullptr;
    }
}

// The kernel of a product that is computed here: of a matrix, row after row, with floats, number after number; others have none.
const Kernel * kernel_for(const ggml_tensor * dst) {
    if (dst->op != GGML_OP_MUL_MAT && dst->op != GGML_OP_MUL_MAT_ID) {  // ggml's convolutions call its products with no name
        return nullptr;
    }
    const ggml_tensor * a = dst->src[0], * b = dst->src[1];
    const bool fits = b->type == GGML_TYPE_F32 && a->nb[0] == ggml_type_size(a->type) && b->nb[0] == sizeof(float) &&
                      dst->type == GGML_TYPE_F32 && dst->nb[0] == sizeof(float);
    return fits ? kernel_of(a->type) : nullptr;
}

uint8_t * aligned(void * p) { return (uint8_t *) (((uintptr_t) p + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE); }

// Whether the kernel reads the columns of `b` where they are: attention's, without flash attention, may take gigabytes.
bool is_read_in_place(const Kernel & kernel, const ggml_tensor * b) {
    return kernel.reads_floats && b->ne[0] % BLOCK == 0 && ggml_is_contiguous(b);
}

size_t written_size(const Kernel & kernel, const ggml_tensor * b) {
    return is_read_in_place(kernel, b) ? 0 : kernel.column_size(b->ne[0]) * ggml_nrows(b);
}

// Return all columns of `b` as the kernel reads them: in place, or written to `work`, each thread its part of each.
uint8_t * write_all(const Kernel & kernel, const ggml_compute_params * params, const ggml_tensor * b, uint8_t * work) {
    if (is_read_in_place(kernel, b)) {
        return (uint8_t *) b->data;
    }
    const int64_t n_blocks = (b->ne[0] + BLOCK - 1) / BLOCK;
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
        kernel.write_column((const float *) x, b->ne[0], begin, end, work + c * kernel.column_size(b->ne[0]));
    }
    return work;
}

// A thread's parts of a product: its own first, in their order, so that what it fetches ahead is what it reads next, and the same rows
// lie in its core's caches at the next token; then what others have left, since one of them may have been interrupted.
struct alignas(CACHE_LINE) Share {
    std::atomic<int64_t> next;
    int64_t end;
};
constexpr size_t SHARES_SIZE = GGML_MAX_N_THREADS * sizeof(Share);
constexpr int MOST_HELPED = 8;  // shares that a thread looks at: of 64 threads each would read 64 counters to find no work

void take_share(const ggml_compute_params * params, Share * shares, int64_t parts) {
    Share & own = shares[params->ith];
    own.next.store(params->ith * parts / params->nth, std::memory_order_relaxed);
    own.end = (params->ith + 1) * parts / params->nth;
}

template <class Compute> void compute_shares(const ggml_compute_params * params, Share * shares, const Compute & compute) {
    for (int i = 0; i < std::min(params->nth, MOST_HELPED); i++) {
        Share & share = shares[(params->ith + i) % params->nth];
        while (share.next.load(std::memory_order_relaxed) < share.end) {  // read first: a counter that is done stays in all caches
            const int64_t part = share.next.fetch_add(1, std::memory_order_relaxed);
            if (part < share.end) {
                compute(part);
            }
        }
    }
}

// Rows that a thread takes at once: a multiple of UNIT, some eight parts for each thread.
int64_t rows_at_once(int64_t n_rows, int64_t n_columns, int threads) {
    const int64_t unit = n_columns < MANY_COLUMNS ? UNIT : MOST_GROUPS * UNIT;
    return std::max<int64_t>(unit, n_rows / (8 * threads) / unit * unit);
}

}  // namespace
}  // namespace srb

size_t srb_mul_mat_size(const ggml_tensor * dst) {
    const srb::Kernel * kernel = srb::kernel_for(dst);
    if (!kernel) {
        return 0;
    }
    const ggml_tensor * b = dst->src[1];
    size_t size = srb::written_size(*kernel, b) + srb::SHARES_SIZE + srb::CACHE_LINE;
    if (dst->op == GGML_OP_MUL_MAT_ID) {
        size += (dst->src[0]->ne[2] + 1 + 2 * ggml_nelements(dst->src[2])) * sizeof(int32_t);
    }
    return size;
}

bool srb_mul_mat(const ggml_compute_params * params, ggml_tensor * dst) {
    using namespace srb;
    const ggml_tensor * a = dst->src[0], * b = dst->src[1];
    const Kernel * kernel = kernel_for(dst);
    if (params->use_ref || !kernel) {
        return false;
    }
    const size_t column_size = kernel->column_size(b->ne[0]);
    GGML_ASSERT(params->wsize >= srb_mul_mat_size(dst));
    Share * shares = (Share *) aligned(params->wdata);
    uint8_t * columns = write_all(*kernel, params, b, (uint8_t *) shares + SHARES_SIZE);
    const int64_t rows = a->ne[1], at_once = rows_at_once(rows, b->ne[1], params->nth);
    const int64_t parts = (rows + at_once - 1) / at_once, matrices = b->ne[2] * b->ne[3];
    take_share(params, shares, parts * matrices);
    ggml_barrier(params->threadpool);

    compute_shares(params, shares, [&](int64_t part) {
        const int64_t matrix = part / parts, i2 = matrix % b->ne[2], i3 = matrix / b->ne[2];
        const char * weights = (const char *) a->data + i2 / (b->ne[2] / a->ne[2]) * a->nb[2] + i3 / (b->ne[3] / a->ne[3]) * a->nb[3];
        float * out = (float *) ((char *) dst->data + i2 * dst->nb[2] + i3 * dst->nb[3]);
        const Job job{b->ne[0],    b->ne[1], columns + matrix * b->ne[1] * column_size,
                      column_size, out,      (int64_t) (dst->nb[1] / sizeof(float))};
        const int64_t begin = part % parts * at_once;
        kernel->compute(job, (const uint8_t *) weights, a->nb[1], begin, std::min(begin + at_once, rows));
    });
    return true;
}

bool srb_mul_mat_id(const ggml_compute_params * params, ggml_tensor * dst) {
    using namespace srb;
    const ggml_tensor * a = dst->src[0], * b = dst->src[1], * ids = dst->src[2];
    const Kernel * kernel = kernel_for(dst);
    if (params->use_ref || !kernel || dst->nb[2] % dst->nb[1]) {
        return false;
    }
    const size_t column_size = kernel->column_size(b->ne[0]);
    const int64_t n_experts = a->ne[2], n_used = ids->ne[0], n_tokens = ids->ne[1];
    GGML_ASSERT(params->wsize >= srb_mul_mat_size(dst));
    Share * shares = (Share *) aligned(params->wdata);
    uint8_t * work = (uint8_t *) shares + SHARES_SIZE, * columns = write_all(*kernel, params, b, work);
    const int64_t rows = a->ne[1], at_once = rows_at_once(rows, 1, params->nth);
    const int64_t parts = (rows + at_once - 1) / at_once;
    take_share(params, shares, parts * n_experts);
    // For each expert where its entries begin; then of each entry the column, and the row of results.
    int32_t * begins = (int32_t *) (work + written_size(*kernel, b));
    int32_t * which = begins + n_experts + 1, * to = which + n_used * n_tokens;
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
    }
    ggml_barrier(params->threadpool);

    // After the loop from behind begins[e + 1] is where expert e begins, and the last one ends with all.
    const auto begin_of = [&](int64_t e) { return e < n_experts ? begins[e + 1] : (int32_t) (n_used * n_tokens); };
    compute_shares(params, shares, [&](int64_t part) {
        const int64_t expert = part / parts, first = begin_of(expert), n = begin_of(expert + 1) - first;
        if (n == 0) {
            return;
        }
        const Job job{b->ne[0],      n,        columns, column_size, (float *) dst->data, (int64_t) (dst->nb[1] / sizeof(float)),
                      which + first, to + first};
        const int64_t begin = part % parts * at_once;
        kernel->compute(job, (const uint8_t *) a->data + expert * a->nb[2], a->nb[1], begin, std::min(begin + at_once, rows));
    });
    return true;
}

#else  // another processor: ggml computes them

size_t srb_mul_mat_size(const ggml_tensor *) { return 0; }
bool srb_mul_mat(const ggml_compute_params *, ggml_tensor *) { return false; }
bool srb_mul_mat_id(const ggml_compute_params *, ggml_tensor *) { return false; }

#endif
