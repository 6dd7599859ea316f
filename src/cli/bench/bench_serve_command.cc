#include "cli/bench/bench_serve_command.h"

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "cli/assembly/load_tokenizer.h"
#include "cli/bench/bench_serve_plan.h"
#include "cli/commands/progress_bar.h"
#include "cli/exit_code.h"
#include "cli/output_file.h"
#include "load/http_load.h"
#include "load/request_body.h"
#include "load/serve_report.h"
#include "load/workload_spec.h"

namespace pagoda {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;

// Request index of warm-up requests, so that their prompts differ from the measured ones.
constexpr std::uint64_t kWarmupIndex = std::uint64_t{1} << 40;

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> parts;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    parts.emplace_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return parts;
}

Result<std::vector<std::pair<std::string, std::string>>> key_values(const std::string& flag,
                                                                    const std::vector<std::string>& given) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string& one : given) {
    const std::size_t equals = one.find('=');
    if (equals == std::string::npos || equals == 0)
      return invalid_argument(concat(flag, ": '", one, "' is not KEY=VALUE"));
    if (one.find_first_of("\r\n") != std::string::npos)
      return invalid_argument(concat(flag, ": line break in the value of '", one.substr(0, equals), "'"));
    pairs.emplace_back(one.substr(0, equals), one.substr(equals + 1));
  }
  return pairs;
}

// The same request a given number of times, all at once.
class Repeated final : public Workload {
 public:
  Repeated(WorkloadRequest request, std::int32_t times) : request_(std::move(request)), left_(times) {
    request_.arrival_s = 0;
  }
  Result<std::optional<WorkloadRequest>> next() override {
    if (left_-- <= 0) return std::optional<WorkloadRequest>();
    return std::optional(request_);
  }

 private:
  WorkloadRequest request_;
  std::int32_t left_;
};

Result<std::string> first_model(const LoadOptions& options) {
  PAGODA_ASSIGN_OR_RETURN(const auto answer, fetch(options, "/v1/models"));
  json::error_code error;
  const json::value body = json::parse(answer.body, error);
  if (!error && answer.status == 200) {
    const auto* const list = body.is_object() ? body.get_object().if_contains("data") : nullptr;
    if (list != nullptr && list->is_array() && !list->get_array().empty()) {
      const json::value& model = list->get_array()[0];
      const auto* const id = model.is_object() ? model.get_object().if_contains("id") : nullptr;
      if (id != nullptr && id->is_string()) return std::string(id->get_string());
    }
  }
  return unavailable(concat("/v1/models names no model (HTTP ", answer.status, "): give one with --model"));
}

// Repeats the request until the server answers: waits while connections are refused or the status is 503.
template <class Ask>
auto wait_for_server(const BenchServeArgs& args, Ask&& ask) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(args.ready_check_timeout_sec);
  for (bool told = false;; told = true) {
    auto answer = ask();
    const bool there = answer.has_value() || answer.error().code() != StatusCode::unavailable;
    if (there || std::chrono::steady_clock::now() >= deadline) return answer;
    if (!told) std::fprintf(stderr, "Waiting for the server: %s\n", answer.error().message().c_str());
    std::this_thread::sleep_for(milliseconds(500));
  }
}

// Determines by short requests which form the server accepts: with or without a token count in every chunk;
// prompts as token ids (and which ids), or as words.
Status find_form(const BenchServeArgs& args, const LoadOptions& options, bool has_text, BodyOptions& body) {
  WorkloadRequest request;
  request.prompt_tokens = 4;
  request.output_tokens = 1;
  const auto refused = [&](const BodyOptions& form) -> Result<std::string> {
    auto answer = wait_for_server(args, [&]() -> Result<HttpAnswer> {
      auto got = fetch(options, options.endpoint, write_body(request, kWarmupIndex, form));
      if (got && got->status == 503) return unavailable("HTTP 503");
      return got;
    });
    if (!answer) return answer.error();
    return answer->status == 200 ? std::string()
                                 : concat("HTTP ", answer->status, ": ", answer->body.substr(0, 300));
  };
  BodyOptions words = body;
  words.made_up = BodyOptions::MadeUp::words;
  auto reason = refused(words);
  if (!reason) return reason.error();
  if (!reason->empty()) {
    words.continuous_usage = false;
    PAGODA_ASSIGN_OR_RETURN(const auto again, refused(words));
    if (!again.empty()) return unavailable(concat("the test request failed: ", again));
  }
  body.continuous_usage = words.continuous_usage;
  if (has_text || (body.endpoint != BodyOptions::Endpoint::completions &&
                   body.endpoint != BodyOptions::Endpoint::embeddings))
    return ok_status();
  const std::int32_t highest = body.token_high;
  for (const std::int32_t high : {highest, std::min(highest, 499)}) {
    BodyOptions ids = body;
    ids.token_low = ids.token_high = high;
    reason = refused(ids);
    if (!reason) return reason.error();
    if (reason->empty()) {
      body.token_high = high;
      body.token_low = std::min(body.token_low, high);
      return ok_status();
    }
  }
  std::fputs("The server does not accept token ids: prompts are words, about one token each.\n", stderr);
  body.made_up = BodyOptions::MadeUp::words;
  return ok_status();
}

