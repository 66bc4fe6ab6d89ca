// Vectors of one lane for each of ROWS rows of weights, for AVX512, AVX2 and NEON, as mul_mat.cpp needs them.

#pragma once

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define SRB_VECTORS
#include <immintrin.h>
#elif defined(__ARM_NEON) && defined(__ARM_FEATURE_DOTPROD)
#define SRB_VECTORS
#include <arm_neon.h>
#endif

#ifdef SRB_VECTORS
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

// GCC leaves some of what is called for each block as functions, whose arguments go through memory: then a product takes thrice as long.
#define SRB_INLINE inline __attribute__((always_inline))

namespace srb {

// A group of rows; where the matrix has fewer, the last one stands for those that are missing.
template <bool whole_, bool straight_ = false> struct Rows {
    static constexpr bool whole = whole_, straight = straight_;
    const uint8_t * first;
    size_t stride;
    int last;
    const uint8_t * operator[](int r) const { return first + (whole ? r : std::min(r, last)) * stride; }
    Rows operator+(size_t bytes) const { return {first + bytes, stride, last}; }
};

#if defined(__AVX2__)
using Table = __m128i;
inline Table load_table(const uint8_t * numbers) { return _mm_loadu_si128((const __m128i *) numbers); }

inline __m128i four_bytes(const void * p) {
    int32_t x;
    std::memcpy(&x, p, sizeof(x));
    return _mm_cvtsi32_si128(x);
}

inline float largest_of(const float * x) {  // of 32, without their signs
    __m256 most = _mm256_setzero_ps();
    for (int i = 0; i < 32; i += 8) {
        most = _mm256_max_ps(most, _mm256_andnot_ps(_mm256_set1_ps(-0.0f), _mm256_loadu_ps(x + i)));
    }
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(most), _mm256_extractf128_ps(most, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    m = _mm_max_ss(m, _mm_movehdup_ps(m));
    return _mm_cvtss_f32(m);
}

// Round 32 floats, each times `factor`, to bytes; `halves` become the sums of the first 16 and of the others.
inline void round_to_bytes(const float * x, float factor, int8_t * bytes, int32_t halves[2]) {
    __m256i q[4];
    for (int i = 0; i < 4; i++) {
        q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), _mm256_set1_ps(factor)));
    }
    for (int h = 0; h < 2; h++) {
        const __m256i sums = _mm256_add_epi32(q[2 * h], q[2 * h + 1]);
        __m128i s = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
        s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
        s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
        halves[h] = _mm_cvtsi128_si32(s);
    }
    const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    _mm256_storeu_si256((__m256i *) bytes, _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
}

inline float sum_of_eight(__m256 x) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
#endif

