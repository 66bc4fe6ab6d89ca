// What the kernels for weights of each type have in common: the columns that they take, and what mul_mat.cpp asks of them.

#pragma once

#include <cstddef>
#include <cstdint>

namespace srb {

constexpr int BLOCK = 32;  // numbers of a column that lie together
constexpr size_t CACHE_LINE = 64;  // bytes

// One product's columns: where a column's numbers are, and where its results go.
struct Job {
    int64_t n;  // numbers of a column
    int64_t n_columns;
    uint8_t * columns;  // as the kernel reads them, `column_size` bytes each
    size_t column_size;
    float * out;
    int64_t out_stride;
    // of mul_mat_id: which columns, and the results of each; otherwise all in order
    const int32_t * which = nullptr;
    const int32_t * to = nullptr;

    uint8_t * column(int64_t c) const { return columns + (which ? which[c] : c) * column_size; }
    float * result(int64_t c) const { return out + (to ? to[c] : c) * out_stride; }
};

struct Kernel {
    bool reads_floats;  // whole blocks of them as they are; columns with others are written first
    size_t (*column_size)(int64_t n);  // bytes
    // Write the blocks [begin, end) of a column of `n` floats as the kernel reads them.
    void (*write_column)(const float * x, int64_t n, int64_t begin, int64_t end, uint8_t * column);
    // Compute the rows [begin, end) of a product; `begin` is a multiple of UNIT.
    void (*compute)(const Job & job, const uint8_t * matrix, size_t stride, int64_t begin, int64_t end);
};

constexpr int UNIT = 16;  // rows: as many as the widest vector has lanes
constexpr int MANY_COLUMNS = 8;  // for which weights are unpacked for more rows at once

}  // namespace srb