Result<std::string> extra_members(const BenchServeArgs& args) {
  json::object members;
  members["temperature"] = 0;
  for (const auto& [name, value] : args.sampling) {
    json::error_code error;
    members[name] = json::parse(value, error);
    if (error) return invalid_argument(concat(name, ": '", value, "' is not a number"));
  }
  if (!args.extra_body.empty()) {
    json::error_code error;
    const json::value extra = json::parse(args.extra_body, error);
    if (error || !extra.is_object())
      return invalid_argument(concat("--extra-body: '", args.extra_body, "' is not a JSON object"));
    for (const auto& member : extra.get_object()) members[member.key()] = member.value();
  }
  const std::string text = json::serialize(members);
  return concat(",", text.substr(1, text.size() - 2));
}

Result<ReportOptions> report_options(const BenchServeArgs& args, const BenchPlan& plan,
                                     const std::string& model) {
  ReportOptions report;
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char date[32];
  report.date.assign(date, std::strftime(date, sizeof date, "%Y%m%d-%H%M%S", &local));
  report.backend = args.backend;
  report.label = args.label;
  report.model_id = model;
  report.tokenizer_id = args.tokenizer.empty() ? model : args.tokenizer;
  report.num_prompts = plan.spec.num_requests.value_or(0);
  report.request_rate = plan.spec.rate.value_or(std::numeric_limits<double>::infinity());
  report.burstiness = plan.spec.burstiness;
  report.ramp_up_strategy = args.ramp_up_strategy;
  report.ramp_up_start_rps = args.ramp_up_start_rps;
  report.ramp_up_end_rps = args.ramp_up_end_rps;
  if (args.max_concurrency > 0) report.max_concurrency = args.max_concurrency;
  report.detailed = args.save_detailed;
  report.metrics = split(args.percentile_metrics);
  for (const std::string& name : report.metrics)
    if (name != "ttft" && name != "tpot" && name != "itl" && name != "e2el")
      return invalid_argument(
          concat("--percentile-metrics: '", name, "' is not one of ttft, tpot, itl, e2el"));
  report.percentiles.clear();
  for (const std::string& text : split(args.metric_percentiles)) {
    PAGODA_ASSIGN_OR_RETURN(const auto percent, parse_real("--metric-percentiles", text));
    if (percent > 100) return invalid_argument(concat("--metric-percentiles: '", text, "' is more than 100"));
    report.percentiles.push_back(percent);
  }
  auto goodput = parse_goodput(args.goodput);
  if (!goodput) return invalid_argument(concat("--goodput: ", goodput.error().message()));
  report.goodput = *goodput;
  PAGODA_ASSIGN_OR_RETURN(report.metadata, key_values("--metadata", args.metadata));
  return report;
}

// Formats a number as Python prints a float: "2.0", "0.5", "inf".
std::string python_float(double value) {
  char buffer[40];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
  std::string text(buffer, end);
  return text.find_first_of(".ein") == std::string::npos ? text + ".0" : text;
}

// Returns the file for the result; empty if it is not saved.
std::string result_path(const BenchServeArgs& args, const ReportOptions& report) {
  if (!args.save_result && !args.append_result) return {};
  std::string name = args.result_filename;
  if (name.empty()) {
    const std::string model = report.model_id.substr(report.model_id.rfind('/') + 1);
    name = concat(args.label.empty() ? args.backend : args.label, "-", python_float(report.request_rate),
                  "qps", report.max_concurrency ? concat("-concurrency", *report.max_concurrency) : "", "-",
                  model, "-", report.date, ".json");
  }
  if (args.result_dir.empty()) return name;
  std::error_code error;  // check_output() reports the error, too
  std::filesystem::create_directories(args.result_dir, error);
  return (std::filesystem::path(args.result_dir) / name).string();
}

