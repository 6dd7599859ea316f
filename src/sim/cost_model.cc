#include "sim/cost_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/strings.h"

namespace pagoda {
namespace {

constexpr double kActivationBytes = 2;  // ranks exchange 16-bit values

double interpolate(const std::vector<CostModel::Point>& points, double tokens) {
  auto after = std::ranges::find_if(points, [=](const auto& p) { return p.tokens >= tokens; });
  if (after == points.begin()) return after->seconds;
  if (after == points.end()) {
    if (points.size() == 1) return points.front().seconds * tokens / points.front().tokens;
    --after;
  }
  const CostModel::Point &a = *(after - 1), &b = *after;
  return a.seconds + (b.seconds - a.seconds) * (tokens - a.tokens) / (b.tokens - a.tokens);
}

double linear_seconds(const CostModel& model, double tokens) {
  if (!model.linear_points.empty()) return interpolate(model.linear_points, tokens);
  const double ranks = model.tensor_parallel_size;
  const double reading = model.parameters * model.bytes_per_parameter / ranks / model.memory_bytes_per_s;
  const double computing = 2 * model.parameters * tokens / ranks / model.flops_per_s;
  return std::max(reading, computing);
}

double head_seconds(const CostModel& model, double rows) {
  if (rows == 0) return 0;
  const double ranks = model.tensor_parallel_size;
  const double reading = model.head_parameters * model.bytes_per_parameter / ranks / model.memory_bytes_per_s;
  const double computing = 2 * model.head_parameters * rows / ranks / model.flops_per_s;
  return std::max(reading, computing);
}

double paged_share(const CostModel& model, std::int32_t block_size) {
  if (model.paged_read_efficiency.empty()) return 1;
  double share = model.paged_read_efficiency.front().share;
  for (const CostModel::Efficiency& entry : model.paged_read_efficiency)
    if (entry.block_size <= block_size) share = entry.share;
  return share;
}

// The sequences of a request are adjacent and share its parameters.
double num_requests(const ScheduledBatch& batch) {
  double out = 0;
  const SamplingParams* last = nullptr;
  for (const ScheduledSequence& sequence : batch.sequences) {
    out += sequence.spec.params == nullptr || sequence.spec.params != last ? 1 : 0;
    last = sequence.spec.params;
  }
  return out;
}

// Tokens read, and pairs of query and key, in one layer of the group.
struct Attended {
  double read = 0, pairs = 0;
};
Attended attended_in(const KvGroup& group, double before, double tokens) {
  const Attended all = {.read = before + tokens, .pairs = tokens * before + tokens * (tokens + 1) / 2};
  if (group.kind == KvKind::full) return all;
  const double window = group.window, grows = std::clamp(window - before, 0.0, tokens);
  return {.read = std::min(all.read, window - 1 + tokens),
          .pairs = grows * before + grows * (grows + 1) / 2 + (tokens - grows) * window};
}

double attention_seconds(const CostModel& model, const ScheduledSequence& sequence, double share,
                         std::span<const KvGroup> groups) {
  const auto tokens = static_cast<double>(sequence.tokens.size());
  const double before = sequence.num_computed_tokens;
  const double ranks = model.tensor_parallel_size;
  // The number of a group's layers is proportional to its pages.
  double read = 0, attended = 0, pages = 0, states = 0;
  for (const KvGroup& group : groups) {
    if (group.is_state()) {  // a state is read and written
      states += 2 * static_cast<double>(group.state_bytes) / ranks / model.attention_bytes_per_s;
      continue;
    }
    const Attended of = attended_in(group, before, tokens);
    read += of.read * group.pages_per_row;
    attended += of.pairs * group.pages_per_row;
    pages += group.pages_per_row;
  }
  if (pages == 0) return states;
  read /= pages;
  attended /= pages;
  const double reading = read * model.kv_bytes_per_token / ranks / (share * model.attention_bytes_per_s);
  const double flops = 4 * model.attention_width * model.num_layers * attended / ranks;
  return states + std::max(reading, flops / model.attention_flops_per_s);
}

double all_reduce_seconds(const CostModel& model, double tokens) {
  const double ranks = model.tensor_parallel_size;
  if (ranks == 1) return 0;
  const double bytes = tokens * model.hidden_size * kActivationBytes;
  const double on_the_link = 2 * (ranks - 1) / ranks * bytes / model.link_bytes_per_s;
  return 2.0 * model.num_layers * (model.link_latency_s + on_the_link);
}

}  // namespace

StepCost step_cost(const CostModel& model, const ScheduledBatch& batch, std::span<const KvGroup> groups,
                   bool paged) {
  StepCost out;
  const double ranks = model.tensor_parallel_size;
  const auto swapped = static_cast<double>(batch.swap_out.size() + batch.swap_in.size());
  const std::int32_t block_size = groups.empty() ? 1 : groups.front().tokens_per_row;
  double pages = 0;  // pages in a row of every group
  for (const KvGroup& group : groups) pages += group.is_state() ? 0 : group.pages_per_row;
  const double block_bytes = model.kv_bytes_per_token * block_size / ranks / std::max(1.0, pages);
  if (swapped > 0) out.swap_seconds = swapped * (model.swap_block_s + block_bytes / model.swap_bytes_per_s);
  // Copy-on-write reads and writes a block in device memory.
  const double copying =
      static_cast<double>(batch.block_copies.size()) * 2 * block_bytes / model.memory_bytes_per_s;
  double attention = 0, rows = 0;
  const double share = paged ? paged_share(model, block_size) : 1;
  for (const ScheduledSequence& sequence : batch.sequences) {
    attention += attention_seconds(model, sequence, share, groups);
    rows += sequence.sample ? 1 : 0;
  }
  const double padded = model.computes_padding ? batch.num_padded_sequences : 0;
  const double tokens = batch.num_tokens + (model.computes_padding ? batch.num_padded_tokens : 0);
  rows += padded;
  out.seconds = model.step_overhead_s + out.swap_seconds + copying + linear_seconds(model, tokens) +
                head_seconds(model, rows) + attention + all_reduce_seconds(model, tokens) +
                model.request_overhead_s * (num_requests(batch) + padded) +
                model.sequence_overhead_s * (static_cast<double>(batch.sequences.size()) + padded) +
                model.token_overhead_s * tokens;
  return out;
}

Status validate(const CostModel& model) {
  const auto bad = [](std::string_view field, std::string_view what) {
    return invalid_argument(concat("cost model: ", field, ' ', what)).with_param(std::string(field));
  };
  const auto whole = [&](std::string_view field, std::int64_t value, std::int64_t high) {
    return value >= 1 && value <= high ? ok_status() : bad(field, concat("must be between 1 and ", high));
  };
  const auto positive = [&](std::string_view field, double value) {
    return std::isfinite(value) && value > 0 ? ok_status() : bad(field, "must be a number above 0");
  };
  const auto not_negative = [&](std::string_view field, double value) {
    return std::isfinite(value) && value >= 0 ? ok_status() : bad(field, "must be a number, at least 0");
  };
  PAGODA_RETURN_IF_ERROR(whole("num_layers", model.num_layers, 10'000));
  PAGODA_RETURN_IF_ERROR(whole("hidden_size", model.hidden_size, 1'000'000));
  PAGODA_RETURN_IF_ERROR(whole("vocab_size", model.vocab_size, 100'000'000));
  PAGODA_RETURN_IF_ERROR(whole("max_model_len", model.max_model_len, 100'000'000));
  PAGODA_RETURN_IF_ERROR(whole("tensor_parallel_size", model.tensor_parallel_size, 4096));
  if (model.max_num_batched_tokens != 0)
    PAGODA_RETURN_IF_ERROR(whole("max_num_batched_tokens", model.max_num_batched_tokens, 100'000'000));
  PAGODA_RETURN_IF_ERROR(positive("parameters", model.parameters));
  PAGODA_RETURN_IF_ERROR(not_negative("head_parameters", model.head_parameters));
  PAGODA_RETURN_IF_ERROR(positive("bytes_per_parameter", model.bytes_per_parameter));
  PAGODA_RETURN_IF_ERROR(positive("attention_width", model.attention_width));
  PAGODA_RETURN_IF_ERROR(positive("kv_bytes_per_token", model.kv_bytes_per_token));
  PAGODA_RETURN_IF_ERROR(positive("kv_cache_bytes", model.kv_cache_bytes));
  PAGODA_RETURN_IF_ERROR(positive("memory_bytes_per_s", model.memory_bytes_per_s));
  PAGODA_RETURN_IF_ERROR(positive("flops_per_s", model.flops_per_s));
  PAGODA_RETURN_IF_ERROR(positive("attention_bytes_per_s", model.attention_bytes_per_s));
  PAGODA_RETURN_IF_ERROR(positive("attention_flops_per_s", model.attention_flops_per_s));
  PAGODA_RETURN_IF_ERROR(positive("link_bytes_per_s", model.link_bytes_per_s));
  PAGODA_RETURN_IF_ERROR(not_negative("link_latency_s", model.link_latency_s));
  PAGODA_RETURN_IF_ERROR(positive("swap_bytes_per_s", model.swap_bytes_per_s));
  PAGODA_RETURN_IF_ERROR(not_negative("swap_block_s", model.swap_block_s));
  PAGODA_RETURN_IF_ERROR(not_negative("map_page_bytes", model.map_page_bytes));
  PAGODA_RETURN_IF_ERROR(not_negative("map_call_s", model.map_call_s));
  PAGODA_RETURN_IF_ERROR(not_negative("map_page_s", model.map_page_s));
  PAGODA_RETURN_IF_ERROR(not_negative("unmap_page_s", model.unmap_page_s));
  if (model.map_page_bytes == 0 && model.map_call_s + model.map_page_s + model.unmap_page_s > 0)
    return bad("map_page_bytes", "must be above 0 if mapping has a cost");
  PAGODA_RETURN_IF_ERROR(not_negative("step_overhead_s", model.step_overhead_s));
  PAGODA_RETURN_IF_ERROR(not_negative("request_overhead_s", model.request_overhead_s));
  PAGODA_RETURN_IF_ERROR(not_negative("outside_s", model.outside_s));
  PAGODA_RETURN_IF_ERROR(not_negative("fit_error", model.fit_error));
  PAGODA_RETURN_IF_ERROR(not_negative("fitted_steps", model.fitted_steps));
  PAGODA_RETURN_IF_ERROR(not_negative("fitted_sequences", model.fitted_sequences));
  PAGODA_RETURN_IF_ERROR(not_negative("sequence_overhead_s", model.sequence_overhead_s));
  PAGODA_RETURN_IF_ERROR(not_negative("token_overhead_s", model.token_overhead_s));
  double last = 0;
  for (std::size_t i = 0; i < model.linear_points.size(); ++i) {
    const CostModel::Point& point = model.linear_points[i];
    const std::string field = concat("linear_points.", i);
    if (!std::isfinite(point.tokens) || point.tokens <= last)
      return bad(field, "must have more tokens than the one before");
    if (!std::isfinite(point.seconds) || point.seconds <= 0) return bad(field, "must have seconds above 0");
    if (i > 0 && point.seconds < model.linear_points[i - 1].seconds)
      return bad(field, "must not be faster than a point with fewer tokens");
    last = point.tokens;
  }
  std::int32_t smaller = 0;
  for (std::size_t i = 0; i < model.paged_read_efficiency.size(); ++i) {
    const auto& [block_size, share] = model.paged_read_efficiency[i];
    const std::string field = concat("paged_read_efficiency.", i);
    if (block_size <= smaller) return bad(field, "must have a larger block size than the one before");
    if (!(share > 0 && share <= 1)) return bad(field, "must be above 0 and at most 1");
    smaller = block_size;
  }
  for (const auto& [field, quantiles] : {std::pair("decode_scatter", &model.decode_scatter),
                                         std::pair("prompt_scatter", &model.prompt_scatter)}) {
    if (quantiles->size() == 1) return bad(field, "must have at least two quantiles, or none");
    double before = 0;
    for (std::size_t i = 0; i < quantiles->size(); ++i) {
      const double value = (*quantiles)[i];
      if (!std::isfinite(value) || value <= 0 || value < before)
        return bad(concat(field, '.', i), "must be above 0 and not less than the one before");
      before = value;
    }
  }
  if (!(model.scatter_correlation >= 0 && model.scatter_correlation < 1))
    return bad("scatter_correlation", "must be at least 0 and below 1");
  return ok_status();
}

std::string cost_model_warning(const CostModel& model) {
  constexpr double kPoorFit = 0.10;
  if (model.fit_error > kPoorFit) {
    return concat("the cost model is off by ", fixed(100 * model.fit_error, 0),
                  " % (median) from the steps it was fitted to: calibrate again on a quieter machine");
  }
  if (model.linear_points.empty() && model.sequence_overhead_s == 0) {
    return concat(
        "the cost model is a roofline from data sheets, and the answer an upper bound: it ignores time ",
        "other than computing and reading, and real machines sustain less");
  }
  return {};
}

}  // namespace pagoda
