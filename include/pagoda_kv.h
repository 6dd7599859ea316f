/* pagoda_kv: the KV cache of an LLM server as plain, contiguous memory that is committed as sequences grow.
 *
 * Each tensor has address space for max_batch sequences of max_context tokens. Your kernels see ordinary
 * strided memory: the key of a token is at
 *
 *     pagoda_kv_key(kv, layer) + reqid * slot_stride + position * token_stride
 *
 * (heads x head_size elements), with the strides in bytes from pagoda_kv_get_layout(); likewise for values.
 * Before each forward pass, pagoda_kv_step() maps memory for all tokens up to the given context lengths.
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
 * they are taken, so reaching a limit gives an error code, never a signal. Threads: not thread-safe; call a
 * pagoda_kv from one thread at a time. With map_ahead, it runs a background thread of its own.
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
  PAGODA_KV_FULL = 1,       /* a normal result: no free pages, mappings or slot; free or shorten a sequence */
  PAGODA_KV_INVALID = -1,   /* an argument is invalid */
  PAGODA_KV_PAGE_SIZE = -2, /* the page size is not a multiple of the token size; the message names the
                             * nearest valid sizes */
  PAGODA_KV_NO_MEMORY = -3, /* not enough memory to commit capacity_bytes */
  PAGODA_KV_ADDRESS_SPACE = -4, /* max_batch x max_context does not fit into the address space */
  PAGODA_KV_MAPPINGS = -5,      /* one sequence may need more mappings than vm.max_map_count leaves */
  PAGODA_KV_SYSTEM = -6,        /* a system call or a call of the CUDA driver failed; pages may be missing, so
                                 * from then on only freeing slots and pagoda_kv_destroy() work */
  PAGODA_KV_NO_DEVICE = -7      /* the library cuda_driver was not found, or has no such device */
} pagoda_kv_status;

typedef struct {
  int32_t num_layers, num_heads, head_size; /* on this worker; heads are KV heads */
  int32_t element_size;                     /* bytes */
  int32_t max_batch, max_context;           /* slots, tokens */
  int64_t page_size;      /* bytes; a multiple of 4096 and of the size of a token in one tensor */
  int64_t capacity_bytes; /* physical memory, committed by init */
  /* Optimisations; all off in a zeroed struct. */
  int32_t slicing;          /* one K and one V tensor over all layers of a slot, instead of 2 x num_layers */
  int32_t map_ahead;        /* map the pages of the next token in the background, after each step */
  int32_t eager_pages;      /* number of extra pages to map in the first step of a slot */
  int32_t deferred_reclaim; /* a freed slot stays mapped until its pages are needed elsewhere */
  /* NULL: host memory. Otherwise GPU memory: the file name of the CUDA driver's library, "libcuda.so.1",
   * which is opened; page_size is then a multiple of the driver's granule, 2 MiB on every GPU so far. Work
   * running on the GPU must not use memory that a call takes away: freed slots and, in a fork, the child. For
   * slots that were handed out as tensors, the call waits for that work (cuCtxSynchronize). A fork copies by
   * cuMemcpyDtoD on the legacy default stream. Tested on an H200, except for tensors. */
  const char* cuda_driver;
  int32_t cuda_device; /* ordinal of the CUDA device */
} pagoda_kv_config;

typedef struct {
  int64_t slot_stride, token_stride; /* bytes, the same in every tensor */
  int32_t num_tensors;               /* 2, or 2 x num_layers */
  int32_t tokens_per_page;           /* in one tensor */
  int64_t num_pages; /* each is mapped in all tensors and takes page_size x num_tensors bytes */
} pagoda_kv_layout;

typedef struct {
  int64_t free_pages;                      /* out of num_pages */
  int64_t map_calls, map_calls_background; /* system calls so far; the first includes the second */
  int64_t pages_mapped, pages_reused;      /* needed pages: newly mapped, and mapped already */
  double step_seconds, background_seconds; /* mapping time within pagoda_kv_step, and in the background */
} pagoda_kv_stats;

PAGODA_KV_API pagoda_kv_status pagoda_kv_init(const pagoda_kv_config* config, pagoda_kv** kv);
/* NULL is ignored. A no-op in a child process of fork(2). */
PAGODA_KV_API void pagoda_kv_destroy(pagoda_kv* kv);