// `sum_of` adds 16 lanes: those that are eight apart, then four, two and one, whatever the width.

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
using Ints = __m512i;
using Floats = __m512;
constexpr int ROWS = 16;
constexpr int MOST_PAIRED = 2;  // groups of rows whose sums stay in registers together
constexpr int SUMS_AT_ONCE = 24;  // vectors of sums that stay in registers, beside weights and a column
inline Floats load_floats(const float * p) { return _mm512_loadu_ps(p); }
inline Floats load_halves(const uint16_t * p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *) p)); }
inline Ints load_ints(const void * p) { return _mm512_loadu_si512(p); }
inline Floats as_floats(Ints x) { return _mm512_castsi512_ps(x); }
inline float sum_of(const Floats * x) {
    const __m256 upper = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(*x), 1));
    return sum_of_eight(_mm256_add_ps(_mm512_castps512_ps256(*x), upper));
}
inline void store_floats(float * p, Floats x) { _mm512_storeu_ps(p, x); }
inline Ints all(int32_t x) { return _mm512_set1_epi32(x); }
inline Floats all(float x) { return _mm512_set1_ps(x); }
inline Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
inline Floats mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
inline Ints add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
inline Floats to_floats(Ints x) { return _mm512_cvtepi32_ps(x); }
inline Ints bit_and(Ints a, Ints b) { return _mm512_and_si512(a, b); }
inline Ints bit_or(Ints a, Ints b) { return _mm512_or_si512(a, b); }
inline Ints bit_xor(Ints a, Ints b) { return _mm512_xor_si512(a, b); }
template <int n> inline Ints right(Ints x) { return _mm512_srli_epi32(x, n); }
template <int n> inline Ints left(Ints x) { return _mm512_slli_epi32(x, n); }
template <int n> inline Ints signed_right(Ints x) { return _mm512_srai_epi32(x, n); }
inline Floats half_floats(Ints x) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x)); }
inline Ints zero() { return _mm512_setzero_si512(); }
#if defined(__AVX512VNNI__)
#define SRB_STRAIGHT  // a single column is multiplied with rows as they lie, since sums of bytes can be taken along a row
constexpr bool DOTS_ARE_WIDE = true;  // sums of products of bytes have 32 bits from the first on
// `u` has bytes without a sign, `s` with one; each lane adds the products of its four.
inline Ints dot(Ints sum, Ints u, Ints s) { return _mm512_dpbusd_epi32(sum, u, s); }
#else
constexpr bool DOTS_ARE_WIDE = false;  // two products are added in 16 bits: bytes without a sign are at most 64, then
#define SRB_PAIRS
inline Ints pairs(Ints u, Ints s) { return _mm512_maddubs_epi16(u, s); }  // sums of two products
inline Ints add_pairs(Ints a, Ints b) { return _mm512_add_epi16(a, b); }
inline Ints add_all(Ints sum, Ints pairs) { return add(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1))); }
inline Ints dot(Ints sum, Ints u, Ints s) { return add_all(sum, pairs(u, s)); }
#endif
// The same, of bytes that both have a sign.
inline Ints signed_dot(Ints sum, Ints a, Ints b) {
    const Ints with_sign = _mm512_mask_sub_epi8(b, _mm512_movepi8_mask(a), _mm512_setzero_si512(), b);
    return dot(sum, _mm512_abs_epi8(a), with_sign);
}
inline Ints lookup(Table table, Ints x) { return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), x); }
inline Ints copies_of_byte(int i, Ints x) {  // four of each row's byte i
    const int32_t byte = i * 0x01010101;
    const __m128i lanes = _mm_setr_epi32(byte, byte + 0x04040404, byte + 0x08080808, byte + 0x0c0c0c0c);
    return _mm512_shuffle_epi8(x, _mm512_broadcast_i32x4(lanes));
}
inline Ints sixteen_where(Ints bits, Ints x) {  // 16 in each byte of `bits` whose only bit `x` has
    return _mm512_maskz_set1_epi8(_mm512_test_epi8_mask(x, bits), 16);
}

// The same 16 bytes of each row, straight: vector i has those of the rows i, i + 4, i + 8 and i + 12.
template <class Some> SRB_INLINE void load_rows(Some row, Ints out[4]) {
    const auto part = [&](int r) __attribute__((always_inline)) { return _mm_loadu_si128((const __m128i *) row[r]); };
    for (int r = 0; r < 4; r++) {
        __m512i x = _mm512_castsi128_si512(part(r));
        x = _mm512_inserti32x4(x, part(r + 4), 1);
        x = _mm512_inserti32x4(x, part(r + 8), 2);
        out[r] = _mm512_inserti32x4(x, part(r + 12), 3);
    }
}

// The same 16 bytes of each row, as four vectors of four bytes a row.
template <class Some> SRB_INLINE void transpose(Some row, Ints out[4]) {
    Ints x[4];
    load_rows(row, x);
    const Ints ab0 = _mm512_unpacklo_epi32(x[0], x[1]), ab1 = _mm512_unpackhi_epi32(x[0], x[1]);
    const Ints cd0 = _mm512_unpacklo_epi32(x[2], x[3]), cd1 = _mm512_unpackhi_epi32(x[2], x[3]);
    out[0] = _mm512_unpacklo_epi64(ab0, cd0);
    out[1] = _mm512_unpackhi_epi64(ab0, cd0);
    out[2] = _mm512_unpacklo_epi64(ab1, cd1);
    out[3] = _mm512_unpackhi_epi64(ab1, cd1);
}

