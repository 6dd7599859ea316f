/* pagoda: the engine of the Pagoda LLM server as a C library, for programs that bring their own front. It is
 * not the server: no sockets, no keys, no quotas. A program has one engine for a model, and as many queues as
 * it likes: a queue is where requests go in and their outputs come out.
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
 * What holds always: a request ends with exactly one output that has finished == 1, unless it was aborted or
 * its queue destroyed; outputs of one request come in order; the same request gives the same tokens whatever
 * runs beside it (given a seed, where it samples). Threads: every function may be called from any thread at
 * any time, except that nothing may use what is being destroyed. The engine has threads of its own and does
 * not survive fork(). Owner: whoever got a pointer gives it back with the function named beside it. Strings
 * go in and come out as UTF-8; those that come out end with a zero byte that their length does not count.
 * What was not given is NULL or 0. Errors: a negative code; pagoda_last_error() has the sentence, of this
 * thread's last call that failed. Stability: functions and fields are added, never changed, as long as the
 * soname stays libpagoda.so.0; structs that the caller allocates are passed with their size. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PAGODA_API __attribute__((visibility("default")))

typedef enum {
  PAGODA_OK = 0,
  PAGODA_TIMEOUT = 1,        /* a normal answer: nothing came in time */
  PAGODA_IDLE = 2,           /* a normal answer: nothing runs in this queue, so nothing will come */
  PAGODA_BUSY = 3,           /* a normal answer: too many requests wait; take outputs, then try again */
  PAGODA_INVALID = -1,       /* an argument, option or field is wrong; the message names it */
  PAGODA_NOT_FOUND = -2,     /* no such file, model or request */
  PAGODA_UNIMPLEMENTED = -3, /* this engine has not got it */
  PAGODA_CORRUPT = -4,       /* a model file is malformed */
  PAGODA_UNAVAILABLE = -5,   /* the engine has stopped */
  PAGODA_EXPIRED = -6,       /* the request's "timeout" is over */
  PAGODA_INTERNAL = -7       /* memory or the system failed */
} pagoda_status;

typedef struct pagoda_engine pagoda_engine;
typedef struct pagoda_queue pagoda_queue;

/* A flag of `pagoda serve` by its name ("max_model_len" or "max-model-len") and its value as it would be
 * typed; switches take "true" and "false". A flag that takes several values may stand several times. The
 * environment's PAGODA_* variables give what no option does, as for the program. */
typedef struct {
  const char *name, *value;
} pagoda_option;

PAGODA_API const char* pagoda_version(void);
PAGODA_API const char* pagoda_last_error(void);

/* Loads the model (file, folder or ORG/NAME[:TAG], which is fetched if it is not there; NULL: the default
 * model) and starts the engine. Takes seconds. */
PAGODA_API pagoda_status pagoda_engine_create(const char* model, const pagoda_option* options,
                                              size_t num_options, pagoda_engine** engine);
/* Ends what runs with an error and gives the memory back, at the latest with the last of its queues. */
PAGODA_API void pagoda_engine_destroy(pagoda_engine* engine);

PAGODA_API pagoda_status pagoda_queue_create(pagoda_engine* engine, pagoda_queue** queue);
/* Aborts what runs in it. */
PAGODA_API void pagoda_queue_destroy(pagoda_queue* queue);

/* One request for one prompt. `params`: a JSON object (NULL: {}) with the fields of POST /v1/completions,
 * which are those of vLLM's SamplingParams: max_tokens (16), temperature, top_p, top_k, min_p, seed, n, stop,
 * stop_token_ids, logprobs, prompt_logprobs, structured_outputs, use_beam_search, priority, timeout and so on
 * (docs/api.md). What is not said has the server's default. "stream": true gives outputs as tokens come; else
 * there is one, at the end. A grammar that has not been seen before is compiled first. */
PAGODA_API pagoda_status pagoda_submit_text(pagoda_queue* queue, const char* text, size_t text_length,
                                            const char* params, uint64_t* id);
PAGODA_API pagoda_status pagoda_submit_ids(pagoda_queue* queue, const int32_t* ids, size_t num_ids,
                                           const char* params, uint64_t* id);
