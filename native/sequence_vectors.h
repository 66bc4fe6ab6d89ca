
// Control vectors by sequence: each layer adds to a token's row the vector of its sequence alone.
// native/patches/14-sequence-vectors.patch includes this in llama-adapter.h.

#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "ggml-cpp.h"

namespace srb {

// Vectors in slots: slot 0 is that of sequences without one, which adds nothing.
struct sequence_vectors {
    std::vector<ggml_tensor *> layers; // F32 [n_embd, n_slots]; layer 0 has none
    std::vector<int32_t>       slots;  // of each sequence; behind the last one: 0

    mutable bool has_graph = false; // whether the model's graph adds vectors at all

    // Have room for vectors of layers 1 … n_layer - 1 in slots 1 … n_slots - 1; return whether there was memory.
    bool init(int32_t n_embd, int32_t n_layer, int32_t n_slots, const std::function<ggml_backend_buffer_type_t(int)> & buft_of) {
        layers.clear();
        bufs.clear();
        ctxs.clear();
        std::map<ggml_backend_buffer_type_t, ggml_context *> by_buft;
        std::vector<ggml_tensor *> made(1, nullptr);
        for (int32_t il = 1; il < n_layer; ++il) {
            ggml_context *& ctx = by_buft[buft_of(il)];
            if (!ctx) {
                ctx = ggml_init({ size_t(n_layer)*ggml_tensor_overhead(), nullptr, true });
                ctxs.emplace_back(ctx);
            }
            made.push_back(ggml_new_tensor_2d(ctx, GGML_TYPE_F32, n_embd, n_slots));
        }
        for (const auto & [buft, ctx] : by_buft) {
            ggml_backend_buffer_t buf = ggml_backend_alloc_ctx_tensors_from_buft(ctx, buft);
            if (!buf) {
                return false;
            }
            bufs.emplace_back(buf);
        }
        layers = std::move(made);
        // the sum of a number and -0 is the number itself, also of -0
        const std::vector<float> nothing(size_t(n_embd)*n_slots, -0.0f);
        for (size_t il = 1; il < layers.size(); ++il) {
            ggml_backend_tensor_set(layers[il], nothing.data(), 0, ggml_nbytes(layers[il]));
        }
        return true;
    }

    // Fill a slot with one vector for each layer from 1 on.
    void set(int32_t slot, const float * data) {
        for (size_t il = 1; il < layers.size(); ++il) {
            const size_t size = layers[il]->nb[1];
            ggml_backend_tensor_set(layers[il], (const char *) data + (il - 1)*size, slot*size, size);
        }
    }

    int32_t slot_of(int32_t seq_id) const {
        return size_t(seq_id) < slots.size() ? slots[seq_id] : 0;
    }

    template <typename ubatch_t> bool are_used_by(const ubatch_t & ubatch) const {
        return !slots.empty() && !layers.empty() && std::any_of(ubatch.seq_id_unq, ubatch.seq_id_unq + ubatch.n_seqs_unq, [&](int32_t id) {
            return slot_of(id) != 0;
        });
    }

private:
    std::vector<ggml_context_ptr>        ctxs;
    std::vector<ggml_backend_buffer_ptr> bufs;
};

} // namespace srb
