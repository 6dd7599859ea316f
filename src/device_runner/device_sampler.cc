#include "device_runner/device_sampler.h"

#include <algorithm>
#include <array>

#include "device/kernels/launch_shapes.h"

namespace pagoda::device_runner {
namespace {

// Number of rows that are copied for their scores, that the host draws from, and that are only scored.
constexpr std::int64_t kCopies = 64, kHostRows = 16, kPromptRows = 64;
// Maximum candidates per row, n or best_of, if there are several.
constexpr std::int64_t kMostCandidates = 256;

}  // namespace

DeviceSampler::DeviceSampler(device::Device& device, device::StreamId stream, device::StepArena& arena,
                             const Shape& shape)
    : device_(device),
      stream_(stream),
      arena_(arena),
      shape_(shape),
      slots_{{{.plan = DrawPlan(shape.vocab_size), .results = {}, .taken = {}, .places = {}},
              {.plan = DrawPlan(shape.vocab_size), .results = {}, .taken = {}, .places = {}}}},
      sampler_(KernelContext{.backend = Backend::cpu}) {}

Result<std::unique_ptr<DeviceSampler>> DeviceSampler::create(device::Device& device, device::StreamId stream,
                                                             device::StepArena& arena, const Shape& shape) {
  if (!device::KernelLaunches::supports_vocabulary(shape.vocab_size))
    return unimplemented("the vocabulary is too large for sampling on the device");
  std::unique_ptr<DeviceSampler> sampler(new DeviceSampler(device, stream, arena, shape));
  PAGODA_RETURN_IF_ERROR(sampler->reserve());
  return sampler;
}

std::int64_t DeviceSampler::prompt_rows_at_once(std::int64_t max_rows) {
  return std::min(max_rows, kPromptRows);
}

Status DeviceSampler::reserve() {
  const std::int64_t rows = shape_.max_rows, vocabulary = shape_.vocab_size;
  const std::int64_t tokens = rows + kMostCandidates,
                     top = std::max<std::int64_t>(rows * 20, kPromptRows * 64);
  const auto make = [&](auto& array, std::int64_t count, std::string_view name) -> Status {
    auto made = std::remove_cvref_t<decltype(array)>::create(device_, count, name);
    if (!made) return made.error();
    array = *std::move(made);
    return ok_status();
  };
  PAGODA_RETURN_IF_ERROR(make(logits_, rows * vocabulary, "logits"));
  PAGODA_RETURN_IF_ERROR(make(copies_, std::min(rows, kCopies) * vocabulary, "copies of logits"));
  PAGODA_RETURN_IF_ERROR(make(best_, rows, "best of rows"));
  PAGODA_RETURN_IF_ERROR(make(groups_, rows * device::token_groups(shape_.vocab_size), "best of groups"));
  PAGODA_RETURN_IF_ERROR(make(drawn_, tokens, "drawn tokens"));
  PAGODA_RETURN_IF_ERROR(make(normalizers_, rows, "normalizers of rows"));
  PAGODA_RETURN_IF_ERROR(make(scores_, tokens, "scores of tokens"));
  PAGODA_RETURN_IF_ERROR(make(top_, top, "best tokens"));
  for (Slot& slot : slots_) {
    auto results = device::PinnedArray<std::byte>::create(
        device_, drawn_.size_bytes() + normalizers_.size_bytes() + scores_.size_bytes() + top_.size_bytes());
    if (!results) return results.error();
    slot.results = *std::move(results);
  }
  auto host_logits = device::PinnedArray<float>::create(device_, std::min(rows, kHostRows) * vocabulary);
  if (!host_logits) return host_logits.error();
  host_logits_ = *std::move(host_logits);
  auto counts = TokenCounts::create(device_, shape_.max_num_seqs, shape_.vocab_size);
  if (!counts) return counts.error();
  counts_ = *std::move(counts);
  return ok_status();
}

std::int64_t DeviceSampler::size_bytes() const {
  return logits_.size_bytes() + copies_.size_bytes() + best_.size_bytes() + groups_.size_bytes() +
         drawn_.size_bytes() + normalizers_.size_bytes() + scores_.size_bytes() + top_.size_bytes() +
         counts_.size_bytes();
}

// The host's copy of a row, valid after the next synchronize().
Result<std::span<const float>> DeviceSampler::fetch(std::int64_t row, std::size_t place) {
  const auto vocabulary = static_cast<std::size_t>(shape_.vocab_size);
  const std::size_t bytes = vocabulary * sizeof(float);
  PAGODA_RETURN_IF_ERROR(device_.copy_out(stream_, host_logits_.bytes() + place * bytes,
                                          logits_.bytes() + static_cast<std::size_t>(row) * bytes, bytes));
  return std::span<const float>(host_logits_.data() + place * vocabulary, vocabulary);
}

Status DeviceSampler::draw(std::span<const DrawnRow> rows) {
  CHECK(std::ssize(rows) <= max_rows());
  // The host draws first, from logits that have not been edited yet.
  const auto room = static_cast<std::size_t>(host_logits_.count() / shape_.vocab_size);
  std::vector<SampleRow> of_host;
  const auto on_host = [&]() -> Status {
    if (of_host.empty()) return ok_status();
    PAGODA_RETURN_IF_ERROR(device_.synchronize(stream_));
    sampler_.sample(of_host);
    of_host.clear();
    return ok_status();
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (draws_on_device(rows[i].row)) continue;
    const auto logits = fetch(static_cast<std::int64_t>(i), of_host.size());
    if (!logits) return logits.error();
    of_host.push_back(rows[i].row);
    of_host.back().logits = *logits;
    if (of_host.size() == room) PAGODA_RETURN_IF_ERROR(on_host());
  }
  PAGODA_RETURN_IF_ERROR(on_host());

  begin();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SampleRow& row = rows[i].row;
    if (!draws_on_device(row)) continue;
    CHECK(row.num_candidates <= static_cast<std::uint32_t>(kMostCandidates));
    if (is_full(static_cast<std::int32_t>(row.num_candidates))) {
      PAGODA_RETURN_IF_ERROR(launch_and_take());
      begin();
    }
    plan().add(rows[i], static_cast<std::int32_t>(i), counts_);
  }
  return launch_and_take();
}