/* Returns a free slot for a sequence that will soon have num_tokens tokens, the one whose existing mapping
 * fits best; -1 if no slot is free or num_tokens is invalid (see pagoda_kv_last_status()). */
PAGODA_KV_API int32_t pagoda_kv_alloc_reqid(pagoda_kv* kv, int32_t num_tokens);
/* Frees the slot, immediately or when its last tensor is deleted. Its contents are lost. */
PAGODA_KV_API pagoda_kv_status pagoda_kv_free_reqid(pagoda_kv* kv, int32_t reqid);

/* Call before each forward pass. context_lengths has max_batch entries: the number of tokens that each slot
 * will have after the pass. Slots that take no part have 0 and keep their memory. All or nothing: with
 * PAGODA_KV_FULL nothing has changed. A length below an earlier one releases no memory. */
PAGODA_KV_API pagoda_kv_status pagoda_kv_step(pagoda_kv* kv, const int32_t* context_lengths);

/* Creates a sequence with the first num_tokens tokens of `reqid`, which must have memory. Whole pages are
 * shared, and the last partial page is copied. Neither sequence may write to tokens in shared pages. Returns
 * the new reqid, or -1 on failure, such as PAGODA_KV_FULL (see pagoda_kv_last_status()). */
PAGODA_KV_API int32_t pagoda_kv_fork(pagoda_kv* kv, int32_t reqid, int32_t num_tokens);

PAGODA_KV_API void* pagoda_kv_key(const pagoda_kv* kv, int32_t layer);
PAGODA_KV_API void* pagoda_kv_value(const pagoda_kv* kv, int32_t layer);

/* DLPack 1.0 tensors, for array libraries that support them: torch, numpy, jax, … */
enum { PAGODA_KV_FLOAT = 2, PAGODA_KV_BFLOAT = 4 }; /* DLPack's type codes; see element_size for bytes */
typedef struct {
  int32_t layer;
  int32_t values; /* 0: keys; otherwise: values */
  /* A slot in use: the tensor is [tokens][heads][head_size], with the tokens for which steps and forks have
   * mapped memory. -1: the whole tensor, [max_batch][max_context][heads][head_size]. There, writing a token
   * without memory raises a signal; reading one gives zeros in host memory and is not allowed on a GPU. */
  int32_t reqid;
  int32_t type;      /* PAGODA_KV_FLOAT or PAGODA_KV_BFLOAT */
  int32_t versioned; /* nonzero: *tensor is a DLManagedTensorVersioned; otherwise a DLManagedTensor */
  /* For GPU memory, the consumer's stream as in __dlpack__: later work on it sees the copy of a fork. 1: the
   * legacy default stream; 2: the per-thread default stream; a handle; -1: the caller synchronizes. Ignored
   * for host memory. */
  int64_t stream;
} pagoda_kv_tensor_request;

/* The caller owns *tensor and must call its deleter once, on any thread and in any order. Until then the
 * tokens of the slot and the address space stay in place: pagoda_kv_free_reqid() and pagoda_kv_destroy() take
 * effect with the last deleter. */
PAGODA_KV_API pagoda_kv_status pagoda_kv_tensor(pagoda_kv* kv, const pagoda_kv_tensor_request* request,
                                                void** tensor);
/* A PyCapsule_Destructor for capsules named "dltensor" or "dltensor_versioned" that hold these tensors. */
PAGODA_KV_API void pagoda_kv_capsule_destructor(void* capsule);

PAGODA_KV_API pagoda_kv_layout pagoda_kv_get_layout(const pagoda_kv* kv);
PAGODA_KV_API pagoda_kv_stats pagoda_kv_get_stats(pagoda_kv* kv);

/* Status of the last failed call on this thread, including calls that returned -1; PAGODA_KV_OK if no call
 * has failed. */
PAGODA_KV_API pagoda_kv_status pagoda_kv_last_status(void);
/* Message of that call; never NULL. */
PAGODA_KV_API const char* pagoda_kv_last_error(void);

#ifdef __cplusplus
}
#endif
