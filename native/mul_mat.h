// Products of weights with the columns of a batch: see mul_mat.cpp.

#pragma once

#include "ggml.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ggml_compute_params;

// Bytes of work memory that the product needs; 0 if it is not computed here.
size_t srb_mul_mat_size(const struct ggml_tensor * dst);

// Compute this thread's part of a product, of one matrix or of experts' matrices; false if it is not computed here.
bool srb_mul_mat(const struct ggml_compute_params * params, struct ggml_tensor * dst);
bool srb_mul_mat_id(const struct ggml_compute_params * params, struct ggml_tensor * dst);

#ifdef __cplusplus
}
#endif