// The sums of the four lanes that each row has in vectors of load_rows, a lane for each row.
SRB_INLINE Ints sums_of_rows(const Ints x[4]) {
    const Ints ab = add(_mm512_unpacklo_epi32(x[0], x[1]), _mm512_unpackhi_epi32(x[0], x[1]));
    const Ints cd = add(_mm512_unpacklo_epi32(x[2], x[3]), _mm512_unpackhi_epi32(x[2], x[3]));
    return add(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}
SRB_INLINE Ints all_long(uint64_t x) { return _mm512_set1_epi64((int64_t) x); }
SRB_INLINE Ints sixteen(const int8_t * x) { return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *) x)); }

// Of each row that vector `i` of load_rows has, bits of its first or its last 16 numbers, from `bits` with a lane for each row.
SRB_INLINE Ints copies_of_two_bytes(int i, int half, Ints bits) {
    const int64_t byte = (4 * i + 2 * half) * 0x0101010101010101, next = byte + 0x0101010101010101;
    return _mm512_shuffle_epi8(bits, _mm512_broadcast_i32x4(_mm_set_epi64x(next, byte)));
}
template <class Some> SRB_INLINE Ints gather(Some row) {  // four bytes of each
    const auto part = [&](int r) __attribute__((always_inline)) { return four_bytes(row[r]); };
    const auto four = [&](int r) __attribute__((always_inline)) {
        const __m128i low = _mm_unpacklo_epi32(part(r), part(r + 1)), high = _mm_unpacklo_epi32(part(r + 2), part(r + 3));
        return _mm_unpacklo_epi64(low, high);
    };
    const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(four(0)), four(4), 1);
    const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(four(8)), four(12), 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
#elif defined(__AVX2__)
using Ints = __m256i;
using Floats = __m256;
constexpr int ROWS = 8;
constexpr int MOST_PAIRED = 1;  // of 16 registers, the sums of one group take most
constexpr int SUMS_AT_ONCE = 12;
inline Floats load_floats(const float * p) { return _mm256_loadu_ps(p); }
inline Floats load_halves(const uint16_t * p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) p)); }
inline Ints load_ints(const void * p) { return _mm256_loadu_si256((const __m256i *) p); }
inline Floats as_floats(Ints x) { return _mm256_castsi256_ps(x); }
inline float sum_of(const Floats * x) { return sum_of_eight(_mm256_add_ps(x[0], x[1])); }
inline void store_floats(float * p, Floats x) { _mm256_storeu_ps(p, x); }
inline Ints all(int32_t x) { return _mm256_set1_epi32(x); }
inline Floats all(float x) { return _mm256_set1_ps(x); }
inline Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
inline Floats mul(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
inline Ints add(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
inline Floats to_floats(Ints x) { return _mm256_cvtepi32_ps(x); }
inline Ints bit_and(Ints a, Ints b) { return _mm256_and_si256(a, b); }
inline Ints bit_or(Ints a, Ints b) { return _mm256_or_si256(a, b); }
inline Ints bit_xor(Ints a, Ints b) { return _mm256_xor_si256(a, b); }
template <int n> inline Ints right(Ints x) { return _mm256_srli_epi32(x, n); }
template <int n> inline Ints left(Ints x) { return _mm256_slli_epi32(x, n); }
template <int n> inline Ints signed_right(Ints x) { return _mm256_srai_epi32(x, n); }
inline Floats half_floats(Ints x) {
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(x, x), 0x08);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
}
inline Ints zero() { return _mm256_setzero_si256(); }
#if defined(__AVXVNNI__)
constexpr bool DOTS_ARE_WIDE = true;  // sums of products of bytes have 32 bits from the first on
inline Ints dot(Ints sum, Ints u, Ints s) { return _mm256_dpbusd_avx_epi32(sum, u, s); }
#else
constexpr bool DOTS_ARE_WIDE = false;  // two products are added in 16 bits: bytes without a sign are at most 64, then
#define SRB_PAIRS
inline Ints pairs(Ints u, Ints s) { return _mm256_maddubs_epi16(u, s); }  // sums of two products
inline Ints add_pairs(Ints a, Ints b) { return _mm256_add_epi16(a, b); }
inline Ints add_all(Ints sum, Ints pairs) { return add(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))); }
inline Ints dot(Ints sum, Ints u, Ints s) { return add_all(sum, pairs(u, s)); }
#endif
// The same, of bytes that both have a sign.
inline Ints signed_dot(Ints sum, Ints a, Ints b) {
    return dot(sum, _mm256_abs_epi8(a), _mm256_sign_epi8(b, a));
}
inline Ints lookup(Table table, Ints x) { return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), x); }
inline Ints copies_of_byte(int i, Ints x) {  // four of each row's byte i
    const int32_t byte = i * 0x01010101;
    return _mm256_shuffle_epi8(x, _mm256_setr_epi32(byte, byte + 0x04040404, byte + 0x08080808, byte + 0x0c0c0c0c,
                                                    byte, byte + 0x04040404, byte + 0x08080808, byte + 0x0c0c0c0c));
}
inline Ints sixteen_where(Ints bits, Ints x) {  // 16 in each byte of `bits` whose only bit `x` has
    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(x, bits), bits), _mm256_set1_epi8(16));
}

