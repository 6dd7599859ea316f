/* A toy decoder on pagoda_kv that shows the loop of an engine. Each "request" has a prompt and generates a few
 * tokens. Keys and values are synthetic numbers, attention is plain C over strided memory, and every result is
 * compared with the same sum over the original numbers. Memory is too small for all requests at once, so some
 * are preempted (their slot is freed, and they are recomputed later). The first three that finish are forked at
 * half their length.
 *
 *     cc decode.c -I../../include -L. -lpagoda_kv -lm -o decode && ./decode
 */
#include <math.h>
#include <pagoda_kv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  LAYERS = 2,
  HEADS = 2,
  HEAD_SIZE = 64,
  BATCH = 4,
  CONTEXT = 512,
  REQUESTS = 12,
  WIDTH = HEADS * HEAD_SIZE
};

typedef struct {
  int prompt_len, target_len; /* tokens at the start, and when done */
  int len;                    /* tokens with keys and values; 0: waiting, or preempted */
  int reqid;
  int done;
} request;

/* The key or value of a token: a function of request, layer and position, so that results can be checked. */
static float element(int request_number, int layer, int position, int is_value, int i) {
  return (float)((request_number * 31 + layer * 7 + position * 3 + is_value * 5 + i) % 17) / 17.0f;
}

static float* at(void* tensor, pagoda_kv_layout layout, int reqid, int position) {
  return (float*)((char*)tensor + reqid * layout.slot_stride + position * layout.token_stride);
}

static void write_token(pagoda_kv* kv, pagoda_kv_layout layout, int number, int reqid, int position) {
  for (int layer = 0; layer < LAYERS; ++layer) {
    float* key = at(pagoda_kv_key(kv, layer), layout, reqid, position);
    float* value = at(pagoda_kv_value(kv, layer), layout, reqid, position);
    for (int i = 0; i < WIDTH; ++i) {
      key[i] = element(number, layer, position, 0, i);
      value[i] = element(number, layer, position, 1, i);
    }
  }
}

/* Returns the largest difference, over all layers and heads, between attention over the cache and attention
 * over the numbers of element(). */
static double check(pagoda_kv* kv, pagoda_kv_layout layout, int number, int reqid, int len) {
  double worst = 0;
  for (int layer = 0; layer < LAYERS; ++layer) {
    for (int head = 0; head < HEADS; ++head) {
      double sum[2] = {0, 0}, out[2] = {0, 0};
      for (int t = 0; t < len; ++t) {
        const float* key = at(pagoda_kv_key(kv, layer), layout, reqid, t) + head * HEAD_SIZE;
        const float* value = at(pagoda_kv_value(kv, layer), layout, reqid, t) + head * HEAD_SIZE;
        double score[2] = {0, 0};
        for (int i = 0; i < HEAD_SIZE; ++i) {
          score[0] += key[i] * 0.1;
          score[1] += element(number, layer, t, 0, head * HEAD_SIZE + i) * 0.1;
        }
        const double seen[2] = {value[t % HEAD_SIZE],
                                element(number, layer, t, 1, head * HEAD_SIZE + t % HEAD_SIZE)};
        for (int k = 0; k < 2; ++k) {
          sum[k] += exp(score[k]);
          out[k] += exp(score[k]) * seen[k];
        }
      }
      const double difference = fabs(out[0] / sum[0] - out[1] / sum[1]);
      if (difference > worst) worst = difference;
    }
  }
  return worst;
}

