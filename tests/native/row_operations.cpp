// native/row_operations.h on its own, under sanitizers: norms and gelu of random rows, the same to the last bit as ggml computes them
// row after row and number after number. tests/process/test_kernels.py compiles it against ggml's headers and libraries.
//
//     row_operations [seed] [cases]
#include "row_operations.h"

#include "ggml-cpu.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

static std::mt19937 generator;

static int within(int least, int most) { return least + (int) (generator() % (unsigned) (most - least + 1)); }

static float any_number() {
    static const float special[] = { 0.0f, -0.0f, 10.0f, -10.0f, 9.996f, -9.996f, 1e-30f, 65520.0f, INFINITY, -INFINITY,
                                     std::numeric_limits<float>::quiet_NaN() };
    return within(0, 3) ? std::normal_distribution<float>(0, 4)(generator) : special[generator() % std::size(special)];
}

// Rows in memory that ends where they end, with room between them.
struct Rows {
    ggml_tensor tensor = {};
    std::unique_ptr<float[]> memory;

    Rows(int64_t ne0, int64_t ne1, int64_t ne2, int64_t between) {
        const int64_t ne[] = { ne0, ne1, ne2, 1 };
        std::copy_n(ne, 4, tensor.ne);
        tensor.type = GGML_TYPE_F32;
        tensor.nb[0] = sizeof(float);
        tensor.nb[1] = (ne0 + between) * sizeof(float);
        tensor.nb[2] = tensor.nb[1] * ne1;
        tensor.nb[3] = tensor.nb[2] * ne2;
        const int64_t size = (ne0 + between) * (ne1 * ne2 - 1) + ne0;
        memory.reset(new float[size]);
        for (int64_t i = 0; i < size; i++) {
            memory[i] = std::normal_distribution<float>(0, within(0, 20) ? 1 : 1e4f)(generator);
        }
        tensor.data = memory.get();
    }
    float * row(int64_t i1, int64_t i2) { return (float *) ((char *) tensor.data + i1 * tensor.nb[1] + i2 * tensor.nb[2]); }
};

static bool norms_are_the_same() {
    const int n = within(1, 700), heads = within(1, 9), tokens = within(1, 20), threads = within(1, 4);
    Rows x(n, heads, tokens, within(0, 5)), y(n, heads, tokens, within(0, 5)), w(n, within(0, 1) ? 1 : heads, 1, 0);
    const bool has_weights = within(0, 1), in_place = within(0, 1);
    const float eps = within(0, 1) ? 1e-6f : 1e-5f;
    std::vector<float> expected;
    for (int t = 0; t < tokens; t++) {
        for (int h = 0; h < heads; h++) {
            const float * row = x.row(h, t), * weights = w.row(h % w.tensor.ne[1], 0);
            double sum = 0;
            for (int i = 0; i < n; i++) {
                sum += (double) (row[i] * row[i]);
            }
            const float mean = sum / n, scale = 1.0f / sqrtf(mean + eps);
            for (int i = 0; i < n; i++) {
                expected.push_back(has_weights ? row[i] * scale * weights[i] : row[i] * scale);
            }
        }
    }
    Rows & out = in_place ? x : y;
    for (int thread = 0; thread < threads; thread++) {
        const ggml_compute_params params = { thread, threads, 0, nullptr, nullptr, false };
        srb::rms_norm(&params, &x.tensor, has_weights ? &w.tensor : nullptr, &out.tensor, eps);
    }
    bool same = true;
    for (int row = 0; row < heads * tokens; row++) {
        same = same && !memcmp(out.row(row % heads, row / heads), &expected[row * n], n * sizeof(float));
    }
    return same;
}

static bool gelu_is_the_same() {
    const int n = within(1, 100);
    std::unique_ptr<float[]> x(new float[n]), gate(new float[n]), y(new float[n]), expected(new float[n]);
    std::generate_n(x.get(), n, any_number);
    std::generate_n(gate.get(), n, [] { return std::normal_distribution<float>()(generator); });
    ggml_vec_geglu_f32(n, expected.get(), x.get(), gate.get());
    srb::geglu(n, y.get(), x.get(), gate.get());
    return !memcmp(y.get(), expected.get(), n * sizeof(float));
}

int main(int argc, char ** argv) {
    const int seed = argc > 1 ? atoi(argv[1]) : 0, cases = argc > 2 ? atoi(argv[2]) : 100;
#if defined(__x86_64__)
    ggml_cpu_init();  // its table of halves
#endif
    for (int i = 0; i < 1 << 16; i++) {
        ggml_table_gelu_f16[i] = (ggml_fp16_t) (i * 40503u & 0xfbff);  // any finite numbers, each place another
    }
    int failed = 0;
    for (int i = 0; i < cases; i++) {
        generator.seed(seed + i);
        failed += !norms_are_the_same() || !gelu_is_the_same();
    }
    printf("%d cases, %d failed\n", cases, failed);
    return failed != 0;
}
