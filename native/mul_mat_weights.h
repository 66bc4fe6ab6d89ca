// Weights of each type as 8-bit numbers with scales: a block of 32 of each of ROWS rows, a lane for each row.
//
// A type says how its bytes lie; what is computed with them, and in which order, is mul_mat.cpp's and the same for all.

#pragma once

#include <cstddef>

#define GGML_COMMON_DECL_CPP
#include "ggml-common.h"
#include "ggml.h"
#include "mul_mat_job.h"
#include "mul_mat_vectors.h"

namespace srb {

// `bits`: of the largest number. `offset_bits`: the numbers are too large by 2^offset_bits, so that none has a sign; 0: by nothing.
// `halves`: each 16 numbers have a scale of their own. `mins`: a block has a number that is added to each, times its scale.
// `has_sign`: the numbers are as they are in the file, for processors whose sums of larger ones would overflow.
template <int bits_, int offset_bits_, bool halves_ = false, bool mins_ = false, bool has_sign_ = false> struct Form {
    static constexpr int bits = bits_, offset_bits = offset_bits_;
    static constexpr bool halves = halves_, mins = mins_, has_sign = has_sign_;
};
constexpr bool KEEPS_SIGN = !DOTS_ARE_WIDE;
using EightBits = Form<8, KEEPS_SIGN ? 0 : 7, false, false, KEEPS_SIGN>;

struct Unpacked {  // a block of each row
    Ints values[8];  // four numbers of each
    Floats scales[2];  // of the numbers, or of their halves
    Floats min;
};

// `blocks`: how many blocks lie together in the file, and are unpacked together.
template <ggml_type type> struct Weights;

SRB_INLINE void nibbles(const Ints raw[4], Ints * low, Ints * high) {
    const Ints mask = all((int32_t) 0x0f0f0f0f);
    for (int i = 0; i < 4; i++) {
        low[i] = bit_and(raw[i], mask);
        high[i] = bit_and(right<4>(raw[i]), mask);
    }
}

// The same 16 bytes of each row, of numbers: straight for a single column, otherwise a lane for each row.
template <class Some> SRB_INLINE void load_numbers(Some row, Ints out[4]) {
#ifdef SRB_STRAIGHT
    if constexpr (Some::straight) {
        load_rows(row, out);
        return;
    }
#endif
    transpose(row, out);
}

// 32 numbers of four bits in 16 bytes: the lower ones of all bytes come first.
template <class Some> SRB_INLINE void unpack_nibbles(Some bytes, Ints * values) {
    Ints raw[4];
    load_numbers(bytes, raw);
    nibbles(raw, values, values + 4);
}

// A block's first two bytes are its scale, and in some types the next two are its min.
template <class Some> SRB_INLINE Floats scale_of(Some row) { return half_floats(bit_and(gather(row), all(0xffff))); }

template <class Some> SRB_INLINE void scale_and_min(Some row, Unpacked * out) {
    const Ints both = gather(row);
    out->scales[0] = half_floats(bit_and(both, all(0xffff)));
    out->min = half_floats(right<16>(both));
}

template <> struct Weights<GGML_TYPE_Q4_0> : Form<4, 3> {
    using block = block_q4_0;
    static constexpr int blocks = 1;
    template <class Some> SRB_INLINE static void unpack(Some row, Unpacked * out) {
        unpack_nibbles(row + offsetof(block, qs), out->values);
        out->scales[0] = scale_of(row);
    }
};

template <> struct Weights<GGML_TYPE_Q4_1> : Form<4, 0, false, true> {
    using block = block_q4_1;
    static constexpr int blocks = 1;
    template <class Some> SRB_INLINE static void unpack(Some row, Unpacked * out) {
        unpack_nibbles(row + offsetof(block, qs), out->values);
        scale_and_min(row, out);
    }
};

template <> struct Weights<GGML_TYPE_Q8_0> : EightBits {
    using block = block_q8_0;
    static constexpr int blocks = 1;
    template <class Some> SRB_INLINE static void unpack(Some row, Unpacked * out) {
        load_numbers(row + offsetof(block, qs), out->values);
        load_numbers(row + offsetof(block, qs) + 16, out->values + 4);
        if (!KEEPS_SIGN) {
            for (int i = 0; i < 8; i++) {
                out->values[i] = bit_xor(out->values[i], all((int32_t) 0x80808080));
            }
        }
        out->scales[0] = scale_of(row);
    }
};

// Scales and mins of six bits, four rows of dwords: see get_scale_min_k4 of ggml.
SRB_INLINE void k4_scales(const Ints head[4], Unpacked * out) {
    const Floats d = half_floats(bit_and(head[0], all(0xffff)));
    const Floats dmin = mul(half_floats(right<16>(head[0])), all(-1.0f));
    const Ints low6 = all(0x3f3f3f3f), low4 = all(0x0f0f0f0f), low2 = all(0x03030303);
    const Ints scales[2] = {bit_and(head[1], low6),
                            bit_or(bit_and(head[3], low4), left<4>(bit_and(right<6>(head[1]), low2)))};
    const Ints mins[2] = {bit_and(head[2], low6),
                          bit_or(bit_and(right<4>(head[3]), low4), left<4>(bit_and(right<6>(head[2]), low2)))};
    const Ints byte = all(0xff);
    for (int i = 0; i < 2; i++) {
        Unpacked * o = out + 4 * i;
        o[0].scales[0] = mul(d, to_floats(bit_and(scales[i], byte)));
        o[1].scales[0] = mul(d, to_floats(bit_and(right<8>(scales[i]), byte)));
        o[2].scales[0] = mul(d, to_floats(bit_and(right<16>(scales[i]), byte)));
        o[3].scales[0] = mul(d, to_floats(right<24>(scales[i])));
        o[0].min = mul(dmin, to_floats(bit_and(mins[i], byte)));
        o[1].min = mul(dmin, to_floats(bit_and(right<8>(mins[i]), byte)));
        o[2].min = mul(dmin, to_floats(bit_and(right<16>(mins[i]), byte)));
        o[3].min = mul(dmin, to_floats(right<24>(mins[i])));
    }
}

template <> struct Weights<GGML_TYPE_Q4_K> : Form<4, 0, false, true> {
    using block = block_q4_K;
    static constexpr int blocks = 8;
    template <class Some> SRB_INLINE static void unpack(Some row, Unpacked * out) {
        Ints raw[4];
        transpose(row, raw);
        k4_scales(raw, out);
        for (int pair = 0; pair < 4; pair++) {
            for (int half = 0; half < 2; half++) {
                load_numbers(row + offsetof(block, qs) + 32 * pair + 16 * half, raw);
                nibbles(raw, out[2 * pair].values + 4 * half, out[2 * pair + 1].values + 4 * half);
            }
        }
    }
};

template <> struct Weights<GGML_TYPE_Q5_K> : Form<5, 0, false, true> {
    using block = block_q5_K;
    static constexpr int blocks = 8;
    template <class Some> SRB_INLINE static void unpack(Some row, Unpacked * out) {
        Ints raw[4], high[8];
        transpose(row, raw);
        k4_scales(raw, out);
        load_numbers(row + offsetof(block, qh), high);
        load_numbers(row + offsetof(block, qh) + 16, high + 4);
        const Ints bit = all(0x10101010);
        for (int pair = 0; pair < 4; pair++) {
            for (int half = 0; half < 2; half++) {
                load_numbers(row + offsetof(block, qs) + 32 * pair + 16 * half, raw);
                Ints * low = out[2 * pair].values + 4 * half, * up = out[2 * pair + 1].values + 4 * half;
                nibbles(raw, low, up);
                for (int i = 0; i < 4; i++) {
                    Ints & bits = high[4 * half + i];  // the next two bits of each byte are those of this pair
                    low[i] = bit_or(low[i], bit_and(left<4>(bits), bit));
                    up[i] = bit_or(up[i], bit_and(left<3>(bits), bit));
                    bits = right<2>(bits);
                }
            }
        }
    }
};

template <> struct Weights<GGML_TYPE_Q6_K> : Form<6, 5, true> {
    using block = block_q6_K;
    static constexpr int blocks = 8;
    template <class Some> SRB_INLINE static void unpack(Some row, Unpacked * out) {
        Ints raw[4], scales[4];
        transpose(row + offsetof(block, scales), scales);
        const Floats d = half_floats(right<16>(gather(row + (offsetof(block, d) - 2))));  // its last two bytes
        for (int i = 0; i < 4; i++) {
            out[2 * i].scales[0] = mul(d, to_floats(signed_right<24>(left<24>(scales[i]))));
            out[2 * i].scales[1] = mul(d, to_floats(signed_right<24>(left<16>(scales[i]))));
            out[2 * i + 1].scales[0] = mul(d, to_floats(signed_right<24>(left<8>(scales[i]))));
            out[2 * i + 1].scales[1] = mul(d, to_floats(signed_right<24>(scales[i])));
        }
        const Ints two = all(0x30303030);
        for (int part = 0; part < 2; part++) {  // 128 numbers
            const Some low = row + offsetof(block, ql) + 64 * part, up = row + offsetof(block, qh) + 32 * part;
            for (int half = 0; half < 2; half++) {
                Ints high[4];
                load_numbers(up + 16 * half, high);
                Unpacked * o = out + 4 * part;
                load_numbers(low + 16 * half, raw);
                nibbles(raw, o[0].values + 4 * half, o[2].values + 4 * half);
                load_numbers(low + 32 + 16 * half, raw);
                nibbles(raw, o[1].values + 4 * half, o[3].values + 4 * half);
                for (int i = 0; i < 4; i++) {
                    const int at = 4 * half + i;
                    o[0].values[at] = bit_or(o[0].values[at], bit_and(left<4>(high[i]), two));
                    o[1].values[at] = bit_or(o[1].values[at], bit_and(left<2>(high[i]), two));
                    o[2].values[at] = bit_or(o[2].values[at], bit_and(high[i], two));
                    o[3].values[at] = bit_or(o[3].values[at], bit_and(right<2>(high[i]), two));
                }
            }
        }
    }
};

// Add to the numbers of each row 16 where their bits are set, which lie together: bit i is the number i's.
template <class Some> SRB_INLINE void add_fifth_bits(Ints bits, Ints * values) {
#ifdef SRB_STRAIGHT
    if constexpr (Some::straight) {
        for (int i = 0; i < 8; i++) {
            const Ints each = all_long(0x8040201008040201);
            values[i] = bit_or(values[i], sixteen_where(each, copies_of_two_bytes(i % 4, i / 4, bits)));
        }
        return;
    }
#endif
    for (int byte = 0; byte < 4; byte++) {
        const Ints copies = copies_of_byte(byte, bits);
        values[2 * byte] = bit_or(values[2 * byte], sixteen_where(all(0x08040201), copies));
        values[2 * byte + 1] = bit_or(values[2 * byte + 1], sixteen_where(all((int32_t) 0x80402010), copies));
    }
}

template <> struct Weights<GGML_TYPE_Q5_0> : Form<5, 4> {
    using block = block_q5_0;
    static constexpr int blocks = 1;
    template <class Some> SRB_INLINE static void unpack(Some row, Unpacked * out) {
        unpack_nibbles(row + offsetof(block, qs), out->values);
        add_fifth_bits<Some>(gather(row + offsetof(block, qh)), out->values);
        out->scales[0] = scale_of(row);
    }
};

template <> struct Weights<GGML_TYPE_Q5_1> : Form<5, 0, false, true> {
    using block = block_q5_1;
    static constexpr int blocks = 1;
    template <class Some> SRB_INLINE static void unpack(Some row, Unpacked * out) {
        unpack_nibbles(row + offsetof(block, qs), out->values);
        add_fifth_bits<Some>(gather(row + offsetof(block, qh)), out->values);
        scale_and_min(row, out);
    }
};

// The 16 numbers that four bits stand for in IQ4_NL and IQ4_XS: kvalues_iq4nl of ggml.
struct FourBits {
    uint8_t numbers[16] = {};
    constexpr explicit FourBits(int offset) {
        constexpr int exact[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
        for (int i = 0; i < 16; i++) {
            numbers[i] = (uint8_t) (exact[i] + offset);
        }
    }
};

SRB_INLINE void look_up(Ints * values) {
    static constexpr FourBits table(KEEPS_SIGN ? 0 : 128);
    const Table numbers = load_table(table.numbers);
    for (int i = 0; i < 8; i++) {
        values[i] = lookup(numbers, values[i]);
    }
}

template <> struct Weights<GGML_TYPE_IQ4_NL> : EightBits {
    using block = block_iq4_nl;
    static constexpr int blocks = 1;
    template <class Some> SRB_INLINE static void unpack(Some row, Unpacked * out) {
        unpack_nibbles(row + offsetof(block, qs), out->values);
        look_up(out->values);
        out->scales[0] = scale_of(row);
    }
};

template <> struct Weights<GGML_TYPE_IQ4_XS> : EightBits {
    using block = block_iq4_xs;
    static constexpr int blocks = 8;
    template <class Some> SRB_INLINE static void unpack(Some row, Unpacked * out) {
        const Ints head = gather(row), low = gather(row + offsetof(block, scales_l));
        const Floats d = half_floats(bit_and(head, all(0xffff)));
        scales<0>(d, low, head, out);
        for (int b = 0; b < blocks; b++) {
            unpack_nibbles(row + offsetof(block, qs) + 16 * b, out[b].values);
            look_up(out[b].values);
        }
    }

  private:
    // Six bits, too large by 32: four of `low`, and two of the upper half of `head`.
    template <int b> static void scales(Floats d, Ints low, Ints head, Unpacked * out) {
        const Ints four = bit_and(right<4 * b>(low), all(0xf)), two = bit_and(right<16 + 2 * b>(head), all(3));
        out[b].scales[0] = mul(d, to_floats(add(bit_or(four, left<4>(two)), all(-32))));
        if constexpr (b + 1 < blocks) {
            scales<b + 1>(d, low, head, out);
        }
    }
};

}  // namespace srb
