// The flags of bench serve.
#include <charconv>
#include <cmath>

#include "base/log.h"
#include "base/strings.h"
#include "cli/bench/bench_serve_command.h"
#include "cli/flags/flags.h"

namespace pagoda {
namespace {

// A sampling parameter that is sent only when given.
void sampling(CLI::App& command, BenchServeArgs& args, const std::string& flag, const std::string& member) {
  const auto store = [&args, flag, member](const std::string& value) {
    double number = 0;
    const char* const end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, number);
    if (error != std::errc() || stop != end || !std::isfinite(number))
      throw CLI::ValidationError(flag, concat("'", value, "' is not a number"));
    args.sampling.emplace_back(member, value);
  };
  command.add_option_function<std::string>(flag, store, concat("sent as '", member, "' with every request"))
      ->type_name("X");
}

// Flags of vLLM's that scripts pass and that change nothing here, or that are refused with a reason.
void add_vllm_only_flags(CLI::App& command) {
  constexpr const char* kHidden = "";
  const auto warn = [](const char* name) { log_warning("cli", concat(name, " has no effect here")); };
  for (const char* const name :
       {"--trust-remote-code", "--no-stream", "--no-oversample", "--disable-shuffle", "--skip-chat-template"})
    command.add_flag_function(name, [=](std::int64_t) { warn(name); })->group(kHidden);
  command
      .add_option_function<std::string>("--tokenizer-mode",
                                        [=](const std::string&) { warn("--tokenizer-mode"); })
      ->group(kHidden);
  struct Refused {
    const char *name, *why;
  };
  for (const Refused refused : {Refused{"--profile", "no profiler is driven"},
                                Refused{"--insecure", "https is not supported; put a proxy in front"}})
    command
        .add_flag_function(refused.name,
                           [=](std::int64_t) { throw CLI::ValidationError(refused.name, refused.why); })
        ->group(kHidden);
  command
      .add_option_function<std::vector<std::string>>(
          "--lora-modules",
          [](const std::vector<std::string>&) {
            throw CLI::ValidationError("--lora-modules", "LoRA adapters are not supported");
          })
      ->group(kHidden);
}

}  // namespace

