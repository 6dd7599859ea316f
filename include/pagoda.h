/* pagoda: the engine of the Pagoda LLM server as a C library, for programs with their own front end. It is
 * not the server: no sockets, no keys, no quotas. A program creates one engine for a model, and any number of
 * queues: requests are submitted to a queue, and their outputs are taken from it.
 *
 *     pagoda_option options[] = {{"kv_cache_memory_bytes", "1G"}, {"max_num_seqs", "64"}};
 *     pagoda_engine *engine;
 *     if (pagoda_engine_create("model.gguf", options, 2, &engine) != PAGODA_OK) puts(pagoda_last_error());
 *     pagoda_queue *queue;
 *     pagoda_queue_create(engine, &queue);
 *     uint64_t id;
 *     pagoda_submit_text(queue, "Once upon", 9, "{\"max_tokens\": 32, \"temperature\": 0}", &id);
 *     pagoda_output *output;
 *     while (pagoda_next(queue, -1, &output) == PAGODA_OK) {
 *       printf("%.*s\n", (int)output->choices[0].text_length, output->choices[0].text);
 *       pagoda_output_free(output);
 *     }
 *     pagoda_queue_destroy(queue);
 *     pagoda_engine_destroy(engine);
 *
 * Guarantees: a request ends with exactly one output that has finished == 1, unless it was aborted or its
 * queue destroyed; outputs of one request come in order; the same request gives the same tokens regardless of
 * other requests (if it samples, given a seed). Threads: every function may be called from any thread at any
 * time, but not on an object that is being destroyed. The engine has its own threads and does not survive
 * fork(). Ownership: the caller releases each pointer that it gets, with the function named beside it.
 * Strings are UTF-8; returned strings end with a zero byte that their length does not count. Absent values
 * are NULL or 0. Errors: a negative code; pagoda_last_error() returns the message of this thread's last
 * failed call. Stability: functions and fields are added, never changed, as long as the soname stays
 * libpagoda.so.0; structs that the caller allocates are passed with their size. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PAGODA_API __attribute__((visibility("default")))

typedef enum {
  PAGODA_OK = 0,
  PAGODA_TIMEOUT = 1,        /* not an error: no output in time */
  PAGODA_IDLE = 2,           /* not an error: no request of this queue is running, so no output will come */
  PAGODA_BUSY = 3,           /* not an error: too many requests wait; take outputs, then retry */
  PAGODA_INVALID = -1,       /* an argument, option or field is wrong; the message names it */
  PAGODA_NOT_FOUND = -2,     /* no such file, model or request */
  PAGODA_UNIMPLEMENTED = -3, /* this engine does not support it */
  PAGODA_CORRUPT = -4,       /* a model file is malformed */
  PAGODA_UNAVAILABLE = -5,   /* the engine has stopped */
  PAGODA_EXPIRED = -6,       /* the request's "timeout" has expired */
  PAGODA_INTERNAL = -7       /* memory or the system failed */
} pagoda_status;

typedef struct pagoda_engine pagoda_engine;
typedef struct pagoda_queue pagoda_queue;

/* A flag of `pagoda serve`: its name ("max_model_len" or "max-model-len") and its value as on the command
 * line; switches take "true" and "false". A flag that takes several values may be given several times. As for
 * the program, PAGODA_* environment variables apply where no option is given. */
typedef struct {
  const char *name, *value;
} pagoda_option;

PAGODA_API const char* pagoda_version(void);
PAGODA_API const char* pagoda_last_error(void);

/* Loads the model (file, folder, or ORG/NAME[:TAG], which is downloaded if missing; NULL: the default model)
 * and starts the engine. Takes seconds. */
PAGODA_API pagoda_status pagoda_engine_create(const char* model, const pagoda_option* options,
                                              size_t num_options, pagoda_engine** engine);
/* Ends running requests with an error and frees the memory, at the latest with the last of its queues. */
PAGODA_API void pagoda_engine_destroy(pagoda_engine* engine);

PAGODA_API pagoda_status pagoda_queue_create(pagoda_engine* engine, pagoda_queue** queue);
/* Aborts the queue's running requests. */
PAGODA_API void pagoda_queue_destroy(pagoda_queue* queue);

/* Submits a request for one prompt. `params`: a JSON object (NULL: {}) with the fields of POST
 * /v1/completions, which are those of vLLM's SamplingParams: max_tokens (16), temperature, top_p, top_k,
 * min_p, seed, n, stop, stop_token_ids, logprobs, prompt_logprobs, structured_outputs, use_beam_search,
 * priority, timeout and so on (docs/api.md). Absent fields have the server's defaults. With "stream": true,
 * outputs come as tokens are generated; otherwise there is one output at the end. A new grammar is compiled
 * before the call returns. */