int main(void) {
  pagoda_kv_config config;
  memset(&config, 0, sizeof config);
  config.num_layers = LAYERS;
  config.num_heads = HEADS;
  config.head_size = HEAD_SIZE;
  config.element_size = sizeof(float);
  config.max_batch = BATCH;
  config.max_context = CONTEXT;
  config.page_size = 16384;
  config.capacity_bytes = 40 * 2 * 16384; /* 40 pages of 16 tokens: too few for 4 long requests */
  config.slicing = 1;
  config.map_ahead = 1;
  config.eager_pages = 1;
  config.deferred_reclaim = 1;
  pagoda_kv* kv = NULL;
  if (pagoda_kv_init(&config, &kv) != PAGODA_KV_OK) {
    fprintf(stderr, "pagoda_kv_init: %s\n", pagoda_kv_last_error());
    return 1;
  }
  const pagoda_kv_layout layout = pagoda_kv_get_layout(kv);

  request requests[REQUESTS];
  for (int i = 0; i < REQUESTS; ++i)
    requests[i] = (request){.prompt_len = 20 + 37 * i % 150, .target_len = 90 + 41 * i % 200, .reqid = -1};
  for (int i = 0; i < REQUESTS; ++i)
    if (requests[i].target_len <= requests[i].prompt_len)
      requests[i].target_len = requests[i].prompt_len + 10;

  int finished = 0, preempted = 0, forked = 0, steps = 0;
  double worst = 0;
  while (finished < REQUESTS) {
    if (++steps > 100000) return fprintf(stderr, "no progress\n"), 1;
    for (int i = 0; i < REQUESTS; ++i) { /* admit */
      request* r = &requests[i];
      if (!r->done && r->reqid < 0 && (r->reqid = pagoda_kv_alloc_reqid(kv, r->prompt_len)) < 0) break;
    }
    int32_t lengths[BATCH];
    for (;;) { /* preempt the latest request until all others have memory */
      memset(lengths, 0, sizeof lengths);
      for (int i = 0; i < REQUESTS; ++i) {
        const request* r = &requests[i];
        if (r->reqid >= 0) lengths[r->reqid] = r->len > 0 ? r->len + 1 : r->prompt_len;
      }
      const pagoda_kv_status status = pagoda_kv_step(kv, lengths);
      if (status == PAGODA_KV_OK) break;
      if (status != PAGODA_KV_FULL) return fprintf(stderr, "pagoda_kv_step: %s\n", pagoda_kv_last_error()), 1;
      int last = REQUESTS - 1;
      while (last >= 0 && requests[last].reqid < 0) --last;
      if (last < 0) return fprintf(stderr, "a request alone does not fit\n"), 1;
      pagoda_kv_free_reqid(kv, requests[last].reqid);
      requests[last].reqid = -1;
      requests[last].len = 0;
      ++preempted;
    }
    for (int i = 0; i < REQUESTS; ++i) { /* the forward pass */
      request* r = &requests[i];
      if (r->reqid < 0) continue;
      for (int position = r->len; position < lengths[r->reqid]; ++position)
        write_token(kv, layout, i, r->reqid, position);
      r->len = lengths[r->reqid];
      if (r->len < r->target_len) continue;
      const double difference = check(kv, layout, i, r->reqid, r->len);
      if (difference > worst) worst = difference;
      if (forked < 3) { /* fork the first half, check it and free it again */
        const int child = pagoda_kv_fork(kv, r->reqid, r->len / 2);
        if (child >= 0) {
          const double of_child = check(kv, layout, i, child, r->len / 2);
          if (of_child > worst) worst = of_child;
          pagoda_kv_free_reqid(kv, child);
          ++forked;
        }
      }
      pagoda_kv_free_reqid(kv, r->reqid);
      r->reqid = -1;
      r->done = 1;
      ++finished;
    }
  }
  const pagoda_kv_stats stats = pagoda_kv_get_stats(kv);
  printf("%d requests in %d steps, %d preempted, %d forked; largest difference %g\n", finished, steps,
         preempted, forked, worst);
  printf(
      "%lld map calls (%lld in the background), %lld pages mapped, %lld found mapped, %lld of %lld pages "
      "free\n",
      (long long)stats.map_calls, (long long)stats.map_calls_background, (long long)stats.pages_mapped,
      (long long)stats.pages_reused, (long long)stats.free_pages, (long long)layout.num_pages);
  pagoda_kv_destroy(kv);
  return worst == 0 && stats.free_pages == layout.num_pages && preempted > 0 ? 0 : 1;
}
