// Cells of a KV store without holes between them, so that there is room behind every sequence's last one.
// native/patches/12-cells-behind.patch includes this in llama-kv-cache.cpp.

#pragma once

static constexpr size_t MOST_MOVED = size_t(1) << 30; // bytes; moving more would hold up all texts for a second

// Whether a sequence's cells would not lie in the order of its positions, with the tokens of a ubatch in these cells.
bool llama_kv_cache::is_out_of_order(const slot_info & sinfo, const llama_ubatch & ubatch) const {
    std::vector<uint32_t> last(LLAMA_MAX_SEQ);
    const auto & cells = v_cells[sinfo.strm[0]];

    for (uint32_t i = 0; i < ubatch.n_seqs_unq; ++i) {
        const auto & held = cells.seq_pos_get(ubatch.seq_id_unq[i]);
        last[ubatch.seq_id_unq[i]] = held.empty() ? 0 : held.rbegin()->second;
    }
    for (uint32_t i = 0; i < ubatch.n_tokens; ++i) {
        uint32_t & behind = last[ubatch.seq_id[i][0]];
        if (sinfo.idxs[0][i] < behind) {
            return true;
        }
        behind = sinfo.idxs[0][i];
    }
    return false;
}

// Move all cells to the beginning, in their order; return whether that made room for so many tokens behind them.
bool llama_kv_cache::compact(uint32_t n_tokens) {
    auto & cells = v_cells[0];

    // cells that another cache shares, or that a device may still read, stay where they are
    if (n_stream != 1 || other || v_cells_impl.use_count() > 1 || cells.get_has_shift() || cells.get_used() + n_tokens > cells.size()) {
        return false;
    }
    size_t bytes = 0; // of a cell, in all layers
    for (const auto & layer : layers) {
        for (const ggml_tensor * tensor : { layer.k, layer.v }) {
            if (!tensor) {
                continue;
            }
            if (!tensor->buffer || ggml_backend_buffer_get_type(tensor->buffer) != ggml_backend_cpu_buffer_type()) {
                return false;
            }
            bytes += tensor->nb[1];
        }
    }

    struct run { uint32_t from, to, count; };
    std::vector<run>      runs;
    std::vector<uint32_t> from, to;
    uint32_t end = 0; // of the cells that have their places
    for (uint32_t i = 0; i < cells.size(); ++i) {
        if (cells.is_empty(i)) {
            continue;
        }
        if (i != end) {
            if (runs.empty() || runs.back().from + runs.back().count != i) {
                runs.push_back({ i, end, 0 });
            }
            runs.back().count++;
            from.push_back(i);
            to  .push_back(end);
        }
        end++;
    }
    if (from.empty() || bytes * from.size() > MOST_MOVED) {
        return false;
    }

    // runs move towards the beginning, first ones first, so none overwrites one that has not moved
    for (const auto & layer : layers) {
        for (const ggml_tensor * tensor : { layer.k, layer.v }) {
            if (!tensor) {
                continue;
            }
            const bool is_turned = tensor == layer.v && v_trans; // the values of all cells for each place in a row
            const int64_t n_rows = is_turned ? tensor->ne[0] : 1;
            const size_t  size   = is_turned ? ggml_type_size(tensor->type) : tensor->nb[1];
            for (int64_t row = 0; row < n_rows; ++row) {
                auto * data = (uint8_t *) tensor->data + row * size * cells.size();
                for (const auto & each : runs) {
                    memmove(data + each.to * size, data + each.from * size, each.count * size);
                }
            }
        }
    }
    const auto moved = cells.cp(from);
    for (const uint32_t i : from) {
        cells.rm(i);
    }
    cells.set(to, moved);
    v_heads[0] = end;
    return true;
}

// Find cells for a ubatch, behind each sequence's last one if there is room for its tokens at all.
llama_kv_cache::slot_info llama_kv_cache::find_slot_behind(const llama_ubatch & ubatch) {
    const auto sinfo = find_slot(ubatch, false);
    if (!sinfo.empty() && n_stream == 1 && is_out_of_order(sinfo, ubatch) && compact(ubatch.n_tokens)) {
        return find_slot(ubatch, false);
    }
    return sinfo;
}
