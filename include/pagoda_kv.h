/* pagoda_kv: the KV cache of an LLM server as plain, contiguous memory that is committed as sequences grow.
 *
 * For each of max_batch sequences there is address space for max_context tokens, in every one of the tensors.
 * Your kernels see ordinary strided memory: the key of a token is at
 *
 *     pagoda_kv_key(kv, layer) + reqid * slot_stride + position * token_stride
 *
 * (heads x head_size elements), with the strides in bytes from pagoda_kv_get_layout(); values alike. Before
 * each forward pass, pagoda_kv_step() sees to it that all tokens up to the context lengths have memory behind
 * them.
 *
 *     pagoda_kv_config config = {.num_layers = 32, .num_heads = 8, .head_size = 128, .element_size = 2,
 *                                .max_batch = 64, .max_context = 8192, .page_size = 65536,
 *                                .capacity_bytes = 8ull << 30};
 *     pagoda_kv *kv;
 *     if (pagoda_kv_init(&config, &kv) != PAGODA_KV_OK) puts(pagoda_kv_last_error());
 *     int reqid = pagoda_kv_alloc_reqid(kv, prompt_len);
 *     while (generating) {
 *       context_lengths[reqid] = tokens_after_this_step;
 *       if (pagoda_kv_step(kv, context_lengths) == PAGODA_KV_FULL) preempt_somebody_and_try_again();
 *       forward();
 *     }
 *     pagoda_kv_free_reqid(kv, reqid);
 *
 * The calls are those of vAttention (arXiv 2405.04437). Memory, mappings and address space are counted before
 * they are taken: a limit is an error code, never a signal. Threads: one at a time for each pagoda_kv. It has
 * a thread of its own when map_ahead is set.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PAGODA_KV_API __attribute__((visibility("default")))

typedef struct pagoda_kv pagoda_kv;

typedef enum {
  PAGODA_KV_OK = 0,
  PAGODA_KV_FULL = 1,     /* a normal answer: no free pages, mappings or slot; free or shorten something */
  PAGODA_KV_INVALID = -1, /* an argument makes no sense */
  PAGODA_KV_PAGE_SIZE =
      -2, /* the page size is not a multiple of the token size; the message names those next to it */
  PAGODA_KV_NO_MEMORY = -3,     /* not enough memory to commit capacity_bytes */
  PAGODA_KV_ADDRESS_SPACE = -4, /* max_batch x max_context does not fit into the address space */
  PAGODA_KV_MAPPINGS = -5,      /* one sequence may need more mappings than vm.max_map_count leaves */
  PAGODA_KV_SYSTEM = -6,        /* a system call failed, or one of the CUDA driver's; nothing but freeing and
                                 * pagoda_kv_destroy() works from then on, since pages may be missing */
  PAGODA_KV_NO_DEVICE = -7      /* cuda_driver is not there, or has no such device */
} pagoda_kv_status;

typedef struct {
  int32_t num_layers, num_heads, head_size; /* of this worker; heads are KV heads */
  int32_t element_size;                     /* bytes */
  int32_t max_batch, max_context;           /* slots, tokens */
  int64_t page_size;                        /* bytes, a multiple of 4096 and of a token in one tensor */
  int64_t capacity_bytes;                   /* physical memory, committed by init */
  /* Optimisations; all off in a zeroed struct. */
  int32_t slicing;          /* one K and one V tensor over all layers of a slot, instead of 2 x num_layers */
  int32_t map_ahead;        /* map the pages of the next token in the background, after each step */
  int32_t eager_pages;      /* map so many pages more than needed in a slot's first step */
  int32_t deferred_reclaim; /* a freed slot stays mapped until its pages are needed elsewhere */
  /* A GPU's memory instead of the host's. NULL: the host's. Else the CUDA driver's library, "libcuda.so.1",
   * which is opened; page_size is a multiple of its granule, 2 MiB on every GPU so far. What runs on the GPU
   * may not use what a call takes away: slots that were freed, and in a fork the child; but of slots that
   * tensors have shown it is waited for (cuCtxSynchronize). A fork's copy is the driver's (cuMemcpyDtoD), on
   * the legacy default stream. Run on an H200, but for tensors. */
  const char* cuda_driver;
  int32_t cuda_device; /* its ordinal */
} pagoda_kv_config;

typedef struct {
  int64_t slot_stride, token_stride; /* bytes, the same in every tensor */
  int32_t num_tensors;               /* 2, or 2 x num_layers */
  int32_t tokens_per_page;           /* in one tensor */
  int64_t num_pages; /* that can be shown, each in all tensors: page_size x num_tensors bytes */
} pagoda_kv_layout;

