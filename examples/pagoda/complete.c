/* Completes all prompts of the command line in one batch and prints the output as it arrives:
 *
 *     cc complete.c $(pkg-config --cflags --libs pagoda) -o complete
 *     ./complete MODEL "Once upon a time" "The capital of France is"
 *
 * Each line begins with the number of its prompt. The last lines describe the KV cache. */
#include <pagoda.h>
#include <stdio.h>
#include <string.h>

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n", what, pagoda_last_error());
  return 1;
}

static void print_output(const pagoda_output *output, uint64_t first_id) {
  unsigned long prompt = (unsigned long)(output->id - first_id);
  if (output->status != PAGODA_OK) {
    printf("%lu failed: %s\n", prompt, output->message);
    return;
  }
  for (size_t i = 0; i < output->num_choices; ++i) {
    const pagoda_choice *choice = &output->choices[i];
    printf("%lu: %.*s", prompt, (int)choice->text_length, choice->text);
    if (choice->logprobs != NULL && choice->num_ids > 0)
      printf(" [%.3f]", (double)choice->logprobs[0].items[0].logprob);
    if (choice->finish_reason != NULL) printf(" (%s)", choice->finish_reason);
    printf("\n");
  }
}

int main(int argc, char **argv) {
  const pagoda_option options[] = {{"kv_cache_memory_bytes", "64M"}, {"max_num_seqs", "16"}};
  const char *params = "{\"max_tokens\": 16, \"temperature\": 0, \"logprobs\": 0, \"stream\": true}";
  pagoda_engine *engine = NULL;
  pagoda_queue *queue = NULL;
  pagoda_output *output = NULL;
  pagoda_stats stats;
  pagoda_facts facts;
  uint64_t first_id = 0;
  pagoda_status status;
  if (argc < 3) {
    fprintf(stderr, "usage: %s MODEL PROMPT...\n", argv[0]);
    return 2;
  }
  if (pagoda_engine_create(argv[1], options, sizeof options / sizeof options[0], &engine) != PAGODA_OK)
    return failed("engine");
  if (pagoda_queue_create(engine, &queue) != PAGODA_OK) return failed("queue");
  for (int i = 2; i < argc; ++i) {
    uint64_t id;
    if (pagoda_submit_text(queue, argv[i], strlen(argv[i]), params, &id) != PAGODA_OK) return failed(argv[i]);
    if (i == 2) first_id = id;
  }
  while ((status = pagoda_next(queue, -1, &output)) == PAGODA_OK) {
    print_output(output, first_id);
    pagoda_output_free(output);
  }
  if (status != PAGODA_IDLE) return failed("next");
  if (pagoda_get_facts(engine, &facts, sizeof facts) != PAGODA_OK) return failed("facts");
  if (pagoda_get_stats(engine, &stats, sizeof stats) != PAGODA_OK) return failed("stats");
  printf("%s on the %s scheduler, KV cache %s: %ld of %ld blocks free after %ld steps\n", facts.architecture,
         facts.scheduler, facts.kv_manager, (long)stats.num_free_blocks, (long)stats.num_blocks,
         (long)stats.num_steps);
  pagoda_queue_destroy(queue);
  pagoda_engine_destroy(engine);
  return 0;
}
