// Random products of each type of weights, computed by native/mul_mat.cpp alone and compared with sums of doubles; and each of
// their columns alone, which must be the same to the last bit. Prints a checksum of all results: the same on each processor.
// Usage: mul_mat_alone FIRST_SEED CASES

#include "mul_mat.cpp"

#include <pthread.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

struct ggml_threadpool {  // what ggml's own does, as far as the kernel asks
    pthread_barrier_t barrier;
};
extern "C" void ggml_barrier(ggml_threadpool * pool) { pthread_barrier_wait(&pool->barrier); }

namespace {

using Random = std::mt19937;

int below(Random & random, int n) { return (int) (random() % (unsigned) n); }

// Memory of exactly these bytes, so that a sanitizer sees each step beyond.
struct Tensor {
    ggml_tensor t = {};
    std::vector<uint8_t> data;

    Tensor(ggml_type type, std::vector<int64_t> ne) {
        t.type = type;
        size_t size = 0;
        for (int i = 0; i < 4; i++) {
            t.ne[i] = i < (int) ne.size() ? ne[i] : 1;
            t.nb[i] = i == 0 ? ggml_type_size(type) : i == 1 ? ggml_row_size(type, t.ne[0]) : t.nb[i - 1] * t.ne[i - 1];
            size = i == 3 ? t.nb[3] * t.ne[3] : 0;
        }
        data.resize(size);
        t.data = data.data();
    }
    float * floats() { return (float *) t.data; }
};

const ggml_type TYPES[] = {GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_Q8_0,
                           GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K, GGML_TYPE_IQ4_NL, GGML_TYPE_IQ4_XS,
                           GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16};

bool is_float(ggml_type type) { return !ggml_is_quantized(type); }

// Of some matrices also zeros, numbers without leading one (of halves, of floats) and the largest of halves.
void fill_float_weights(Random & random, Tensor & a) {
    const float scales[] = {1.0f, 1.0f, 0.0f, 3e-7f, 1e-40f, 6e4f};
    const int kinds = below(random, 3) ? 1 : (int) std::size(scales);
    for (int64_t i = 0; i < ggml_nelements(&a.t); i++) {
        const float x = (float) (below(random, 20001) - 10000) * 1e-4f * scales[below(random, kinds)];
        if (a.t.type == GGML_TYPE_F32) {
            ((float *) a.t.data)[i] = x;
        } else if (a.t.type == GGML_TYPE_F16) {
            ((ggml_fp16_t *) a.t.data)[i] = ggml_fp32_to_fp16(x);
        } else {
            ((ggml_bf16_t *) a.t.data)[i] = ggml_fp32_to_bf16(x);
        }
    }
}

// Any bytes are weights, but scales are halves, which must be finite. Some matrices have the largest numbers alone.
void fill_weights(Random & random, Tensor & a) {
    if (is_float(a.t.type)) {
        return fill_float_weights(random, a);
    }
    const bool largest = below(random, 6) == 0;
    for (auto & byte : a.data) {
        byte = largest ? 0xff : (uint8_t) random();
    }
    const size_t size = ggml_type_size(a.t.type), bytes = a.data.size();
    const bool mins = a.t.type == GGML_TYPE_Q4_1 || a.t.type == GGML_TYPE_Q5_1 || a.t.type == GGML_TYPE_Q4_K || a.t.type == GGML_TYPE_Q5_K;
    for (size_t at = 0; at < bytes; at += size) {
        const ggml_fp16_t d = ggml_fp32_to_fp16((below(random, 2001) - 1000) * 1e-5f);
        const ggml_fp16_t m = ggml_fp32_to_fp16((below(random, 2001) - 1000) * 1e-4f);
        std::memcpy(a.data.data() + at + (a.t.type == GGML_TYPE_Q6_K ? size - 2 : 0), &d, 2);
        if (mins) {
            std::memcpy(a.data.data() + at + 2, &m, 2);
        }
    }
}

void fill_floats(Random & random, Tensor & b, bool of_any_size) {
    const float scale = std::pow(10.0f, (float) (below(random, 9) - 4));
    for (int64_t i = 0; i < ggml_nelements(&b.t); i++) {
        b.floats()[i] = scale * (float) (below(random, 20001) - 10000) / 5000.0f;
    }
    const int kind = below(random, 4);
    if (kind == 0) {  // blocks of zeros, and one number that is far larger than the others
        std::fill(b.floats(), b.floats() + std::min<int64_t>(64, b.t.ne[0]), 0.0f);
        b.floats()[below(random, (int) b.t.ne[0])] = 1e4f * scale;
    } else if (kind == 2) {  // numbers of one size, which become 127 each: with the largest weights no sum is larger
        std::fill(b.floats(), b.floats() + ggml_nelements(&b.t), below(random, 2) ? scale : -scale);
    } else if (kind == 1 && of_any_size) {
        for (const float x : {INFINITY, -INFINITY, 3e38f, -3e38f, 1e-40f}) {
            b.floats()[below(random, (int) ggml_nelements(&b.t))] = x;
        }
    }
}

void run(ggml_tensor * dst, int threads) {
    ggml_threadpool pool;
    pthread_barrier_init(&pool.barrier, nullptr, threads);
    std::vector<uint8_t> work(srb_mul_mat_size(dst), 0x5a);  // as another product left it
    std::vector<std::thread> all;
    for (int i = 0; i < threads; i++) {
        all.emplace_back([&, i] {
            ggml_compute_params params = {i, threads, work.size(), work.data(), &pool, false};
            const bool done = dst->op == GGML_OP_MUL_MAT ? srb_mul_mat(&params, dst) : srb_mul_mat_id(&params, dst);
            if (!done) {
                std::abort();
            }
        });
    }
    for (auto & thread : all) {
        thread.join();
    }
    pthread_barrier_destroy(&pool.barrier);
}

// The same for floats, of which each is added with one rounding, as a sixteenth of all, and then the sixteenths.
bool is_right_for_floats(const Tensor & a, const uint8_t * row, const float * x, float out) {
    const int64_t n = a.t.ne[0];
    std::vector<float> weights(n);
    if (a.t.type == GGML_TYPE_F32) {
        std::memcpy(weights.data(), row, n * sizeof(float));
    } else {
        ggml_get_type_traits(a.t.type)->to_float(row, weights.data(), n);
    }
    double sum = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (double) weights[i] * x[i];
        size += std::abs((double) weights[i] * x[i]);
    }
    if (!std::isfinite(size)) {
        return !std::isfinite(out);
    }
    return size > 1e38 || std::abs(sum - out) <= ((double) n / 16 + 6) * 6e-8 * size + 1e-40;
}