PAGODA_API pagoda_status pagoda_submit_text(pagoda_queue* queue, const char* text, size_t text_length,
                                            const char* params, uint64_t* id);
PAGODA_API pagoda_status pagoda_submit_ids(pagoda_queue* queue, const int32_t* ids, size_t num_ids,
                                           const char* params, uint64_t* id);
/* `messages`: a JSON array as in POST /v1/chat/completions; `params` has the other fields of that route. The
 * answer's text is the model's output: tool calls and reasoning are not separated from it. */
PAGODA_API pagoda_status pagoda_submit_chat(pagoda_queue* queue, const char* messages, const char* params,
                                            uint64_t* id);
/* Submits a call that `pagoda serve` accepts as POST at `path` and that uses the engine: /v1/embeddings,
 * /score, /rerank, /classify, /pooling, /v1/chat/completions, /v1/messages and so on (docs/api.md,
 * docs/vectors.md). `body`: the call's JSON. Yields one output, whose `body` is the server's answer. "stream"
 * and "background" are refused. */
PAGODA_API pagoda_status pagoda_submit_call(pagoda_queue* queue, const char* path, const char* body,
                                            uint64_t* id);
/* Aborts a request: it yields no further output. PAGODA_NOT_FOUND: it has ended already. */
PAGODA_API pagoda_status pagoda_abort(pagoda_queue* queue, uint64_t id);

typedef struct {
  int32_t id, rank; /* rank 1: the most likely token */
  float logprob;    /* natural logarithm */
  const char* text; /* the token's bytes as text; U+FFFD for bytes that are not valid UTF-8 */
  size_t text_length;
} pagoda_logprob;

/* Log-probabilities of one position: the token at this position first, then the requested number of most
 * likely tokens. */
typedef struct {
  const pagoda_logprob* items;
  size_t count; /* 0 if there are none, as for a prompt's first token */
} pagoda_logprobs;

/* One of the `n` answers. Text, ids and log-probabilities are those since the request's previous output. */
typedef struct {
  int32_t index;
  const char* text;
  size_t text_length;
  const int32_t* ids;
  size_t num_ids;
  const pagoda_logprobs* logprobs; /* one per id; NULL if not requested */
  double cumulative_logprob;       /* over all tokens so far */
  const char* finish_reason;       /* "stop" or "length"; NULL if not finished */
  const char* stop_string;         /* the stop string that ended it */
  int32_t stop_token;              /* the id in stop_token_ids that ended it; -1 if none */
} pagoda_choice;

typedef struct {
  uint64_t id;
  int32_t finished;
  pagoda_status status; /* PAGODA_OK, or why the request failed; then finished == 1, num_choices == 0 */
  const char* message;
  const pagoda_choice* choices;
  size_t num_choices;
  const int32_t* prompt_ids;
  size_t num_prompt_ids;
  const pagoda_logprobs* prompt_logprobs; /* one per prompt token, in the last output; NULL: not requested */
  int32_t num_cached_tokens;              /* prompt tokens found in the prefix cache */
  const char* body; /* JSON; only for pagoda_submit_call, whose outputs have no choices */
  size_t body_length;
} pagoda_output;

/* Takes the next output of any request in the queue; free it with pagoda_output_free. `timeout_ms`: how long
 * to wait; below 0: until an output arrives, or no request is running (PAGODA_IDLE). */
PAGODA_API pagoda_status pagoda_next(pagoda_queue* queue, int64_t timeout_ms, pagoda_output** output);
PAGODA_API void pagoda_output_free(pagoda_output* output);

/* Like pagoda_next, for languages in which a call costs more than an output: waits for one output, takes all
 * that are available by then, at most `max_outputs`, and returns them as a JSON array; free it with
 * pagoda_free. An output has the fields of pagoda_output and pagoda_choice under their names, without those
 * that are NULL or -1 and without counts and lengths. Four differ: "finished" is true or false; "prompt_ids"
 * is only in a request's first output; a log-probability is [id, rank, logprob, text], where logprob reads
 * back as the same float, or is null for minus infinity; "body" is the answer's JSON itself. */
PAGODA_API pagoda_status pagoda_next_json(pagoda_queue* queue, int64_t timeout_ms, size_t max_outputs,
                                          char** text, size_t* text_length);

