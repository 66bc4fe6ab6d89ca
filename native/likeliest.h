// The likeliest tokens of a vocabulary, from which a sampler chain may draw as from all of it.

#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "llama.h"

namespace srb {

// The order of candidates: by their logits, equal ones by their numbers, so that it does not depend on what they are sorted with.
inline bool is_likelier(const llama_token_data & a, const llama_token_data & b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

// Make `out` the `count` likeliest tokens, in the order of their numbers; return the least of their logits, which no other token's
// exceeds. Infinity: there are not so many, since the others are forbidden or not numbers.
inline float find_likeliest(const float * logits, int n_vocab, size_t count, std::vector<llama_token_data> & out) {
    constexpr int AT_ONCE = 64;  // that are looked at with vectors; hardly ever one of them is above the bound
    const size_t most = 4 * count;  // before those that are too many are taken out
    float bound = -std::numeric_limits<float>::infinity();
    const auto cut = [&] {
        std::nth_element(out.begin(), out.begin() + (count - 1), out.end(), is_likelier);
        out.resize(count);
        bound = out.back().logit;
    };
    out.clear();
    for (int begin = 0; begin < n_vocab; begin += AT_ONCE) {
        const int end = std::min(begin + AT_ONCE, n_vocab);
        int any = 0;
        for (int token = begin; token < end; token++) {
            any |= logits[token] > bound;
        }
        if (!any) {
            continue;
        }
        for (int token = begin; token < end; token++) {
            if (logits[token] > bound) {
                out.push_back({token, logits[token], 0.0f});
            }
        }
        if (out.size() >= most) {
            cut();
        }
    }
    if (out.size() < count) {
        return std::numeric_limits<float>::infinity();
    }
    cut();
    std::sort(out.begin(), out.end(), [](const llama_token_data & a, const llama_token_data & b) { return a.id < b.id; });
    return bound;
}

}  // namespace srb
