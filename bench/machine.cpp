// Speeds of this machine that no program exceeds: of reading a file that is in memory, and of products of 8-bit numbers.
//
//     machine read FILE THREADS      bytes a second
//     machine products THREADS       multiplications, with their additions, a second, by vectors
//     machine tiles THREADS          the same, by AMX; 0 without it

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

constexpr int ROUNDS = 12;  // of which the fastest counts
constexpr int LOOPS = 1 << 20;
constexpr int SUMS = 12;  // that do not wait for each other

// Return the seconds of the fastest round, in which all threads run `work(thread)` at once.
template <class Work> double fastest(int threads, const Work & work) {
    using Clock = std::chrono::steady_clock;
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        std::atomic<int> ready{0};
        std::vector<Clock::time_point> begins(threads), ends(threads);
        std::vector<std::thread> running;
        for (int t = 0; t < threads; t++) {
            running.emplace_back([&, t] {
                ready++;
                while (ready < threads) {
                }
                begins[t] = Clock::now();
                work(t);
                ends[t] = Clock::now();
            });
        }
        for (auto & each : running) {
            each.join();
        }
        const auto began = *std::min_element(begins.begin(), begins.end()), ended = *std::max_element(ends.begin(), ends.end());
        best = std::min(best, std::chrono::duration<double>(ended - began).count());
    }
    return best;
}

double read_file(const char * path, int threads) {
    const int file = open(path, O_RDONLY);
    struct stat found;
    if (file < 0 || fstat(file, &found)) {
        perror(path);
        exit(1);
    }
    const size_t words = found.st_size / sizeof(uint64_t);
    void * mapped = mmap(nullptr, found.st_size, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
    if (mapped == MAP_FAILED) {
        perror(path);
        exit(1);
    }
    const uint64_t * data = (const uint64_t *) mapped;
    std::vector<uint64_t> sums(threads * 8);  // each in a line of its own
    const double seconds = fastest(threads, [&](int t) {
        uint64_t sum = 0;
        for (size_t i = t * words / threads; i < (t + 1) * words / threads; i++) {
            sum += data[i];
        }
        sums[8 * t] += sum;
    });
    uint64_t all = 0;
    for (const uint64_t sum : sums) {
        all += sum;
    }
    if (all == 1) {  // or the compiler would read nothing
        puts("");
    }
    return words * sizeof(uint64_t) / seconds;
}

// One addition of products to each of the sums, and how many products that are.
#if defined(__AVX512VNNI__)
using Vector = __m512i;
constexpr int PRODUCTS = 64;
inline Vector add(Vector sum, Vector a, Vector b) { return _mm512_dpbusd_epi32(sum, a, b); }
inline Vector all(int x) { return _mm512_set1_epi32(x); }
#elif defined(__AVXVNNI__)
using Vector = __m256i;
constexpr int PRODUCTS = 32;
inline Vector add(Vector sum, Vector a, Vector b) { return _mm256_dpbusd_avx_epi32(sum, a, b); }
inline Vector all(int x) { return _mm256_set1_epi32(x); }
#elif defined(__AVX2__)
using Vector = __m256i;
constexpr int PRODUCTS = 32;  // added in 16 bits, as many as have room there
inline Vector add(Vector sum, Vector a, Vector b) { return _mm256_add_epi16(sum, _mm256_maddubs_epi16(a, b)); }
inline Vector all(int x) { return _mm256_set1_epi32(x); }
#elif defined(__ARM_FEATURE_DOTPROD)
using Vector = int32x4_t;
constexpr int PRODUCTS = 16;
inline Vector add(Vector sum, Vector a, Vector b) { return vdotq_s32(sum, vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b)); }
inline Vector all(int x) { return vdupq_n_s32(x); }
#else
using Vector = int;
constexpr int PRODUCTS = 1;
inline Vector add(Vector sum, Vector a, Vector b) { return sum + a * b; }
inline Vector all(int x) { return x; }
#endif
#if defined(__aarch64__)
#define KEEP(x) asm volatile("" : "+w"(x))
#elif defined(__AVX2__)
#define KEEP(x) asm volatile("" : "+v"(x))
#else
#define KEEP(x) asm volatile("" : "+r"(x))
#endif

double multiply(int threads) {
    const double seconds = fastest(threads, [&](int) {
        Vector sums[SUMS], a = all(0x01020304), b = all(0x04030201);
        for (Vector & sum : sums) {
            sum = all(0);
        }
        for (int i = 0; i < LOOPS; i++) {
            KEEP(a);
            KEEP(b);
#pragma GCC unroll 12
            for (int s = 0; s < SUMS; s++) {
                sums[s] = add(sums[s], a, b);
            }
        }
        for (Vector & sum : sums) {
            KEEP(sum);
        }
    });
    return (double) PRODUCTS * SUMS * LOOPS * threads / seconds;
}

#if defined(__AMX_INT8__)
constexpr int REQUEST = 0x1023, TILES = 18;  // of arch_prctl: a process asks for the tiles' registers

double multiply_tiles(int threads) {
    if (syscall(SYS_arch_prctl, REQUEST, TILES)) {
        return 0;
    }
    const double seconds = fastest(threads, [&](int) {
        alignas(64) uint8_t form[64] = {1};
        for (int tile = 0; tile < 8; tile++) {
            const uint16_t bytes = 64;
            memcpy(form + 16 + 2 * tile, &bytes, 2);
            form[48 + tile] = 16;
        }
        _tile_loadconfig(form);
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        _tile_zero(4);
        _tile_zero(5);
        _tile_zero(6);
        _tile_zero(7);
        for (int i = 0; i < LOOPS / 4; i++) {
            _tile_dpbusd(0, 4, 6);
            _tile_dpbusd(1, 4, 7);
            _tile_dpbusd(2, 5, 6);
            _tile_dpbusd(3, 5, 7);
        }
        _tile_release();
    });
    return 16.0 * 16 * 64 * LOOPS * threads / seconds;
}
#else
double multiply_tiles(int) { return 0; }
#endif

int main(int argc, char ** argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    if (what == "read" && argc == 4) {
        printf("%.0f\n", read_file(argv[2], atoi(argv[3])));
    } else if (what == "products" && argc == 3) {
        printf("%.0f\n", multiply(atoi(argv[2])));
    } else if (what == "tiles" && argc == 3) {
        printf("%.0f\n", multiply_tiles(atoi(argv[2])));
    } else {
        fprintf(stderr, "machine read FILE THREADS | products THREADS | tiles THREADS\n");
        return 2;
    }
    return 0;
}