/* Convert between text and ids; free the results with pagoda_free. */
PAGODA_API pagoda_status pagoda_tokenize(pagoda_engine* engine, const char* text, size_t text_length,
                                         int32_t add_special_tokens, int32_t** ids, size_t* num_ids);
PAGODA_API pagoda_status pagoda_detokenize(pagoda_engine* engine, const int32_t* ids, size_t num_ids,
                                           int32_t skip_special_tokens, char** text, size_t* text_length);
/* A token's text in the vocabulary, and the id for such a text; -1 if there is none. */
PAGODA_API pagoda_status pagoda_token_text(pagoda_engine* engine, int32_t id, char** text,
                                           size_t* text_length);
PAGODA_API pagoda_status pagoda_token_id(pagoda_engine* engine, const char* text, size_t text_length,
                                         int32_t* id);
/* `body`: {"messages": […]} and the related fields of a chat request: tools, add_generation_prompt,
 * continue_final_message, chat_template_kwargs. */
PAGODA_API pagoda_status pagoda_apply_chat_template(pagoda_engine* engine, const char* body, char** text,
                                                    size_t* text_length);
PAGODA_API void pagoda_free(void* memory);

/* Constant properties. The strings are valid as long as the engine exists. */
typedef struct {
  const char *model, *architecture;
  const char* scheduler;         /* vllm, orca, fastertransformer */
  const char* scheduling_policy; /* fcfs, priority, fair */
  const char* kv_manager;        /* paged, virtual, reserved */
  int64_t max_model_len, max_num_seqs, vocab_size;
  int64_t kv_cache_bytes, kv_cache_tokens, weight_bytes;
  int64_t num_threads;
  int32_t bos_token_id, eos_token_id, pad_token_id; /* -1 if none */
} pagoda_facts;
PAGODA_API pagoda_status pagoda_get_facts(pagoda_engine* engine, pagoda_facts* facts, size_t size);

/* The engine's state between two steps, and counts since its start. */
typedef struct {
  int64_t block_size, num_blocks, num_free_blocks;  /* tokens; blocks */
  int64_t num_running, num_waiting, num_swapped;    /* requests */
  int64_t total_slots, token_slots, reserved_slots; /* slots of the KV cache, in tokens: all; used by tokens
                                                     * of live sequences; reserved for further tokens */
  int64_t internal_slots, external_slots;           /* lost to internal and external fragmentation */
  int64_t cached_slots;                             /* cached tokens of ended sequences */
  int64_t blocks_in_use, blocks_without_sharing;    /* second: if no blocks were shared */
  int64_t num_steps, num_batched_tokens;            /* since the start, as are the rest */
  int64_t num_preemptions, num_blocks_copied, num_blocks_swapped_out, num_blocks_swapped_in;
} pagoda_stats;
PAGODA_API pagoda_status pagoda_get_stats(pagoda_engine* engine, pagoda_stats* stats, size_t size);

/* Puts the engine to sleep like POST /sleep, and returns once it sleeps. `level` 0: it computes nothing; 1
 * and 2: it also frees the memory of weights and KV cache. `mode`: how running requests are treated: "abort"
 * (NULL), "wait" or "keep". Requests submitted during sleep wait. */
PAGODA_API pagoda_status pagoda_sleep(pagoda_engine* engine, int32_t level, const char* mode);
/* `tags`: "weights", "kv_cache" and "scheduling", separated by commas; NULL: all. The engine computes again
 * once nothing sleeps. */
PAGODA_API pagoda_status pagoda_wake_up(pagoda_engine* engine, const char* tags);
PAGODA_API pagoda_status pagoda_is_sleeping(pagoda_engine* engine, int32_t* is_sleeping);
/* Later requests find nothing that is cached now. */
PAGODA_API pagoda_status pagoda_reset_prefix_cache(pagoda_engine* engine);
/* Loads the LoRA adapter at `path` for requests whose params have "model": "NAME"; replaces an adapter with
 * the same name. PAGODA_INVALID: the engine was created without the option enable-lora, or cannot use the
 * adapter. */
PAGODA_API pagoda_status pagoda_load_adapter(pagoda_engine* engine, const char* name, const char* path);
/* The engine's metrics as in GET /metrics, in Prometheus' text format; free the text with pagoda_free. */
PAGODA_API pagoda_status pagoda_get_metrics(pagoda_engine* engine, char** text, size_t* text_length);

#ifdef __cplusplus
}
#endif
