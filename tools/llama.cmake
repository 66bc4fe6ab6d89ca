# Leaves out of llama.cpp's build all that nothing here loads: first of all its library `common` (chat parsers, an HTTP
# client), which is half of the compiling. llama-cpp-python's CMakeLists.txt includes this file at its project() when
# CMAKE_ARGS has -DCMAKE_PROJECT_llama_cpp_INCLUDE=/path/to/this/file. It then forces the cache entry LLAMA_BUILD_COMMON to
# ON, but a normal variable wins over a cache entry of the same name (CMake's policies CMP0126 and CMP0077).
set(LLAMA_BUILD_COMMON OFF)

# Warnings about somebody else's sources; looking for them is work too.
set(LLAMA_ALL_WARNINGS OFF)

# llama.cpp installs its libraries into site-packages/lib, and llama-cpp-python a second time into its own folder, from where
# they are loaded: once is enough.
set(CMAKE_INSTALL_LIBDIR llama_cpp/lib)

# The build says by which version of these files it was made: tools/install.py builds anew where pip has kept another's. They
# are copied now, since they may change while llama.cpp is compiled.
foreach(name llama.cmake shared_keys.h)
    configure_file("${CMAKE_CURRENT_LIST_DIR}/${name}" "${name}" COPYONLY)
    install(FILES "${CMAKE_CURRENT_BINARY_DIR}/${name}" DESTINATION llama_cpp/lib)
endforeach()

# Replaces a text in a source file of llama.cpp. Another version of the file, without the text, is built as it is.
function(mend path old new)
    set(path "${CMAKE_CURRENT_SOURCE_DIR}/vendor/llama.cpp/${path}")
    file(READ "${path}" source)
    string(FIND "${source}" "${new}" done)
    string(FIND "${source}" "${old}" place)
    if(done EQUAL -1 AND place EQUAL -1)
        message(WARNING "${path} has changed, and is built as it is. Look whether its fault is gone: tools/llama.cmake.")
    elseif(done EQUAL -1)
        string(REPLACE "${old}" "${new}" source "${source}")
        file(WRITE "${path}" "${source}")
    endif()
endfunction()

# The kernels for AMX, which tests/contract/test_quantized.py compares with plain ones:
#
# 1. GCC's header tells the compiler that ldtilecfg reads 8 bytes, and it reads 64: the compiler may leave out what is written
# into the others, and the first batch ends the program.
mend(ggml/src/ggml-cpu/amx/mmq.cpp "    _tile_loadconfig(&tc);"
    "    __asm__ volatile(\"ldtilecfg\\t%0\" ::\"m\"(tc));")

