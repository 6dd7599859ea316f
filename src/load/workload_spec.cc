#include "load/workload_spec.h"

#include <charconv>
#include <cmath>
#include <functional>
#include <map>

#include "base/strings.h"

namespace pagoda {
namespace {

template <class T>
bool whole_number(std::string_view text, T low, T high, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= low && value <= high;
}

bool real_number(std::string_view text, double& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !std::isnan(value);
}

// A Store parses and stores one value. It returns a description of the valid values, empty on success.
using Store = std::function<std::string(std::string_view, WorkloadSpec&)>;

Store count(std::int32_t WorkloadSpec::* member, std::int32_t low) {
  return [member, low](std::string_view text, WorkloadSpec& spec) -> std::string {
    if (whole_number(text, low, kMaxTraceTokens, spec.*member)) return {};
    return concat("a whole number from ", low, " to ", kMaxTraceTokens);
  };
}

Store real(double WorkloadSpec::* member) {
  return [member](std::string_view text, WorkloadSpec& spec) -> std::string {
    return real_number(text, spec.*member) ? "" : "a number";
  };
}

Store real(std::optional<double> WorkloadSpec::* member) {
  return [member](std::string_view text, WorkloadSpec& spec) -> std::string {
    return real_number(text, (spec.*member).emplace()) ? "" : "a number";
  };
}

Store range(TokenRange WorkloadSpec::* member) {
  return [member](std::string_view text, WorkloadSpec& spec) -> std::string {
    TokenRange& r = spec.*member;
    const std::size_t dash = text.find('-');
    const bool good = whole_number(text.substr(0, dash), 1, kMaxTraceTokens, r.low) &&
                      (dash == std::string_view::npos
                           ? (r.high = r.low, true)
                           : whole_number(text.substr(dash + 1), r.low, kMaxTraceTokens, r.high));
    return good ? "" : "a number of tokens or a range such as 100-200";
  };
}

std::string store_requests(std::string_view text, WorkloadSpec& spec) {
  constexpr std::int64_t kMost = 1'000'000'000;
  if (whole_number<std::int64_t>(text, 0, kMost, spec.num_requests.emplace())) return {};
  return concat("a whole number from 0 to ", kMost);
}

std::string store_seed(std::string_view text, WorkloadSpec& spec) {
  return whole_number<std::uint64_t>(text, 0, std::numeric_limits<std::uint64_t>::max(), spec.seed)
             ? ""
             : "a whole number, not negative";
}

std::string store_form(std::string_view text, WorkloadSpec& spec) {
  const auto form = parse_trace_form(text);
  if (!form) return "detect, jsonl, custom, sharegpt, azure or mooncake";
  spec.form = *form;
  return {};
}

const std::map<std::string_view, Store>& keys() {
  using W = WorkloadSpec;
  static const std::map<std::string_view, Store> kKeys = {
      {"requests", store_requests},
      {"duration", real(&W::duration_s)},
      {"rate", real(&W::rate)},
      {"burstiness", real(&W::burstiness)},
      {"seed", store_seed},
      {"max_len", count(&W::max_model_len, 2)},
      {"n", count(&W::n, 1)},
      {"best_of", count(&W::best_of, 1)},
      {"beam", count(&W::beam_width, 0)},
      {"prefix", count(&W::prefix_tokens, 0)},
      {"prefixes", count(&W::num_prefixes, 1)},
      {"rounds", count(&W::rounds, 1)},
      {"history", count(&W::history_tokens, 1)},
      {"new", real(&W::new_share)},
      {"quantum", real(&W::quantum_s)},
      {"input", range(&W::input)},
      {"output", range(&W::output)},
      {"scale", real(&W::time_scale)},
      {"form", store_form},
  };
  return kKeys;
}

// A key of another source is an error, because it would silently have no effect.
bool belongs(std::string_view key, WorkloadSpec::Source source) {
  if (key == "input" || key == "output") return source == WorkloadSpec::Source::uniform;
  if (key == "scale" || key == "form") return source == WorkloadSpec::Source::trace;
  if (key == "max_len") return source != WorkloadSpec::Source::uniform;
  if (key == "new") return source != WorkloadSpec::Source::trace;
  return true;
}

std::string known_keys(WorkloadSpec::Source source) {
  std::string names;
  for (const auto& [name, store] : keys())
    if (belongs(name, source)) names += concat(names.empty() ? "" : ", ", name);
  return names;
}

std::string_view take(std::string_view& text, char end) {
  const std::size_t at = text.find(end);
  const std::string_view piece = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return piece;
}

}  // namespace

Result<WorkloadSpec> parse_workload_spec(std::string_view text) {
  WorkloadSpec spec;
  const std::string whole(text);
  const auto fail = [&](const std::string& message) {
    return invalid_argument(concat("workload '", whole, "': ", message));
  };
  const std::string_view source = take(text, ':');
  if (source == "sharegpt")
    spec.source = WorkloadSpec::Source::sharegpt;
  else if (source == "alpaca")
    spec.source = WorkloadSpec::Source::alpaca;
  else if (source == "uniform" || source == "fixed")
    spec.source = WorkloadSpec::Source::uniform;
  else if (source == "trace")
    spec.source = WorkloadSpec::Source::trace;
  else
    return fail(concat("'", source, "' is not one of sharegpt, alpaca, uniform, fixed, trace"));
  if (spec.source == WorkloadSpec::Source::trace) {
    spec.trace_file = take(text, ',');
    if (spec.trace_file.empty()) return fail("a file must follow 'trace:'");
  }
  while (!text.empty()) {
    std::string_view value = take(text, ',');
    const std::string_view key = take(value, '=');
    const auto found = keys().find(key);
    if (found == keys().end() || !belongs(key, spec.source))
      return fail(concat("unknown key '", key, "'; ", source, " has ", known_keys(spec.source)));
    if (const std::string wanted = found->second(value, spec); !wanted.empty())
      return fail(concat(key, ": '", value, "' is not ", wanted));
  }
  return spec;
}

}  // namespace pagoda