// Whether `out` is the product of row `row` of the weights and a column of floats, as far as 8-bit columns can be it.
bool is_right(const Tensor & a, const uint8_t * row, const float * x, float out) {
    if (is_float(a.t.type)) {
        return is_right_for_floats(a, row, x, out);
    }
    const int64_t n = a.t.ne[0];
    std::vector<float> weights(n);
    ggml_get_type_traits(a.t.type)->to_float(row, weights.data(), n);
    std::vector<uint8_t> bytes(srb::Column::size(n));
    srb::Column column(bytes.data(), n);
    srb::quantize(x, n, 0, n / srb::BLOCK, bytes.data());
    double sum = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        const double exact = (double) column.values[i] * column.scales[i / srb::BLOCK];
        if (std::abs(exact - x[i]) > column.scales[i / srb::BLOCK] * 0.5001) {
            return false;
        }
        sum += weights[i] * exact;
        size += std::abs(weights[i] * exact);
    }
    return std::abs(sum - out) <= 4e-6 * size + 1e-30;
}

bool check(Random & random, uint64_t & checksum) {
    const ggml_type type = TYPES[below(random, std::size(TYPES))];
    const int64_t block = ggml_blck_size(type);
    const int64_t n = block * (1 + below(random, block == 256 ? 6 : block == 32 ? 45 : 1500));
    const bool experts = below(random, 3) == 0;
    const int rows = 1 + below(random, 150), n_columns = 1 + below(random, below(random, 2) ? 4 : 40);
    const int threads = 1 + below(random, below(random, 8) ? 3 : 20);  // more than one helps, and more than there are parts
    const int matrices = 1 + below(random, experts ? 6 : 2), used = experts ? 1 + below(random, matrices) : 1;
    const int repeat = experts ? 1 : 1 + below(random, 2);  // columns of several matrices share one of weights
    Tensor a(type, {n, rows, matrices});
    Tensor b(GGML_TYPE_F32, {n, experts ? (below(random, 2) ? used : 1) : n_columns, experts ? n_columns : matrices * repeat});
    Tensor dst(GGML_TYPE_F32, {rows, experts ? used : n_columns, experts ? n_columns : matrices * repeat});
    Tensor ids(GGML_TYPE_I32, {used, n_columns});
    fill_weights(random, a);
    fill_floats(random, b, is_float(type));
    for (int c = 0; c < n_columns; c++) {
        const int first = below(random, matrices);
        for (int u = 0; u < used; u++) {
            ((int32_t *) ids.t.data)[c * used + u] = (first + u) % matrices;
        }
    }
    dst.t.op = experts ? GGML_OP_MUL_MAT_ID : GGML_OP_MUL_MAT;
    dst.t.src[0] = &a.t;
    dst.t.src[1] = &b.t;
    dst.t.src[2] = experts ? &ids.t : nullptr;
    run(&dst.t, threads);

    bool good = true;
    for (int64_t i2 = 0; i2 < dst.t.ne[2]; i2++) {
        for (int64_t i1 = 0; i1 < dst.t.ne[1]; i1++) {
            const int64_t matrix = experts ? ((int32_t *) ids.t.data)[i2 * used + i1] : i2 / repeat;
            const float * x = b.floats() + (i2 * b.t.ne[1] + i1 % b.t.ne[1]) * n;
            const float * out = dst.floats() + (i2 * dst.t.ne[1] + i1) * rows;
            Tensor one(type, {n, rows}), column(GGML_TYPE_F32, {n, 1}), alone(GGML_TYPE_F32, {rows, 1});
            std::memcpy(one.t.data, (uint8_t *) a.t.data + matrix * a.t.nb[2], one.data.size());
            std::memcpy(column.t.data, x, column.data.size());
            alone.t.op = GGML_OP_MUL_MAT;
            alone.t.src[0] = &one.t;
            alone.t.src[1] = &column.t;
            run(&alone.t, 1 + below(random, 3));
            good = good && !std::memcmp(alone.t.data, out, rows * sizeof(float));
            const int row = below(random, rows);
            good = good && is_right(a, one.data.data() + row * one.t.nb[1], x, out[row]);
        }
    }
    for (int64_t i = 0; i < ggml_nelements(&dst.t); i++) {
        if (std::isnan(dst.floats()[i])) {
            dst.floats()[i] = 0;  // the sign of those without a number is each processor's own
        }
    }
    for (const uint8_t byte : dst.data) {
        checksum = (checksum ^ byte) * 1099511628211u;
    }
    if (!good) {
        std::printf("%s of %d x %d, %d columns, %d matrices%s: wrong\n", ggml_type_name(type), (int) n, rows, n_columns, matrices,
                    experts ? " of experts" : "");
    }
    return good;
}

}  // namespace

int main(int argc, char ** argv) {
    const int first = argc > 1 ? std::atoi(argv[1]) : 0, cases = argc > 2 ? std::atoi(argv[2]) : 100;
    uint64_t checksum = 1469598103934665603u;
    int failed = 0;
    for (int i = 0; i < cases; i++) {
        Random random(first + i);
        failed += !check(random, checksum);
    }
    std::printf("%d cases, %d failed, checksum %llx\n", cases, failed, (unsigned long long) checksum);
    return failed != 0;
}
