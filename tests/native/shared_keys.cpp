// native/shared_keys.h on its own, under sanitizers: attention of random shapes beside the same sums in 64 bits, in memory that ends
// where ggml's ends. tests/process/test_kernels.py compiles it against ggml's headers and libraries.
//
//     shared_keys [seed] [cases]
#include "ggml-cpu.h"
#include "ggml-cpu-impl.h"
#include "ggml-impl.h"
#include "common.h"
#include "ops.h"
#include "vec.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "shared_keys.h"

// The threads' meeting, in place of ggml's, whose thread pool is private to it.
static std::mutex mutex;
static std::condition_variable changed;
static int num_threads, num_waiting, num_rounds;
static std::atomic<int> next_chunk;

extern "C" void ggml_barrier(ggml_threadpool *) {
    std::unique_lock lock(mutex);
    const int round = num_rounds;
    if (++num_waiting == num_threads) {
        num_waiting = 0, num_rounds++;
        changed.notify_all();
    } else {
        changed.wait(lock, [&] { return num_rounds != round; });
    }
}
extern "C" void ggml_threadpool_chunk_set(ggml_threadpool *, int value) { next_chunk = value; }
extern "C" int ggml_threadpool_chunk_add(ggml_threadpool *, int value) { return next_chunk.fetch_add(value); }

static std::mt19937 generator;

static int pick(std::initializer_list<int> of) { return of.begin()[generator() % of.size()]; }
static int within(int least, int most) { return least + (int) (generator() % (unsigned) (most - least + 1)); }
static float gaussian() { return std::normal_distribution<float>()(generator); }

struct Case {
    int tokens = within(1, 150), groups = within(1, 3), heads = within(1, 5), threads = pick({ 1, 1, 2, 3, 5 });
    int size_k = pick({ 32, 64, 96, 128, 192, 576 }), size_v = pick({ 32, 64, 80, 128, 512 });
    int cells = pick({ within(1, 400), within(1, 70), within(512, 1100) });
    int sees = within(0, 7), of = within(2, 8);
    ggml_type type_k = (ggml_type) pick({ GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0 });
    ggml_type type_v = (ggml_type) pick({ GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16 });
    float softcap = (float) pick({ 0, 0, 20 }), max_bias = (float) pick({ 0, 0, 8 });
    float scale_of_queries = (float) pick({ 1, 1, 1, 30 });  // large scores: few cells have all the weight
    bool has_sinks = within(0, 1);

    Case() {
        if (within(0, 9) == 0) {  // a few long texts that share nothing
            tokens = within(2, 8), heads = 1, cells = tokens * within(256, 1100), sees = 4;
        }
    }

    bool is_visible(int token, int cell) {
        const int last = std::max(0, cells - tokens) + token;
        switch (sees) {
            case 0: return true;
            case 1: return cell <= last;
            case 2: return cell <= last && cell > last - 20;
            case 3: return cell < cells / of || cell % tokens == token;  // a common beginning, then cells of branches side by side
            case 4: return (long) cell * tokens / cells == token;       // texts that share nothing
            case 5: return cell / 64 % of == 0 || cell % tokens == token;  // beginnings, turns that are common again
            case 6: return cell / 64 % of == token * 2 / tokens || cell % tokens == token;  // of two texts
            default: return generator() % 5 == 0;
        }
    }
};

// A tensor in memory of its own, of exactly its size.
struct Tensor {
    ggml_tensor tensor = {};
    std::unique_ptr<char[]> memory;

    Tensor(ggml_type type, int64_t ne0, int64_t ne1 = 1, int64_t ne2 = 1) {
        const int64_t ne[] = { ne0, ne1, ne2, 1 };
        tensor.type = type;
        std::copy_n(ne, 4, tensor.ne);
        tensor.nb[0] = ggml_type_size(type);
        tensor.nb[1] = ggml_row_size(type, ne0);
        tensor.nb[2] = tensor.nb[1] * ne1;
        tensor.nb[3] = tensor.nb[2] * ne2;
        memory.reset(new char[tensor.nb[3]]);
        tensor.data = memory.get();
    }

    // Rows of random numbers; return them as they are stored.
    std::vector<float> fill(float scale) {
        const int64_t size = tensor.ne[0] * tensor.ne[1] * tensor.ne[2];
        std::vector<float> numbers(size);
        std::generate(numbers.begin(), numbers.end(), [&] { return scale * gaussian(); });
        if (tensor.type == GGML_TYPE_F32) {
            memcpy(tensor.data, numbers.data(), size * sizeof(float));
        } else {
            ggml_quantize_chunk(tensor.type, numbers.data(), tensor.data, 0, size / tensor.ne[0], tensor.ne[0], nullptr);
            ggml_get_type_traits(tensor.type)->to_float(tensor.data, numbers.data(), size);
        }
        return numbers;
    }
};