Status append_result(const std::string& path, const std::string& text) {
  std::error_code error;
  const bool behind = std::filesystem::exists(path, error) && std::filesystem::file_size(path, error) > 0;
  std::ofstream file(path, std::ios::app);
  if (behind) file << "\n";
  file << text;
  file.close();
  return file ? ok_status() : invalid_argument(file_failure("write", path));
}

void print_failures(const ServeSummary& summary) {
  std::size_t shown = 0;
  for (const auto& [reason, count] : summary.errors) {
    if (++shown > 10) {
      std::fprintf(stderr, "  and %zu other reasons\n", summary.errors.size() - 10);
      return;
    }
    std::fprintf(stderr, "%6lld failed: %s\n", static_cast<long long>(count), reason.c_str());
  }
}

struct Spoken {
  BodyOptions::Endpoint endpoint;
  std::string_view path;
};
Spoken spoken_by(std::string_view backend) {
  using Endpoint = BodyOptions::Endpoint;
  if (backend == "openai-chat") return {Endpoint::chat, "/v1/chat/completions"};
  if (backend == "responses") return {Endpoint::responses, "/v1/responses"};
  if (backend == "anthropic") return {Endpoint::messages, "/v1/messages"};
  if (backend == "ollama") return {Endpoint::ollama, "/api/chat"};
  if (backend == "openai-embeddings") return {Endpoint::embeddings, "/v1/embeddings"};
  if (backend == "llamacpp") return {Endpoint::llamacpp, "/completion"};
  return {Endpoint::completions, "/v1/completions"};
}

// The connection options of requests; their bodies are set later.
Result<LoadOptions> load_options(const BenchServeArgs& args, const WorkloadSpec& spec, const Spoken& spoken) {
  LoadOptions options;
  PAGODA_ASSIGN_OR_RETURN(auto headers, key_values("--header", args.header));
  PAGODA_ASSIGN_OR_RETURN(options.server, args.base_url.empty()
                                              ? Result<HttpServerAddress>(HttpServerAddress{
                                                    args.host, std::to_string(args.port), ""})
                                              : parse_base_url(args.base_url));
  if (!has_choices(spoken.endpoint) && (spec.n > 1 || spec.beam_width > 0))
    return invalid_argument(
        concat("--backend ", args.backend, ": this API returns one choice, without beam search"));
  options.endpoint = args.endpoint.empty() ? std::string(spoken.path) : args.endpoint;
  if (!options.endpoint.starts_with('/') || options.endpoint.find_first_of(" \r\n") != std::string::npos)
    return invalid_argument(
        concat("--endpoint: '", options.endpoint, "' is not a path such as /v1/completions"));
  options.headers = headers;
  if (const char* const key = std::getenv("OPENAI_API_KEY"); key != nullptr && *key != '\0')
    options.headers.emplace_back("Authorization", concat("Bearer ", key));
  options.connect_timeout = milliseconds(static_cast<std::int64_t>(args.connect_timeout_s * 1e3));
  options.read_timeout = milliseconds(static_cast<std::int64_t>(args.read_timeout_s * 1e3));
  if (args.max_concurrency > 0) options.max_concurrency = args.max_concurrency;
  if (args.request_id_prefix.find_first_of("\r\n") != std::string::npos)
    return invalid_argument("--request-id-prefix: must not contain a line break");
  if (spoken.endpoint == BodyOptions::Endpoint::embeddings) options.wants = AnswerReader::Wants::vectors;
  if (args.save_detailed) options.texts = AnswerReader::Texts::keep;
  return options;
}

void print_traffic(const BenchServeArgs& args, const WorkloadSpec& spec) {
  std::printf("Traffic request rate: %s\n",
              spec.rate ? python_float(*spec.rate).c_str() : "the workload's own");
  std::printf("Burstiness factor: %s (%s)\n", python_float(spec.burstiness).c_str(),
              spec.burstiness == 1 ? "Poisson process" : "Gamma distribution");
  std::printf("Maximum request concurrency: %s\n",
              args.max_concurrency > 0 ? std::to_string(args.max_concurrency).c_str() : "None");
  std::fflush(stdout);
}

}  // namespace

