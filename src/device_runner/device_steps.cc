// DeviceModelRunner's steps: swaps, copies, the forward pass and draws of a batch.
#include <algorithm>

#include "base/clock.h"
#include "device/kernel_launches.h"
#include "device_runner/device_model_runner.h"

namespace pagoda::device_runner {
namespace {

std::size_t to_size(std::int64_t value) { return static_cast<std::size_t>(value); }

bool is_drawn(const OutputRow& row) { return row.prompt_row < 0; }

}  // namespace

bool DeviceModelRunner::run_ahead() {
  runs_ahead_ = sampler_ != nullptr && options_.parallel.size() == 1;
  return runs_ahead_;
}

StepResult DeviceModelRunner::run(const ScheduledBatch& batch) {
  submit(batch);
  return wait();
}

void DeviceModelRunner::submit(const ScheduledBatch& batch) {
  CHECK(num_submitted_ - num_waited_ < max_in_flight());
  const std::size_t before = slot_of(num_submitted_ + 1), slot = slot_of(num_submitted_);
  if (steps_[before].runs && !may_follow(batch)) finish(before);
  Step& step = steps_[slot];
  step.result = {};
  step.drawn.clear();
  // After a failed batch nothing is run: its draws do not exist.
  if (num_submitted_++ > num_waited_) step.result.status = steps_[before].result.status;
  if (!step.result.status.ok()) return;
  const bool unknown = std::ranges::any_of(
      batch.sequences, [](const ScheduledSequence& sequence) { return sequence.drawn_at >= 0; });
  if (!unknown || steps_[before].runs) return carry_out(batch, slot);
  held_.copy(batch);
  held_.fill_in(steps_[before].drawn);
  carry_out(held_.batch(), slot);
}

StepResult DeviceModelRunner::wait() {
  CHECK(num_waited_ < num_submitted_);
  const std::size_t slot = slot_of(num_waited_++);
  if (steps_[slot].runs) finish(slot);
  tiers_.take_news(steps_[slot].result.tier_news);
  return std::move(steps_[slot].result);
}

void DeviceModelRunner::settle() {
  for (std::int64_t number = num_waited_; number < num_submitted_; ++number)
    if (steps_[slot_of(number)].runs) finish(slot_of(number));
}

// True if all tokens unknown on the host are plain draws, and no memory changes owner.
bool DeviceModelRunner::may_follow(const ScheduledBatch& batch) const {
  if (!batch.swap_out.empty() || !batch.swap_in.empty() || !batch.page_maps.empty() ||
      !batch.page_maps_ahead.empty() || !batch.tier_moves.empty())
    return false;
  return std::ranges::all_of(batch.sequences, [&](const ScheduledSequence& sequence) {
    if (sequence.drawn_at < 0) return true;
    if (config().layer_input || !sequence.sample) return false;
    const SamplingParams& params = *sequence.spec.params;
    return !has_penalties(params) && params.bad_words.empty() &&
           params.min_tokens < sequence.spec.num_output_tokens;
  });
}

void DeviceModelRunner::carry_out(const ScheduledBatch& batch, std::size_t slot) {
  StepResult& result = steps_[slot].result;
  result.sequences.resize(batch.sequences.size());
  result.status = released_ && !batch.empty() ? internal_error("the weights have been released")
                                              : step_.check(batch, ids());
  if (result.status.ok())
    result.status =
        tiers_.check(batch.tier_moves, kv_plan_, mapper_ ? mapper_->arena().num_created() : num_blocks_);
  if (sampler_) sampler_->use(slot);
  if (result.status.ok()) result.status = step(batch, slot);
  if (steps_[slot].runs) return;
  // It has been waited for, and so has the previous one.
  if (steps_[1 - slot].runs) finish(1 - slot);
  if (clock_ && result.status.ok() && !batch.empty()) result.idle_seconds = clock_->take_idle(slot);
  steps_[slot].drawn = drawn_tokens(result);
}

void DeviceModelRunner::finish(std::size_t slot) {
  Step& step = steps_[slot];
  step.runs = false;
  step.result.status = device_->synchronize_event(done_[slot]);
  if (!step.result.status.ok()) return;
  if (!step.rows.empty()) sampler_->take(slot);
  if (clock_) step.result.idle_seconds = clock_->take_idle(slot);
  step.drawn = drawn_tokens(step.result);
}

Status DeviceModelRunner::step(const ScheduledBatch& batch, std::size_t slot) {
  StepResult& result = steps_[slot].result;
  tiers_.cancel(batch.tier_moves);
  arena_->begin();
  bucket_.reset();
  if (!batch.empty()) PAGODA_RETURN_IF_ERROR(bring(batch, slot));
  if (mapper_) {
    PAGODA_RETURN_IF_ERROR(mapper_->map(batch.page_maps));
    if (!batch.sequences.empty()) mapper_->map_ahead(batch.page_maps_ahead);
    result.mapping = mapper_->take_stats();
  }
  PAGODA_RETURN_IF_ERROR(swap(batch, result));
  PAGODA_RETURN_IF_ERROR(copy_blocks(batch.block_copies));
  PAGODA_RETURN_IF_ERROR(start_tier_moves(batch));
  if (!batch.empty()) {
    if (carrier_) carrier_->begin();
    PAGODA_RETURN_IF_ERROR(forward());
    PAGODA_RETURN_IF_ERROR(pooler_ ? pool(batch, result) : pools() ? ok_status() : sample(batch, slot));
    if (carrier_) return carrier_->check();
  }
  return steps_[slot].runs ? ok_status() : device_->synchronize(stream_);
}

// One copy per block: all of its layers are contiguous.
Status DeviceModelRunner::swap(const ScheduledBatch& batch, StepResult& result) {
  if (batch.swap_out.empty() && batch.swap_in.empty()) return ok_status();
  const SteadyClock clock;
  const TimeNs before = clock.now();
  const std::int64_t bytes = block_bytes_;
  const auto there = [&](const SwapCopy& copy) { return blocks_ + index(copy.block) * bytes; };
  const auto here = [&](const SwapCopy& copy) {
    return swap_space_.data() + static_cast<std::int64_t>(copy.swap_block) * bytes;
  };
  for (const SwapCopy& copy : batch.swap_out)
    PAGODA_RETURN_IF_ERROR(device_->copy_out(swap_stream_, here(copy), there(copy), to_size(bytes)));
  for (const SwapCopy& copy : batch.swap_in)
    PAGODA_RETURN_IF_ERROR(device_->copy_in(swap_stream_, there(copy), here(copy), to_size(bytes)));
  PAGODA_RETURN_IF_ERROR(device_->record(swapped_, swap_stream_));
  PAGODA_RETURN_IF_ERROR(device_->wait(stream_, swapped_));
  PAGODA_RETURN_IF_ERROR(device_->synchronize(swap_stream_));
  result.swap_seconds = to_seconds(clock.now() - before);
  return ok_status();
}

// Copies in groups of pairs that may run in any order; pairs of the list may chain.
Status DeviceModelRunner::copy_blocks(std::span<const BlockCopy> copies) {
  std::vector<std::int32_t> from, to;
  device::KernelLaunches launches(*device_, stream_);
  const auto go = [&]() -> Status {
    const device::CopyBlocksArgs args = {
        .cache = blocks_, .from = arena_->put(from), .to = arena_->put(to), .block_bytes = block_bytes_};
    const auto count = std::ssize(from);
    from.clear();
    to.clear();
    PAGODA_RETURN_IF_ERROR(arena_->take_status());
    return launches.copy_blocks(args, count);
  };
  const auto has = [](const std::vector<std::int32_t>& ids, BlockId id) {
    return std::ranges::find(ids, index(id)) != ids.end();
  };
  for (const BlockCopy& copy : copies) {
    if (has(to, copy.from) || has(to, copy.to) || has(from, copy.to)) PAGODA_RETURN_IF_ERROR(go());
    from.push_back(index(copy.from));
    to.push_back(index(copy.to));
  }
  return from.empty() ? ok_status() : go();
}

// Called before anything else of the step is put into the arena, so that steps of a bucket have the same
// addresses.
Status DeviceModelRunner::bring(const ScheduledBatch& batch, std::size_t slot) {
  step_.lay_out(batch, steps_[slot].result);
  held_adapters_.hold(options_.adapters.get(), step_.adapters());
  if (adapters_) PAGODA_RETURN_IF_ERROR(adapters_->bring(held_adapters_.held()));
  bucket_ = graphs_->bucket_of(step_);
  if (bucket_) step_.pad_rows(bucket_->rows);
  arena_->hold();
  const std::int32_t* const image = arena_->keep(step_.image(), to_size(step_.size_bytes()));
  PAGODA_RETURN_IF_ERROR(arena_->take_status());
  ops_->begin_step(step_.image(), image, bucket_);
  if (keeps_nothing())
    views_.show_whole_prompts(step_, layout_, config().num_layers());
  else
    views_.show_tables(step_, kv_plan_, layer_pages_);
  if (kv_plan_.has_states())
    views_.show_states(step_, kv_plan_, [&](std::int32_t page) { return blocks_ + page * block_bytes_; });
  if (bucket_) ops_->bring(views_.lanes(), views_.states());
  PAGODA_RETURN_IF_ERROR(ops_->take_status());
  // A replayed step's draws are copied along; an eager step puts more into the arena before its draws.
  if (bucket_) PAGODA_RETURN_IF_ERROR(plan_draws(batch, slot));
  if (!step_.drawn_tokens().empty()) return fill_in_tokens(image, slot);
  return arena_->send();
}

// Fills ids into the image from the previous step, which has not been waited for.
Status DeviceModelRunner::fill_in_tokens(const std::int32_t* image, std::size_t slot) {
  std::vector<device::DrawnPlace> places;
  for (const StepLayout::DrawnToken& token : step_.drawn_tokens())
    places.push_back({.row = token.row, .place = sampler_->place_of(1 - slot, token.sequence)});
  const device::FillInTokensArgs args = {
      .ids = const_cast<std::int32_t*>(image) + (step_.token_ids().data() - step_.image().data()),
      .drawn = sampler_->drawn(),
      .places = arena_->put(places),
      .count = static_cast<std::int32_t>(places.size())};
  PAGODA_RETURN_IF_ERROR(arena_->take_status());
  PAGODA_RETURN_IF_ERROR(arena_->send());
  return device::KernelLaunches(*device_, stream_).fill_in_tokens(args);
}

// A bucket's step also computes its logits.
Status DeviceModelRunner::forward() {
  DecoderBatch batch = views_.batch(step_, layout_, blocks_of_tables_);
  batch.adapters = held_adapters_.of_rows();
  if (!bucket_) {
    if (clock_) PAGODA_RETURN_IF_ERROR(clock_->note_begin());
    PAGODA_RETURN_IF_ERROR(model_->forward(batch));
    return ops_->take_status();
  }
  model_->prepare(batch);
  PAGODA_RETURN_IF_ERROR(ops_->take_status());
  const auto launch = [&]() -> Status {
    if (clock_) PAGODA_RETURN_IF_ERROR(clock_->note_begin());
    PAGODA_RETURN_IF_ERROR(model_->forward(batch));
    return logits(0, bucket_->rows);
  };
  // Comparing writes the whole cache.
  TierCopies::Pause pause;
  if (graphs_->compares() && tier_copies_) pause = tier_copies_->pause();
  return graphs_->run(*ops_, *bucket_, launch, [&] { return written(); });
}

// Writes the logits of `count` output rows to the sampler.
Status DeviceModelRunner::logits(std::int64_t first, std::int64_t count) {
  const Buffer out = sampler_ ? Buffer::of(sampler_->logits(), config().vocab_size) : Buffer();
  PAGODA_RETURN_IF_ERROR(model_->logits(first, count, out));
  return ops_->take_status();
}

// Rows to draw from precede those that are only scored: one pass over the head serves all. The other ranks
// contribute their part of the logits.
Status DeviceModelRunner::sample(const ScheduledBatch& batch, std::size_t slot) {
  StepResult& result = steps_[slot].result;
  if (!bucket_) {
    arena_->hold();
    PAGODA_RETURN_IF_ERROR(plan_draws(batch, slot));
    PAGODA_RETURN_IF_ERROR(arena_->send());
  }
  if (steps_[slot].planned) return start_draws(slot);
  const std::span<const OutputRow> outputs = step_.output_rows();
  const auto num_drawn = to_size(std::ranges::count_if(outputs, is_drawn));
  const std::int64_t at_once = drawn_rows_at_once();
  std::vector<DrawnRow> drawn;
  for (std::size_t first = 0, end = 0; first < num_drawn; first = end) {
    end = std::min(num_drawn, first + to_size(at_once));
    if (!bucket_)
      PAGODA_RETURN_IF_ERROR(
          logits(static_cast<std::int64_t>(first), static_cast<std::int64_t>(end - first)));
    if (!samples()) continue;
    drawn.clear();
    for (std::size_t i = first; i < end; ++i) {
      const OutputRow& row = outputs[i];
      drawn.push_back({.row = sample_row(batch, result, row),
                       .id = batch.sequences[to_size(row.sequence)].id,
                       .sequence = to_size(row.sequence),
                       .draft = row.draft});
    }
    PAGODA_RETURN_IF_ERROR(sampler_->draw(drawn));
  }
  std::vector<PromptRow> scored;
  for (std::size_t first = num_drawn, end = 0; first < outputs.size(); first = end) {
    end = std::min(outputs.size(), first + to_size(DeviceSampler::prompt_rows_at_once(at_once)));
    PAGODA_RETURN_IF_ERROR(logits(static_cast<std::int64_t>(first), static_cast<std::int64_t>(end - first)));
    if (!samples()) continue;
    scored.clear();
    for (std::size_t i = first; i < end; ++i) {
      const OutputRow& row = outputs[i];
      scored.push_back(
          {.token = row.prompt_token,
           .num_top = batch.sequences[to_size(row.sequence)].prompt_logprobs,
           .result = &result.sequences[to_size(row.sequence)].prompt_logprobs[to_size(row.prompt_row)]});
    }
    PAGODA_RETURN_IF_ERROR(sampler_->score(scored));
  }
  return ok_status();
}

// A step is planned if one launch of the sampler, over rows of logits that exist together, covers all of its
// draws, or if it draws nothing.
Status DeviceModelRunner::plan_draws(const ScheduledBatch& batch, std::size_t slot) {
  Step& step = steps_[slot];
  step.planned = false;
  const std::span<const OutputRow> outputs = step_.output_rows();
  if (sampler_ == nullptr || carrier_ || std::cmp_greater(outputs.size(), drawn_rows_at_once()) ||
      !std::ranges::all_of(outputs, is_drawn))
    return ok_status();
  step.rows.clear();
  for (const OutputRow& row : outputs)
    step.rows.push_back({.row = sample_row(batch, step.result, row),
                         .id = batch.sequences[to_size(row.sequence)].id,
                         .sequence = to_size(row.sequence),
                         .draft = row.draft});
  step.planned = sampler_->draws_at_once(step.rows);
  return step.planned && !step.rows.empty() ? sampler_->plan(step.rows) : ok_status();
}

// finish() takes the results.
Status DeviceModelRunner::start_draws(std::size_t slot) {
  Step& step = steps_[slot];
  if (!step.rows.empty()) {
    if (!bucket_) PAGODA_RETURN_IF_ERROR(logits(0, std::ssize(step.rows)));
    PAGODA_RETURN_IF_ERROR(sampler_->launch());
  }
  PAGODA_RETURN_IF_ERROR(device_->record(done_[slot], stream_));
  step.runs = true;
  return ok_status();
}

}  // namespace pagoda::device_runner
