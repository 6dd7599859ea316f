#include "cli/commands/perplexity_command.h"

#include <cmath>
#include <cstdio>
#include <iostream>
#include <iterator>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "cli/assembly/devices.h"
#include "cli/assembly/load_tokenizer.h"
#include "cli/assembly/loaded_runner.h"
#include "cli/assembly/model_overrides.h"
#include "cli/assembly/ranks.h"
#include "cli/assembly/runner_options.h"
#include "cli/commands/progress_bar.h"
#include "cli/flags/flag_values.h"
#include "loader/mapped_file.h"
#include "model_runner/divergence.h"
#include "models/read_config.h"

namespace pagoda {
namespace {

Result<std::string> read_text(const std::string& file) {
  if (file != "-") return read_text_file(file);
  return std::string(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
}

void print_perplexity(std::size_t num_tokens, std::int64_t num_scored, std::int32_t context,
                      double mean_nll) {
  std::printf("tokens %zu, scored %lld in windows of %d\n", num_tokens, static_cast<long long>(num_scored),
              context);
  std::printf("mean negative log-likelihood %.6f\n", mean_nll);
  std::printf("perplexity %.6f\n", std::exp(mean_nll));
}

}  // namespace

std::vector<Flag> perplexity_flags(PerplexityArgs& args) {
  return {
      {.name = "file",
       .value = flags::text(args.file, "FILE"),
       .help = "text to score, in UTF-8; -: stdin",
       .aliases = {"-f"},
       .required = true},
      {.name = "context",
       .value = flags::int32(args.context, 2),
       .help = "window size in tokens",
       .details = "window size in tokens; windows do not overlap"},
      {.name = "bos",
       .value = flags::on(args.bos),
       .help = "begin each window with the model's BOS token, as Gemma needs it"},
      {.name = "kl-divergence",
       .value = flags::on(args.kl_divergence),
       .help = "also compare each token's distribution with that of the same weights in float32",
       .details = "also compare each token's distribution with that of the same file under `--dtype float32 "
                  "--kv-cache-dtype float32`: Kullback-Leibler divergence, how often the most likely token "
                  "is the same, and the ratio of perplexities with its standard error. A folder whose "
                  "scheme quantises activations is compared with the scheme's own arithmetic, unless "
                  "`--quantize-activations off`. Needs the memory of both"},
  };
}

Status run_perplexity(const PerplexityArgs& args) {
  if (args.context < 2) return invalid_argument("--context must be at least 2");
  PAGODA_ASSIGN_OR_RETURN(auto text, read_text(args.file));
  PAGODA_RETURN_IF_ERROR(check_device_flags(args.engine));
  EngineFlags flags = args.engine;
  PAGODA_ASSIGN_OR_RETURN(auto ranks, join_ranks(flags));
  PAGODA_ASSIGN_OR_RETURN(auto opened, open_model(args.engine));
  const std::shared_ptr<const ModelSource> source = std::move(opened);
  PAGODA_ASSIGN_OR_RETURN(
      auto tokenizer, flags.tokenizer.empty() ? load_tokenizer(*source) : load_tokenizer(flags.tokenizer));
  PAGODA_ASSIGN_OR_RETURN(const auto config, read_model_config(*source));
  const TokenId bos = config.bos_token_id;
  if (args.bos && bos < 0) return invalid_argument("--bos: the model has no BOS token");
  // Encode the text literally: special tokens in it are plain text.
  const ByteRange whole = {0, text.size()};
  auto tokens = tokenizer->encode(text, {.plain_ranges = std::span(&whole, 1)});
  if (!tokens) return tokens.error().annotate(args.file);
  if (args.max_tokens > 0 && static_cast<std::size_t>(args.max_tokens) < tokens->size()) {
    tokens->resize(static_cast<std::size_t>(args.max_tokens));
  }
  for (const TokenId token : *tokens) {
    if (token < config.decoder.vocab_size) continue;
    return invalid_argument(concat("the tokenizer gives id ", token, ", but the model's vocabulary has ",
                                   config.decoder.vocab_size, " entries"));
  }
  const std::int32_t context = args.context;
  if (context > config.decoder.max_positions) {
    return invalid_argument(concat("--context ", context, " is more than the model's context of ",
                                   config.decoder.max_positions, " positions"));
  }

  if (args.kl_divergence && flags.tensor_parallel_size > 1)
    return invalid_argument("--kl-divergence needs --tensor-parallel-size 1");

  PAGODA_ASSIGN_OR_RETURN(auto options, runner_options(flags, config));
  if (!flags.max_num_batched_tokens) options.max_num_batched_tokens = context;
  const auto load = [&]() -> Result<LoadedRunner> {
    PAGODA_ASSIGN_OR_RETURN(auto runner, LoadedRunner::create(source, options, flags, ranks.get()));
    PAGODA_RETURN_IF_ERROR(
        runner.allocate_kv_cache(pages_for(runner.kv_plan().groups, context, 1, 0, context), 0));
    return runner;
  };
  PAGODA_ASSIGN_OR_RETURN(auto runner, load());

  const PerplexityOptions how = {.context = context,
                                 .block_size = options.block_size,
                                 .groups = runner.kv_plan().groups,
                                 .max_num_batched_tokens = options.max_num_batched_tokens,
                                 .bos = args.bos ? std::optional(bos) : std::nullopt};
  const std::int64_t of_text = context - (args.bos ? 1 : 0);  // text tokens per window
  ProgressBar progress("scoring", (std::ssize(*tokens) + of_text - 1) / of_text, "windows");
  const auto report = [&](std::int64_t done) { progress.update(done); };
  if (!args.kl_divergence) {
    PAGODA_ASSIGN_OR_RETURN(auto result, measure_perplexity(runner.runner(), *tokens, how, report));
    print_perplexity(tokens->size(), result.num_scored, context, result.mean_nll);
  } else {
    options.dtype = options.kv_cache_dtype = "float32";
    PAGODA_ASSIGN_OR_RETURN(auto reference, load());
    PAGODA_ASSIGN_OR_RETURN(
        auto result, measure_divergence(runner.runner(), reference.runner(), reference.kv_plan().groups,
                                        config.decoder.vocab_size, *tokens, how, report));
    print_perplexity(tokens->size(), result.num_scored, context, result.mean_nll);
    std::printf("float32 mean negative log-likelihood %.6f\n", result.reference_mean_nll);
    std::printf("log of the ratio of perplexities %.6f, standard error %.6f\n",
                result.mean_nll - result.reference_mean_nll, result.nll_difference_error);
    std::printf("mean KL divergence from float32 %.6g\n", result.mean);
    std::printf("99%% of KL divergences below %.6g, largest %.6g\n", result.p99, result.largest);
    std::printf("same best token %.2f %%\n", 100 * result.same_top);
  }
  if (std::fflush(stdout) != 0) return internal_error("cannot write to standard output");
  return ok_status();
}

}  // namespace pagoda