// Compute a case; return the greatest difference to the sums in 64 bits, and -1 where ggml shall compute it its own way.
static double difference(Case & c) {
    const int n_head = c.groups * c.heads;
    // As they lie in the KV store: the heads of a cell side by side.
    Tensor q(GGML_TYPE_F32, c.size_k, c.tokens, n_head), k(c.type_k, c.size_k, c.groups, c.cells), v(c.type_v, c.size_v, c.groups, c.cells);
    Tensor mask(GGML_TYPE_F16, c.cells, c.tokens), sinks(GGML_TYPE_F32, n_head), dst(GGML_TYPE_F32, c.size_v, n_head, c.tokens);
    const std::vector<float> queries = q.fill(c.scale_of_queries), keys = k.fill(1), values = v.fill(1), sink = sinks.fill(1);
    for (Tensor * each : { &k, &v }) {
        std::swap(each->tensor.ne[1], each->tensor.ne[2]);
        std::swap(each->tensor.nb[1], each->tensor.nb[2]);
    }
    std::vector<float> masks(c.tokens * c.cells);
    for (int i = 0; i < c.tokens * c.cells; i++) {
        masks[i] = !c.is_visible(i / c.cells, i % c.cells) ? -INFINITY : c.max_bias ? -(float) within(0, 8) : 0.0f;
        ((ggml_fp16_t *) mask.tensor.data)[i] = ggml_fp32_to_fp16(masks[i]);
    }
    ggml_tensor * sources[] = { &q.tensor, &k.tensor, &v.tensor, &mask.tensor, c.has_sinks ? &sinks.tensor : nullptr };
    std::copy_n(sources, 5, dst.tensor.src);
    const float params[] = { 1.0f / sqrtf(c.size_k), c.max_bias, c.softcap };
    memcpy(dst.tensor.op_params, params, sizeof(params));

    // What ggml_graph_plan reserves.
    const size_t floats = GGML_FA_TILE_Q * c.size_k + 2 * GGML_FA_TILE_Q * GGML_FA_TILE_KV + GGML_FA_TILE_Q * c.size_v +
                          GGML_FA_TILE_KV * c.size_v + GGML_FA_TILE_KV * c.size_k;
    const size_t size = floats * sizeof(float) * c.threads + CACHE_LINE_SIZE * c.threads;
    const std::unique_ptr<char[]> work(new char[size]);
    std::vector<std::thread> threads;
    std::atomic<int> num_computed = 0;
    num_threads = c.threads;
    for (int thread = 0; thread < c.threads; thread++) {
        threads.emplace_back([&, thread] {
            const ggml_compute_params own = { thread, c.threads, size, work.get(), nullptr, false };
            num_computed += srb::flash_attention(&own, &dst.tensor);
        });
    }
    for (std::thread & each : threads) {
        each.join();
    }
    if (num_computed == 0) {
        return -1;
    }
    GGML_ASSERT(num_computed == c.threads);

    const int power = 1 << (int) log2(n_head);
    double worst = 0;
    std::vector<double> scores(c.cells), sums(c.size_v);
    for (int token = 0; token < c.tokens; token++) {
        for (int head = 0; head < n_head; head++) {
            const int group = head / c.heads;
            const double slope = !c.max_bias ? 1 : head < power ? pow(pow(2, -c.max_bias / power), head + 1)
                                                                : pow(pow(2, -c.max_bias / 2 / power), 2 * (head - power) + 1);
            double highest = c.has_sinks ? sink[head] : -INFINITY, total = 0;
            for (int cell = 0; cell < c.cells; cell++) {
                double score = 0;
                for (int d = 0; d < c.size_k; d++) {
                    score += (double) queries[(head * c.tokens + token) * c.size_k + d] * keys[(cell * c.groups + group) * c.size_k + d];
                }
                score /= sqrt(c.size_k);
                score = (c.softcap ? c.softcap * tanh(score / c.softcap) : score) + slope * masks[token * c.cells + cell];
                scores[cell] = score;
                highest = std::max(highest, score);
            }
            std::fill(sums.begin(), sums.end(), 0.0);
            for (int cell = 0; cell < c.cells && highest > -INFINITY; cell++) {
                const double weight = exp(scores[cell] - highest);
                total += weight;
                for (int d = 0; d < c.size_v && weight > 0; d++) {
                    sums[d] += weight * values[(cell * c.groups + group) * c.size_v + d];
                }
            }
            total += c.has_sinks ? exp(sink[head] - highest) : 0;
            for (int d = 0; d < c.size_v; d++) {
                const double found = ((float *) dst.tensor.data)[(token * n_head + head) * c.size_v + d];
                const double wrong = fabs(found - (total > 0 ? sums[d] / total : 0));
                worst = std::isfinite(wrong) ? std::max(worst, wrong) : INFINITY;
            }
        }
    }
    return worst;
}

int main(int count, char ** words) {
    const int seed = count > 1 ? atoi(words[1]) : 0, cases = count > 2 ? atoi(words[2]) : 100;
    ggml_cpu_init();  // its tables of 16-bit numbers
    int computed = 0, failed = 0;
    for (int i = 0; i < cases; i++) {
        generator.seed(seed + i);
        Case c;
        const double wrong = difference(c), most = c.scale_of_queries > 1 ? 1e-3 : 4e-5;  // large scores: rounded in their last bits
        computed += wrong >= 0;
        if (wrong > most) {
            failed++;
            printf("seed %d: %g; %d tokens, %d groups of %d heads, sizes %d %d, %d cells, sees %d, types %s %s, %d threads\n", seed + i,
                   wrong, c.tokens, c.groups, c.heads, c.size_k, c.size_v, c.cells, c.sees, ggml_type_name(c.type_k),
                   ggml_type_name(c.type_v), c.threads);
        }
    }
    printf("%d cases, %d computed, %d failed\n", cases, computed, failed);
    return failed || computed < cases / 2;
}
