#pragma once
// Every kernel of kernels.def.
#include "device/kernels/attention.cuh"
#include "device/kernels/attention_tiles.cuh"
#include "device/kernels/linear.cuh"
#include "device/kernels/linear_few.cuh"
#include "device/kernels/linear_router.cuh"
#include "device/kernels/linear_tiles.cuh"
#include "device/kernels/mixture.cuh"
#include "device/kernels/mixture_tiles.cuh"
#include "device/kernels/paged_cache.cuh"
#include "device/kernels/rows.cuh"
#include "device/kernels/sampling.cuh"
#include "device/kernels/scores.cuh"