Status run_bench_serve(const BenchServeArgs& args) {
  std::unique_ptr<Tokenizer> tokenizer;
  TokenCounter count_tokens;
  if (!args.tokenizer.empty()) {
    PAGODA_ASSIGN_OR_RETURN(tokenizer, load_tokenizer(args.tokenizer));
    count_tokens = [&tokenizer](std::string_view text) -> std::int64_t {
      const auto ids = tokenizer->encode(text, {});
      return ids ? static_cast<std::int64_t>(ids->size()) : 0;
    };
  }
  PAGODA_ASSIGN_OR_RETURN(auto plan, make_plan(args, std::move(count_tokens)));
  // The first request determines the kind of the data set, and serves as a warm-up.
  auto first = first_request(plan);
  if (!first && first.error().reason() == kNoArrivalTimes && args.workload.empty()) {
    plan.spec.rate = std::numeric_limits<double>::infinity();  // as in vLLM: all at once
    first = first_request(plan);
  }
  if (!first) return first.error();
  PAGODA_ASSIGN_OR_RETURN(auto workload, open_plan(plan));
  if (!*first) return invalid_argument("the data set has no requests");
  PAGODA_ASSIGN_OR_RETURN(auto members, extra_members(args));
  auto report = report_options(args, plan, "");  // reports wrong flags before any load
  if (!report) return report.error();

  const Spoken spoken = spoken_by(args.backend);
  PAGODA_ASSIGN_OR_RETURN(auto options, load_options(args, plan.spec, spoken));

  BodyOptions body;
  body.endpoint = spoken.endpoint;
  body.ignore_eos = plan.ignore_eos;
  body.extra_members = members;
  body.seed = plan.spec.seed;
  if (tokenizer != nullptr) body.token_high = std::max(1, tokenizer->vocab_size() - 1);
  body.token_low = std::min(body.token_low, body.token_high);
  std::string model = args.model;
  if (model.empty()) {
    auto asked = wait_for_server(args, [&] { return first_model(options); });
    if (!asked) return asked.error();
    model = *asked;
    std::printf("Using model: %s\n", model.c_str());
  }
  body.model = args.served_model_name.empty() ? model : args.served_model_name;
  report = report_options(args, plan, model);
  if (!report) return report.error();
  const std::string path = result_path(args, *report);
  PAGODA_RETURN_IF_ERROR(check_output(path));
  if (args.ready_check_timeout_sec > 0)
    PAGODA_RETURN_IF_ERROR(find_form(args, options, !(*first)->prompt.empty(), body));

  std::uint64_t offset = kWarmupIndex;
  options.body = [&](const WorkloadRequest& request, std::uint64_t index) {
    return write_body(request, index + offset, body);
  };
  if (args.num_warmups > 0) {
    std::printf("Warming up with %d requests...\n", args.num_warmups);
    Repeated warmup(**first, args.num_warmups);
    PAGODA_ASSIGN_OR_RETURN(const auto warmed, run_load(warmup, options));
  }
  offset = 0;
  options.request_id_prefix = args.request_id_prefix;
  print_traffic(args, plan.spec);
  std::unique_ptr<ProgressBar> bar;
  const std::int64_t total = workload->size().value_or(plan.spec.num_requests.value_or(0));
  if (!args.disable_tqdm && total > 0) bar = std::make_unique<ProgressBar>("bench serve", total, "requests");
  options.progress = [&](std::int64_t ended, std::int64_t running) {
    if (bar != nullptr) bar->update(ended, concat(running, " running"));
  };
  const auto result = run_load(*workload, options);
  bar.reset();
  if (!result) return result.error();

  // The number of requests in a workload is known only at its end.
  if (report->num_prompts == 0) report->num_prompts = static_cast<std::int64_t>(result->outcomes.size());
  const ServeSummary summary = summarize(*result, report->goodput);
  std::fputs(report_table(summary, *report).c_str(), stdout);
  print_failures(summary);
  if (!path.empty()) {
    const std::string json = report_json(summary, *result, *report);
    PAGODA_RETURN_IF_ERROR(args.append_result ? append_result(path, json) : write_output(path, json));
  }
  if (summary.completed == 0) return unavailable(concat("all ", summary.failed, " requests failed"));
  return ok_status();
}

}  // namespace pagoda