# 2. Tokens of several sequences come to a layer with states as several matrices, which are multiplied with one weight. For the
# second one the weight is read, and the result written, beyond their ends. All lie in a row: they are one matrix.
mend(ggml/src/ggml-cpu/amx/amx.cpp "            ggml_backend_amx_mul_mat(params, op);"
    "            ggml_tensor rows = *op->src[1], result = *op;
            for (ggml_tensor * each : { &rows, &result }) {
                each->ne[1] *= each->ne[2] * each->ne[3];
                each->ne[2] = each->ne[3] = 1;
                each->nb[2] = each->nb[3] = each->nb[1] * each->ne[1];
            }
            result.src[1] = &rows;
            ggml_backend_amx_mul_mat(params, &result);")

# 3. Of a weight of several matrices, as DeepSeek's attention has, only the first is laid out for the kernels.
mend(ggml/src/ggml-cpu/amx/amx.cpp "        if (!ggml_is_contiguous(src0) || !ggml_is_contiguous(src1)) {"
    "        if (!ggml_is_contiguous(src0) || !ggml_is_contiguous(src1) || src0->ne[2] * src0->ne[3] > 1) {")

# A Pixtral's marks between rows of a picture are added to memory that was never written, times 0: where it happens to hold
# something else than a number, so do the picture's vectors (tests/contract/test_media.py).
mend(tools/mtmd/models/pixtral.cpp "ggml_scale(ctx0, tok, 0.0)"
    "ggml_fill(ctx0, tok, 0.0f)")

# Memory that is set to zero, as that of all cells is at the start, is given back to the system, which has pages of zeros
# for it when they are written: a store takes the memory of the cells that were used, and not of all that it could hold.
mend(ggml/src/ggml-backend.cpp "    memset(buffer->context, value, buffer->size);"
    "#ifdef __linux__
    if (value == 0 && buffer->iface.free_buffer == ggml_backend_cpu_buffer_free_buffer) {
        const size_t page = sysconf(_SC_PAGESIZE), address = (size_t) buffer->context;
        const size_t before = (page - address % page) % page, after = (address + buffer->size) % page;
        if (before + after < buffer->size &&
            madvise((char *) buffer->context + before, buffer->size - before - after, MADV_DONTNEED) == 0) {
            memset(buffer->context, 0, before);
            memset((char *) buffer->context + buffer->size - after, 0, after);
            return;
        }
    }
#endif
    memset(buffer->context, value, buffer->size);")
mend(ggml/src/ggml-backend.cpp "#ifdef __APPLE__
#include <sys/types.h>
"   "#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

#ifdef __APPLE__
#include <sys/types.h>
")

# A sequence's cells are kept in order. A copy of a sequence adds them from the first to the last, and its end removes them
# so: without a search for each place, that takes half of the time. A branch of a text of 100,000 tokens is a copy of as many
# cells: 9 ms in place of 19, and 5 in place of 10.
mend(src/llama-kv-cells.h "        seq_pos[s].insert({ pos[i], i });"
    "        seq_pos[s].emplace_hint(seq_pos[s].end(), pos[i], i);")
mend(src/llama-kv-cells.h "        const auto n = seq_pos[s].erase({ pos[i], i });
        assert(n == 1);
        GGML_UNUSED(n);"
"        auto & cells = seq_pos[s];
        const std::pair<llama_pos, uint32_t> cell = { pos[i], i };
        const auto it = !cells.empty() && *cells.begin() == cell ? cells.begin() : cells.find(cell);
        assert(it != cells.end());
        cells.erase(it);")

# By that order a copy and a cut find the cells of their sequence: their time grows with those, and not with all that there are.
mend(src/llama-kv-cache.cpp "        for (uint32_t i = 0; i < cells.size(); ++i) {
            if (!cells.pos_in(i, p0, p1)) {
                continue;
            }

            if (cells.seq_has(i, seq_id_src)) {
                cells.seq_add(i, seq_id_dst);
            }
        }
"   "        const auto & held = cells.seq_pos_get(seq_id_src);
        for (auto it = held.lower_bound({ p0, 0 }); it != held.end() && it->first < p1; ++it) {
            if (!cells.seq_has(it->second, seq_id_dst)) {
                cells.seq_add(it->second, seq_id_dst);
            }
        }
")
mend(src/llama-kv-cache.cpp "        for (uint32_t i = 0; i < cells.size(); ++i) {
            if (!cells.pos_in(i, p0, p1)) {
                continue;
            }

            if (cells.seq_has(i, seq_id) && cells.seq_rm(i, seq_id)) {
                if (new_head == cells.size()) {
                    new_head = i;
                }
            }
        }
"   "        const auto & held = cells.seq_pos_get(seq_id);
        for (auto it = held.lower_bound({ p0, 0 }); it != held.end() && it->first < p1;) {
            const uint32_t i = (it++)->second;
            if (cells.seq_rm(i, seq_id)) {
                new_head = std::min(new_head, i);
            }
        }
")

# Flash attention that computes all tokens which use the same keys together, where the processor's vectors are of a fixed
# length. llama_print_system_info says that it is there.
configure_file("${CMAKE_CURRENT_LIST_DIR}/shared_keys.h"
    "${CMAKE_CURRENT_SOURCE_DIR}/vendor/llama.cpp/ggml/src/ggml-cpu/shared_keys.h" COPYONLY)
mend(ggml/src/ggml-cpu/ops.cpp "static void ggml_compute_forward_flash_attn_ext_f16(
"   "#include \"shared_keys.h\"

static void ggml_compute_forward_flash_attn_ext_f16(
")
mend(ggml/src/ggml-cpu/ops.cpp "        // total rows in q
        const int64_t nr = neq1*neq2*neq3;

        // disable for NUMA
"   "#ifdef SRB_SHARED_KEYS
        if (!use_ref && srb::flash_attention(params, dst)) {
            return;
        }
#endif
        // total rows in q
        const int64_t nr = neq1*neq2*neq3;

        // disable for NUMA
")
mend(ggml/src/ggml-cpu/ggml-cpu.cpp "        if (ggml_cpu_has_sse3()) {
"   "#if !defined(__ARM_FEATURE_SVE) && !defined(__riscv_v_intrinsic)
        features.push_back({ \"SHARED_KEYS\", \"1\" });
#endif
        if (ggml_cpu_has_sse3()) {
")