Status DeviceSampler::score(std::span<const PromptRow> rows) {
  CHECK(std::ssize(rows) <= max_rows());
  const auto room = static_cast<std::size_t>(host_logits_.count() / shape_.vocab_size);
  std::vector<PromptRow> of_host;
  const auto on_host = [&]() -> Status {
    if (of_host.empty()) return ok_status();
    PAGODA_RETURN_IF_ERROR(device_.synchronize(stream_));
    sampler_.score_prompt(of_host);
    of_host.clear();
    return ok_status();
  };
  begin();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (scores_on_device(rows[i])) {
      if (is_full(1)) {
        PAGODA_RETURN_IF_ERROR(launch_and_take());
        begin();
      }
      plan().add(rows[i], static_cast<std::int32_t>(i));
      continue;
    }
    const auto logits = fetch(static_cast<std::int64_t>(i), of_host.size());
    if (!logits) return logits.error();
    of_host.push_back(rows[i]);
    of_host.back().logits = *logits;
    if (of_host.size() == room) PAGODA_RETURN_IF_ERROR(on_host());
  }
  PAGODA_RETURN_IF_ERROR(launch_and_take());
  return on_host();
}

void DeviceSampler::begin() {
  plan().clear();
  counts_.begin();
}

// True if a row with this many candidates does not fit into this launch.
bool DeviceSampler::is_full(std::int32_t candidates) const {
  return plan().num_copies == copies_.count() / shape_.vocab_size ||
         plan().num_tokens + candidates > drawn_.count() || plan().num_top + device::kMostTop > top_.count();
}

bool DeviceSampler::draws_at_once(std::span<const DrawnRow> rows) const {
  std::int64_t tokens = 0, copies = 0, top = device::kMostTop;
  for (const DrawnRow& drawn : rows) {
    const SampleRow& row = drawn.row;
    if (!draws_on_device(row) || row.num_candidates > static_cast<std::uint32_t>(kMostCandidates))
      return false;
    tokens += row.num_candidates;
    if (!row.beam && !row.params->logprobs && row.params->best_of <= row.params->n) continue;
    ++copies;
    top += row.params->logprobs.value_or(0) + (row.beam ? row.num_candidates : 0);
  }
  return std::ssize(rows) <= max_rows() && tokens <= drawn_.count() && top <= top_.count() &&
         copies <= copies_.count() / shape_.vocab_size;
}