// The same 16 bytes of each row, as four vectors of four bytes a row.
template <class Some> SRB_INLINE void transpose(Some row, Ints out[4]) {
    const auto part = [&](int r) __attribute__((always_inline)) { return _mm_loadu_si128((const __m128i *) row[r]); };
    const auto two = [&](int r) __attribute__((always_inline)) {
        return _mm256_inserti128_si256(_mm256_castsi128_si256(part(r)), part(r + 4), 1);
    };
    const __m256i a = two(0), b = two(1), c = two(2), d = two(3);
    const __m256i ab0 = _mm256_unpacklo_epi32(a, b), ab1 = _mm256_unpackhi_epi32(a, b);
    const __m256i cd0 = _mm256_unpacklo_epi32(c, d), cd1 = _mm256_unpackhi_epi32(c, d);
    out[0] = _mm256_unpacklo_epi64(ab0, cd0);
    out[1] = _mm256_unpackhi_epi64(ab0, cd0);
    out[2] = _mm256_unpacklo_epi64(ab1, cd1);
    out[3] = _mm256_unpackhi_epi64(ab1, cd1);
}
template <class Some> SRB_INLINE Ints gather(Some row) {  // four bytes of each
    const auto part = [&](int r) __attribute__((always_inline)) { return four_bytes(row[r]); };
    const auto four = [&](int r) __attribute__((always_inline)) {
        return _mm_unpacklo_epi64(_mm_unpacklo_epi32(part(r), part(r + 1)), _mm_unpacklo_epi32(part(r + 2), part(r + 3)));
    };
    return _mm256_inserti128_si256(_mm256_castsi128_si256(four(0)), four(4), 1);
}
#else
using Ints = int32x4_t;
using Floats = float32x4_t;
using Table = uint8x16_t;
constexpr int ROWS = 4;
constexpr int MOST_PAIRED = 2;
constexpr int SUMS_AT_ONCE = 24;
inline Table load_table(const uint8_t * numbers) { return vld1q_u8(numbers); }
inline Floats load_floats(const float * p) { return vld1q_f32(p); }
inline Floats load_halves(const uint16_t * p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
inline Ints load_ints(const void * p) { return vld1q_s32((const int32_t *) p); }
inline Floats as_floats(Ints x) { return vreinterpretq_f32_s32(x); }
inline float sum_of(const Floats * x) {
    const Floats four = vaddq_f32(vaddq_f32(x[0], x[2]), vaddq_f32(x[1], x[3]));
    const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(vpadd_f32(two, two), 0);
}
inline void store_floats(float * p, Floats x) { vst1q_f32(p, x); }
inline Ints all(int32_t x) { return vdupq_n_s32(x); }
inline Floats all(float x) { return vdupq_n_f32(x); }
inline Floats fma(Floats a, Floats b, Floats c) { return vfmaq_f32(c, a, b); }
inline Floats mul(Floats a, Floats b) { return vmulq_f32(a, b); }
inline Ints add(Ints a, Ints b) { return vaddq_s32(a, b); }
inline Floats to_floats(Ints x) { return vcvtq_f32_s32(x); }
inline Ints bit_and(Ints a, Ints b) { return vandq_s32(a, b); }
inline Ints bit_or(Ints a, Ints b) { return vorrq_s32(a, b); }
inline Ints bit_xor(Ints a, Ints b) { return veorq_s32(a, b); }
template <int n> inline Ints right(Ints x) {
    if constexpr (n == 0) {  // which the instruction can't
        return x;
    } else {
        return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(x), n));
    }
}
template <int n> inline Ints left(Ints x) { return vshlq_n_s32(x, n); }
template <int n> inline Ints signed_right(Ints x) { return vshrq_n_s32(x, n); }
inline Floats half_floats(Ints x) { return vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(vreinterpretq_u32_s32(x)))); }
inline Ints zero() { return vdupq_n_s32(0); }
// The instruction takes bytes with a sign: those without are at most 64, as for AVX2.
constexpr bool DOTS_ARE_WIDE = false;
inline Ints signed_dot(Ints sum, Ints a, Ints b) { return vdotq_s32(sum, vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b)); }
inline Ints dot(Ints sum, Ints u, Ints s) { return signed_dot(sum, u, s); }
inline Ints lookup(Table table, Ints x) { return vreinterpretq_s32_u8(vqtbl1q_u8(table, vreinterpretq_u8_s32(x))); }
inline Ints copies_of_byte(int i, Ints x) {  // four of each row's byte i
    const uint8x16_t lanes = {0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12};
    return vreinterpretq_s32_u8(vqtbl1q_u8(vreinterpretq_u8_s32(x), vaddq_u8(lanes, vdupq_n_u8(i))));
}
inline Ints sixteen_where(Ints bits, Ints x) {  // 16 in each byte of `bits` whose only bit `x` has
    return vreinterpretq_s32_u8(vandq_u8(vtstq_u8(vreinterpretq_u8_s32(x), vreinterpretq_u8_s32(bits)), vdupq_n_u8(16)));
}