/* `messages`: a JSON array, as in POST /v1/chat/completions, whose fields `params` has. The answer's text is
 * what the model says: tool calls and reasoning are not told apart from it. */
PAGODA_API pagoda_status pagoda_submit_chat(pagoda_queue* queue, const char* messages, const char* params,
                                            uint64_t* id);
/* A call that `pagoda serve` takes at `path` by POST, and that the engine works at: /v1/embeddings, /score,
 * /rerank, /classify, /pooling, /v1/chat/completions, /v1/messages and so on (docs/api.md, docs/vectors.md).
 * `body`: its JSON. One output comes, with the server's answer as `body`. "stream" and "background" are
 * refused. */
PAGODA_API pagoda_status pagoda_submit_call(pagoda_queue* queue, const char* path, const char* body,
                                            uint64_t* id);
/* Nothing more comes for this request. PAGODA_NOT_FOUND: it has ended. */
PAGODA_API pagoda_status pagoda_abort(pagoda_queue* queue, uint64_t id);

typedef struct {
  int32_t id, rank; /* 1: the likeliest */
  float logprob;    /* natural */
  const char* text; /* the token's bytes as text; U+FFFD for bytes that are no character */
  size_t text_length;
} pagoda_logprob;

/* Of one position: the token that stands there first, then as many of the likeliest as were asked for. */
typedef struct {
  const pagoda_logprob* items;
  size_t count; /* 0: none, as of a prompt's first token */
} pagoda_logprobs;

/* One answer of `n`. Text, ids and log-probabilities are those since the last output of this request. */
typedef struct {
  int32_t index;
  const char* text;
  size_t text_length;
  const int32_t* ids;
  size_t num_ids;
  const pagoda_logprobs* logprobs; /* of each id; NULL: not asked for */
  double cumulative_logprob;       /* of all tokens so far */
  const char* finish_reason;       /* "stop" or "length"; NULL: it goes on */
  const char* stop_string;         /* that ended it */
  int32_t stop_token;              /* of stop_token_ids, that ended it; -1: none */
} pagoda_choice;

typedef struct {
  uint64_t id;
  int32_t finished;
  pagoda_status status; /* PAGODA_OK, or why the request failed; then it is finished and has no choices */
  const char* message;
  const pagoda_choice* choices;
  size_t num_choices;
  const int32_t* prompt_ids;
  size_t num_prompt_ids;
  const pagoda_logprobs* prompt_logprobs; /* of each prompt token, in the last output; NULL: not asked for */
  int32_t num_cached_tokens;              /* of the prompt, that were in the prefix cache */
  const char* body; /* of pagoda_submit_call alone, which has this and no choices: JSON */
  size_t body_length;
} pagoda_output;

/* The next output of any request in the queue. `timeout_ms`: how long to wait; below 0: until something comes
 * or, PAGODA_IDLE, nothing runs. Give it back with pagoda_output_free. */
PAGODA_API pagoda_status pagoda_next(pagoda_queue* queue, int64_t timeout_ms, pagoda_output** output);
PAGODA_API void pagoda_output_free(pagoda_output* output);

/* As pagoda_next, for languages in which a call costs more than an output: it waits for one, takes those that
 * are there by then, at most `max_outputs`, and gives them as a JSON array, which pagoda_free gives back. An
 * output has the fields of pagoda_output and of pagoda_choice by their names, without those that are NULL or
 * -1 and without counts and lengths. Four differ: "finished" is true or false; "prompt_ids" stands in the
 * first output of a request only; a log-probability is [id, rank, logprob, text], where logprob reads back as
 * the same float, or is null for minus infinity; "body" is the answer's JSON itself. */
PAGODA_API pagoda_status pagoda_next_json(pagoda_queue* queue, int64_t timeout_ms, size_t max_outputs,
                                          char** text, size_t* text_length);

/* Text and ids, which pagoda_free gives back. */
PAGODA_API pagoda_status pagoda_tokenize(pagoda_engine* engine, const char* text, size_t text_length,
                                         int32_t add_special_tokens, int32_t** ids, size_t* num_ids);