Status DeviceSampler::plan(std::span<const DrawnRow> rows) {
  begin();
  std::vector<std::int32_t>& places = slots_[slot_].places;
  places.assign(rows.empty() ? 0 : rows.back().sequence + 1, -1);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    places[rows[i].sequence] = plan().num_tokens;
    plan().add(rows[i], static_cast<std::int32_t>(i), counts_);
  }
  return put_arguments();
}

void DeviceSampler::take(std::size_t slot) { slots_[slot].plan.take(slots_[slot].taken); }

Status DeviceSampler::launch_and_take() {
  if (plan().draw_rows.empty() && plan().score_rows.empty()) return ok_status();
  arena_.hold();
  PAGODA_RETURN_IF_ERROR(put_arguments());
  PAGODA_RETURN_IF_ERROR(arena_.send());
  PAGODA_RETURN_IF_ERROR(launch());
  PAGODA_RETURN_IF_ERROR(device_.synchronize(stream_));
  take(slot_);
  return ok_status();
}

Status DeviceSampler::put_arguments() {
  const std::int32_t vocabulary = shape_.vocab_size;
  const std::int32_t* const of_prompts = arena_.put(plan().prompt_tokens);
  arguments_ = {.count = {.counts = counts_.data(),
                          .rows = arena_.put(counts_.rows()),
                          .tokens = arena_.put(counts_.tokens()),
                          .vocabulary = vocabulary},
                .edit = {.logits = logits_.data(),
                         .copies = copies_.data(),
                         .rows = arena_.put(plan().edit_rows),
                         .edits = const_cast<device::LogitEdit*>(arena_.put(plan().edits)),
                         .counts = counts_.data(),
                         .masks = arena_.put(plan().masks),
                         .best = best_.data(),
                         .vocabulary = vocabulary},
                .sample = {.logits = logits_.data(),
                           .rows = arena_.put(plan().draw_rows),
                           .best = best_.data(),
                           .groups = groups_.data(),
                           .tokens = drawn_.data(),
                           .vocabulary = vocabulary},
                .score = {.logits = logits_.data(),
                          .copies = copies_.data(),
                          .rows = arena_.put(plan().score_rows),
                          .tokens = of_prompts != nullptr ? of_prompts : drawn_.data(),
                          .normalizers = normalizers_.data(),
                          .scores = scores_.data(),
                          .top = top_.data(),
                          .vocabulary = vocabulary}};
  return arena_.take_status();
}

Status DeviceSampler::launch() {
  device::KernelLaunches launches(device_, stream_);
  PAGODA_RETURN_IF_ERROR(launches.count_tokens(arguments_.count, std::ssize(counts_.rows())));
  PAGODA_RETURN_IF_ERROR(launches.edit_logits(arguments_.edit, std::ssize(plan().edit_rows)));
  PAGODA_RETURN_IF_ERROR(launches.sample_rows(arguments_.sample, std::ssize(plan().draw_rows)));
  PAGODA_RETURN_IF_ERROR(launches.score_rows(arguments_.score, std::ssize(plan().score_rows)));

  if (clock_ != nullptr) PAGODA_RETURN_IF_ERROR(clock_->note_end(slot_));
  std::byte* to = slots_[slot_].results.bytes();
  Status status;
  const auto fetch = [&]<class T>(const device::DeviceArray<T>& from, std::size_t count) {
    const auto* const there = reinterpret_cast<const T*>(to);
    if (status.ok() && count > 0) status = device_.copy_out(stream_, to, from.bytes(), count * sizeof(T));
    to += from.size_bytes();
    return there;
  };
  const bool scored = !plan().score_rows.empty();
  const auto tokens = static_cast<std::size_t>(plan().num_tokens);
  slots_[slot_].taken = {.tokens = fetch(drawn_, plan().draw_rows.empty() ? 0 : tokens),
                         .normalizers = fetch(normalizers_, plan().score_rows.size()),
                         .scores = fetch(scores_, scored ? tokens : 0),
                         .top = fetch(top_, static_cast<std::size_t>(plan().num_top))};
  return status;
}

}  // namespace pagoda::device_runner
