// Operations on rows that take ggml longer than they need, with the same results to the last bit.
// native/patches/15-row-operations.patch calls them in llama.cpp.

#pragma once

#include <algorithm>
#include <cmath>

#include "ggml-cpu-impl.h"
#include "mul_mat_vectors.h"
#include "vec.h"

namespace srb {

constexpr int NORMS_AT_ONCE = 8;

// Sums of the squares of some rows, each from its first number to its last: the next addition waits for the one before, so that of
// eight rows takes hardly longer than of one.
template <int rows> static void add_squares(const float * const * x, int64_t n, double * sums) {
    double own[rows] = {};
    for (int64_t i = 0; i < n; i++) {
        for (int r = 0; r < rows; r++) {
            own[r] += (double) (x[r][i] * x[r][i]);
        }
    }
    std::copy_n(own, rows, sums);
}

// Compute the norms of this thread's rows of `src`, each times the row of `weights` that belongs to it, if there are some.
static void rms_norm(const ggml_compute_params * params, const ggml_tensor * src, const ggml_tensor * weights, ggml_tensor * dst, float eps) {
    const int64_t n = src->ne[0], all = ggml_nrows(src);
    const int64_t begin = params->ith * all / params->nth, end = (params->ith + 1) * all / params->nth;
    const auto row_of = [](const ggml_tensor * tensor, int64_t row, const ggml_tensor * as) {
        const int64_t i1 = row % as->ne[1], i2 = row / as->ne[1] % as->ne[2], i3 = row / as->ne[1] / as->ne[2];
        return (float *) ((char *) tensor->data + i1 % tensor->ne[1] * tensor->nb[1] + i2 % tensor->ne[2] * tensor->nb[2] +
                          i3 % tensor->ne[3] * tensor->nb[3]);
    };
    for (int64_t first = begin; first < end; first += NORMS_AT_ONCE) {
        const float * x[NORMS_AT_ONCE];
        double sums[NORMS_AT_ONCE];
        const int some = (int) std::min<int64_t>(NORMS_AT_ONCE, end - first);
        for (int r = 0; r < some; r++) {
            x[r] = row_of(src, first + r, src);
        }
        if (some == NORMS_AT_ONCE) {
            add_squares<NORMS_AT_ONCE>(x, n, sums);
        } else {
            for (int r = 0; r < some; r++) {
                add_squares<1>(x + r, n, sums + r);
            }
        }
        for (int r = 0; r < some; r++) {
            const float mean = sums[r] / n, scale = 1.0f / sqrtf(mean + eps);
            const float * w = weights ? row_of(weights, first + r, src) : nullptr;
            float * y = row_of(dst, first + r, src);
            for (int64_t i = 0; i < n; i++) {
                y[i] = w ? x[r][i] * scale * w[i] : x[r][i] * scale;
            }
        }
    }
}

// y = gelu(x) * gate, by ggml's table of gelu for all numbers of 16 bits.
static void geglu(int n, float * y, const float * x, const float * gate) {
    int i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16) {
        const __m512 value = _mm512_loadu_ps(x + i);
        const __m512i place = _mm512_cvtepu16_epi32(_mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
        // two of the table at once: a read of 32 bits from the last one alone would go beyond it
        const __m512i two = _mm512_i32gather_epi32(_mm512_srli_epi32(place, 1), ggml_table_gelu_f16, 4);
        const __m512i bits = _mm512_srlv_epi32(two, _mm512_slli_epi32(_mm512_and_si512(place, _mm512_set1_epi32(1)), 4));
        __m512 gelu = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(bits));
        gelu = _mm512_mask_mov_ps(gelu, _mm512_cmp_ps_mask(value, _mm512_set1_ps(10.0f), _CMP_GE_OQ), value);
        gelu = _mm512_mul_ps(gelu, _mm512_loadu_ps(gate + i));
        _mm512_storeu_ps(y + i, _mm512_mask_mov_ps(gelu, _mm512_cmp_ps_mask(value, _mm512_set1_ps(-10.0f), _CMP_LE_OQ), _mm512_setzero_ps()));
    }
#elif defined(__AVX2__) && defined(__F16C__)
    for (; i + 8 <= n; i += 8) {
        const __m256 value = _mm256_loadu_ps(x + i);
        const __m256i place = _mm256_cvtepu16_epi32(_mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
        const __m256i two = _mm256_i32gather_epi32((const int *) ggml_table_gelu_f16, _mm256_srli_epi32(place, 1), 4);
        const __m256i bits = _mm256_srlv_epi32(two, _mm256_slli_epi32(_mm256_and_si256(place, _mm256_set1_epi32(1)), 4));
        __m256 gelu = half_floats(_mm256_and_si256(bits, _mm256_set1_epi32(0xffff)));
        gelu = _mm256_blendv_ps(gelu, value, _mm256_cmp_ps(value, _mm256_set1_ps(10.0f), _CMP_GE_OQ));
        gelu = _mm256_mul_ps(gelu, _mm256_loadu_ps(gate + i));
        _mm256_storeu_ps(y + i, _mm256_andnot_ps(_mm256_cmp_ps(value, _mm256_set1_ps(-10.0f), _CMP_LE_OQ), gelu));
    }
#endif
    if (i < n) {
        ggml_vec_geglu_f32(n - i, y + i, x + i, gate + i);
    }
}

}  // namespace srb