template <class Some> SRB_INLINE void transpose(Some row, Ints out[4]) {
    const auto part = [&](int r) __attribute__((always_inline)) { return vreinterpretq_s32_u8(vld1q_u8(row[r])); };
    const Ints a = part(0), b = part(1), c = part(2), d = part(3);
    const auto pairs = [](Ints x, Ints y) { return vreinterpretq_s64_s32(vzip1q_s32(x, y)); };
    const auto last_pairs = [](Ints x, Ints y) { return vreinterpretq_s64_s32(vzip2q_s32(x, y)); };
    out[0] = vreinterpretq_s32_s64(vzip1q_s64(pairs(a, b), pairs(c, d)));
    out[1] = vreinterpretq_s32_s64(vzip2q_s64(pairs(a, b), pairs(c, d)));
    out[2] = vreinterpretq_s32_s64(vzip1q_s64(last_pairs(a, b), last_pairs(c, d)));
    out[3] = vreinterpretq_s32_s64(vzip2q_s64(last_pairs(a, b), last_pairs(c, d)));
}
template <class Some> SRB_INLINE Ints gather(Some row) {
    int32_t lanes[ROWS];
    for (int r = 0; r < ROWS; r++) {
        std::memcpy(lanes + r, row[r], sizeof(int32_t));
    }
    return vld1q_s32(lanes);
}

inline float largest_of(const float * x) {
    Floats most = vdupq_n_f32(0);
    for (int i = 0; i < 32; i += 4) {
        most = vmaxq_f32(most, vabsq_f32(vld1q_f32(x + i)));
    }
    return vmaxvq_f32(most);
}

inline void round_to_bytes(const float * x, float factor, int8_t * bytes, int32_t halves[2]) {
    for (int h = 0; h < 2; h++) {
        int32x4_t q[4];
        for (int i = 0; i < 4; i++) {
            q[i] = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 16 * h + 4 * i), factor));
        }
        halves[h] = vaddvq_s32(vaddq_s32(vaddq_s32(q[0], q[1]), vaddq_s32(q[2], q[3])));
        const int16x8_t low = vcombine_s16(vqmovn_s32(q[0]), vqmovn_s32(q[1]));
        const int16x8_t high = vcombine_s16(vqmovn_s32(q[2]), vqmovn_s32(q[3]));
        vst1q_s8(bytes + 16 * h, vcombine_s8(vqmovn_s16(low), vqmovn_s16(high)));
    }
}
#endif

}  // namespace srb
#endif