void declare_bench_serve(CLI::App& command, BenchServeArgs& args) {
  flags::choice(command, "--backend", args.backend, {"openai", "openai-chat", "vllm"},
                "what is spoken: completions or chat");
  flags::text(command, "--base-url", args.base_url, "URL", "of the server, instead of host and port");
  flags::text(command, "--host", args.host, "NAME", "of the server")->capture_default_str();
  flags::int32(command, "--port", args.port, 1, "of the server", 65'535);
  flags::text(command, "--endpoint", args.endpoint, "PATH", "as the backend has it, /v1/completions");
  command.add_option("--header", args.header, "sent with every request")->type_name("KEY=VALUE");
  flags::text(command, "--request-id-prefix", args.request_id_prefix, "TEXT",
              "X-Request-Id of each request: this and its number");
  flags::text(command, "--model", args.model, "NAME", "asked from the server where it is not given");
  flags::text(command, "--served-model-name", args.served_model_name, "NAME", "sent instead of --model");
  flags::text(command, "--tokenizer", args.tokenizer, "PATH",
              "counts tokens of text data sets; without one four bytes are a token");
  flags::text(command, "--label", args.label, "TEXT", "in the result and its file's name");

  flags::choice(command, "--dataset-name", args.dataset_name,
                {"random", "prefix_repetition", "sharegpt", "custom", "trace"}, "where requests come from");
  flags::text(command, "--dataset-path", args.dataset_path, "FILE", "of the data set");
  flags::text(command, "--workload", args.workload, "SPEC",
              "instead of a data set: sharegpt:rate=2,requests=100, trace:FILE, …");
  flags::int32(command, "--num-prompts", args.num_prompts, 1, "requests; 1000, with --workload all");
  flags::int32(command, "--input-len", args.input_len, 1, "for --random-input-len");
  flags::int32(command, "--output-len", args.output_len, 1, "for the data set's own output length");
  flags::int32(command, "--random-input-len", args.random_input_len, 1, "prompt tokens");
  flags::int32(command, "--random-output-len", args.random_output_len, 1, "generated tokens");
  flags::int32(command, "--random-prefix-len", args.random_prefix_len, 0, "tokens that all prompts share");
  flags::number(command, "--random-range-ratio", args.random_range_ratio, 0, 0.999,
                "lengths are drawn between (1 - X) and (1 + X) of theirs");
  flags::int32(command, "--prefix-repetition-prefix-len", args.prefix_repetition_prefix_len, 1,
               "tokens of each shared prefix");
  flags::int32(command, "--prefix-repetition-suffix-len", args.prefix_repetition_suffix_len, 1,
               "tokens of each prompt after its prefix");
  flags::int32(command, "--prefix-repetition-num-prefixes", args.prefix_repetition_num_prefixes, 1,
               "prefixes, of which each prompt has one");
  flags::int32(command, "--prefix-repetition-output-len", args.prefix_repetition_output_len, 1,
               "generated tokens");
  flags::int32(command, "--sharegpt-output-len", args.sharegpt_output_len, 1, "instead of the data set's");
  flags::int32(command, "--custom-output-len", args.custom_output_len, 1, "where a line has none");

  flags::text(command, "--request-rate", args.request_rate, "X",
              "requests a second; inf (the default): all at once; a trace has its own times");
  flags::text(command, "--burstiness", args.burstiness, "X",
              "below 1: burstier than Poisson; above: more even")
      ->default_str("1");
  flags::choice(command, "--ramp-up-strategy", args.ramp_up_strategy, {"linear", "exponential"},
                "the rate rises (or falls) over the requests, instead of --request-rate");
  flags::number(command, "--ramp-up-start-rps", args.ramp_up_start_rps, 1e-9, 1e9, "of the first request");
  flags::number(command, "--ramp-up-end-rps", args.ramp_up_end_rps, 1e-9, 1e9, "of the last");
  flags::int32(command, "--max-concurrency", args.max_concurrency, 1, "requests under way at once");
  flags::int32(command, "--num-warmups", args.num_warmups, 0, "requests before the measured ones");
  flags::integer(
      command, "--seed", 0, std::numeric_limits<std::int64_t>::max(),
      [&args](std::int64_t seed) { args.seed = seed; }, "of lengths, arrivals and prompts");
  flags::int32(command, "--ready-check-timeout-sec", args.ready_check_timeout_sec, 0,
               "wait so long for the server; 0: do not ask");
  flags::number(command, "--connect-timeout", args.connect_timeout_s, 0.001, 1e6, "seconds");
  flags::number(command, "--read-timeout", args.read_timeout_s, 0.001, 1e6,
                "seconds without a byte of an answer");

  command.add_flag("--ignore-eos", args.ignore_eos, "generate to the full length; random does so always");
  sampling(command, args, "--temperature", "temperature");
  sampling(command, args, "--top-p", "top_p");
  sampling(command, args, "--top-k", "top_k");
  sampling(command, args, "--min-p", "min_p");
  sampling(command, args, "--frequency-penalty", "frequency_penalty");
  sampling(command, args, "--presence-penalty", "presence_penalty");
  sampling(command, args, "--repetition-penalty", "repetition_penalty");
  sampling(command, args, "--logprobs", "logprobs");
  flags::text(command, "--extra-body", args.extra_body, "JSON", "an object whose members are sent too");

  command.add_flag("--disable-tqdm", args.disable_tqdm, "no progress bar");
  command.add_flag("--save-result", args.save_result, "write a JSON file");
  command.add_flag("--save-detailed", args.save_detailed, "with every request's times and text");
  command.add_flag("--append-result", args.append_result, "add a line to the file instead");
  flags::text(command, "--result-dir", args.result_dir, "PATH", "for the file");
  flags::text(command, "--result-filename", args.result_filename, "NAME", "of the file");
  command.add_option("--metadata", args.metadata, "into the file")->type_name("KEY=VALUE");
  command.add_option("--goodput", args.goodput, "limits in ms: ttft:200 tpot:50 e2el:5000")
      ->type_name("KEY:MS");
  flags::text(command, "--percentile-metrics", args.percentile_metrics, "LIST",
              "shown: of ttft, tpot, itl, e2el")
      ->capture_default_str();
  flags::text(command, "--metric-percentiles", args.metric_percentiles, "LIST", "shown of them: 50,90,99")
      ->capture_default_str();
  add_vllm_only_flags(command);
}

}  // namespace pagoda