PAGODA_API pagoda_status pagoda_detokenize(pagoda_engine* engine, const int32_t* ids, size_t num_ids,
                                           int32_t skip_special_tokens, char** text, size_t* text_length);
/* A token as the vocabulary spells it, and the id of such a text; -1: there is none. */
PAGODA_API pagoda_status pagoda_token_text(pagoda_engine* engine, int32_t id, char** text,
                                           size_t* text_length);
PAGODA_API pagoda_status pagoda_token_id(pagoda_engine* engine, const char* text, size_t text_length,
                                         int32_t* id);
/* `body`: {"messages": […]} and what belongs to it in a chat request: tools, add_generation_prompt,
 * continue_final_message, chat_template_kwargs. */
PAGODA_API pagoda_status pagoda_apply_chat_template(pagoda_engine* engine, const char* body, char** text,
                                                    size_t* text_length);
PAGODA_API void pagoda_free(void* memory);

/* What does not change. The strings live as long as the engine. */
typedef struct {
  const char *model, *architecture;
  const char* scheduler;         /* vllm, orca, fastertransformer */
  const char* scheduling_policy; /* fcfs, priority, fair */
  const char* kv_manager;        /* paged, virtual, reserved */
  int64_t max_model_len, max_num_seqs, vocab_size;
  int64_t kv_cache_bytes, kv_cache_tokens, weight_bytes;
  int64_t num_threads;
  int32_t bos_token_id, eos_token_id, pad_token_id; /* -1: none */
} pagoda_facts;
PAGODA_API pagoda_status pagoda_get_facts(pagoda_engine* engine, pagoda_facts* facts, size_t size);

/* What the engine holds between two steps, and sums since its start. */
typedef struct {
  int64_t block_size, num_blocks, num_free_blocks; /* tokens; blocks */
  int64_t num_running, num_waiting, num_swapped;   /* requests */
  int64_t total_slots, token_slots,
      reserved_slots;                     /* of the KV cache, in tokens: all; of live sequences; for more */
  int64_t internal_slots, external_slots; /* lost inside and between allocations */
  int64_t cached_slots;                   /* kept of sequences that have ended */
  int64_t blocks_in_use, blocks_without_sharing; /* the same if every sequence had its own */
  int64_t num_steps, num_batched_tokens;         /* since the start, as the rest */
  int64_t num_preemptions, num_blocks_copied, num_blocks_swapped_out, num_blocks_swapped_in;
} pagoda_stats;
PAGODA_API pagoda_status pagoda_get_stats(pagoda_engine* engine, pagoda_stats* stats, size_t size);

/* Puts the engine to sleep as POST /sleep does, and returns once it sleeps. `level`: 0, it computes nothing;
 * 1 and 2, it gives the memory of weights and KV cache back, too. `mode`: what happens to requests that run:
 * "abort" (NULL), "wait" or "keep". What is submitted meanwhile waits. */
PAGODA_API pagoda_status pagoda_sleep(pagoda_engine* engine, int32_t level, const char* mode);
/* `tags`: "weights", "kv_cache" and "scheduling", with commas between; NULL: all. It computes again once
 * nothing sleeps. */
PAGODA_API pagoda_status pagoda_wake_up(pagoda_engine* engine, const char* tags);
PAGODA_API pagoda_status pagoda_is_sleeping(pagoda_engine* engine, int32_t* is_sleeping);
/* Requests to come find nothing of what is cached now. */
PAGODA_API pagoda_status pagoda_reset_prefix_cache(pagoda_engine* engine);
/* Loads the LoRA adapter at `path` for requests whose params have "model": "NAME"; what had the name before
 * is replaced. PAGODA_INVALID: the engine was created without the option enable-lora, or cannot use the
 * adapter. */
PAGODA_API pagoda_status pagoda_load_adapter(pagoda_engine* engine, const char* name, const char* path);
/* What GET /metrics says of the engine, in Prometheus' text format; pagoda_free gives it back. */
PAGODA_API pagoda_status pagoda_get_metrics(pagoda_engine* engine, char** text, size_t* text_length);

#ifdef __cplusplus
}
#endif