typedef struct {
  int64_t free_pages;                      /* of num_pages */
  int64_t map_calls, map_calls_background; /* system calls so far; the second is part of the first */
  int64_t pages_mapped, pages_reused;      /* needed pages that were mapped, or were so already */
  double step_seconds, background_seconds; /* spent mapping inside of pagoda_kv_step, and beside it */
} pagoda_kv_stats;

PAGODA_KV_API pagoda_kv_status pagoda_kv_init(const pagoda_kv_config* config, pagoda_kv** kv);
/* NULL is ignored. In a child of fork(2) it does nothing. */
PAGODA_KV_API void pagoda_kv_destroy(pagoda_kv* kv);

/* A slot for a sequence that will soon have num_tokens tokens: the free one whose mapping fits best. -1: none
 * is free. */
PAGODA_KV_API int32_t pagoda_kv_alloc_reqid(pagoda_kv* kv, int32_t num_tokens);
/* The slot is free again, or will be with the end of its last tensor. What was written there is lost. */
PAGODA_KV_API pagoda_kv_status pagoda_kv_free_reqid(pagoda_kv* kv, int32_t reqid);

/* Before a forward pass: context_lengths[reqid], for each of max_batch slots, is the number of tokens it will
 * have after it; 0 for slots that take no part, which keep what they have. All or nothing: with
 * PAGODA_KV_FULL nothing has changed. A length below an earlier one gives nothing back. */
PAGODA_KV_API pagoda_kv_status pagoda_kv_step(pagoda_kv* kv, const int32_t* context_lengths);

/* A second sequence with the first num_tokens tokens of `reqid`, which must have memory: whole pages are
 * shared, the last partial page is copied. Neither may write into the shared pages' tokens. The new reqid, or
 * -1: full. */
PAGODA_KV_API int32_t pagoda_kv_fork(pagoda_kv* kv, int32_t reqid, int32_t num_tokens);

PAGODA_KV_API void* pagoda_kv_key(const pagoda_kv* kv, int32_t layer);
PAGODA_KV_API void* pagoda_kv_value(const pagoda_kv* kv, int32_t layer);

/* Tensors by DLPack 1.0, for libraries of arrays that take such: torch, numpy, jax, … */
enum { PAGODA_KV_FLOAT = 2, PAGODA_KV_BFLOAT = 4 }; /* DLPack's codes; element_size says how many bytes */
typedef struct {
  int32_t layer;
  int32_t values; /* 0: the keys; else the values */
  /* [tokens][heads][head_size] of this slot, which is in use, with as many tokens as steps and forks have
   * given memory. -1: [max_batch][max_context][heads][head_size], all of the tensor. There a token without
   * memory must not be written (a signal); the host's read as zeros, a GPU's must not be read either. */
  int32_t reqid;
  int32_t type;
  int32_t versioned; /* *tensor is a DLManagedTensorVersioned; else a DLManagedTensor */
  int64_t
      stream; /* of CUDA's memory, as __dlpack__ has it: what follows there sees a fork's copy. 1: the legacy
               * default stream; 2: a thread's; a handle; -1: the caller waits. Of the host's: ignored. */
} pagoda_kv_tensor_request;

/* The caller owns *tensor, and calls its deleter once, on any thread and in any order. Until then a slot's
 * tokens stay where they are, and so does the address space: pagoda_kv_free_reqid() and pagoda_kv_destroy()
 * take effect with the last deleter. */
PAGODA_KV_API pagoda_kv_status pagoda_kv_tensor(pagoda_kv* kv, const pagoda_kv_tensor_request* request,
                                                void** tensor);
/* The PyCapsule_Destructor of capsules "dltensor" and "dltensor_versioned" that hold such tensors. */
PAGODA_KV_API void pagoda_kv_capsule_destructor(void* capsule);

PAGODA_KV_API pagoda_kv_layout pagoda_kv_get_layout(const pagoda_kv* kv);
PAGODA_KV_API pagoda_kv_stats pagoda_kv_get_stats(pagoda_kv* kv);

/* The status of the latest call of this thread that failed, also of those that returned -1; PAGODA_KV_OK:
 * none has. */
PAGODA_KV_API pagoda_kv_status pagoda_kv_last_status(void);
/* What it has to say; never NULL. */
PAGODA_KV_API const char* pagoda_kv_last_error(void);

#ifdef __cplusplus
}
#endif
