#pragma once
// FakeModelRunner: a model runner for tests. It has real KV storage, addressed by block tables: the "K/V" of
// a token is a hash of the token, the adapter and the previous K/V, and a sampled token is a hash of all the
// K/V read. A wrong block table, a missed copy-on-write, a stale prefix block or a step out of order
// therefore changes the tokens. With KV groups, each page of each group stores its own variant of a token's
// K/V, and a window group attends only within its window; a state is a hash of all K/V, updated in place by
// all tokens except drafts, and copied during the step where the batch says so. reference() computes the same
// tokens with none of this machinery.
#include <algorithm>
#include <atomic>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "engine/fake_constraint.h"
#include "engine/fake_tiers.h"
#include "model_runner/model_runner.h"
#include "request/request.h"

namespace pagoda::fake {

inline constexpr TokenId kVocabulary = 40;
inline constexpr TokenId kEos = 0;

inline std::uint64_t key_value(std::uint64_t before, TokenId token, std::int32_t position,
                               AdapterId adapter = kNoAdapter) {
  return mix64(before ^
               mix64(static_cast<std::uint64_t>(token) * 1000003 + static_cast<std::uint64_t>(position)) ^
               static_cast<std::uint64_t>(adapter) * 0x9E3779B97F4A7C15u);
}
inline std::uint64_t attend(std::uint64_t sum, std::uint64_t key_value) {
  return mix64(sum * 31 + key_value);
}

inline float logprob_of(std::uint64_t attended, TokenId token) {
  return -0.01f - 5.0f * static_cast<float>(random_uniform(attended, 7, static_cast<std::uint64_t>(token)));
}

// With a mask, returns the next token that it allows; an arbitrary token if it allows none.
inline Candidate sample(std::uint64_t attended, std::uint64_t seed, std::uint32_t stream,
                        std::int32_t position, float temperature, std::span<const MaskWord> mask = {}) {
  const std::uint64_t bits =
      temperature == 0 ? mix64(attended)
                       : mix64(attended ^ random_bits(seed, stream, static_cast<std::uint64_t>(position)));
  auto token = static_cast<TokenId>(bits % kVocabulary);
  for (TokenId i = 0; i < kVocabulary && !mask.empty() && !allows(mask, token); ++i)
    token = (token + 1) % kVocabulary;
  return {.token = token, .logprob = logprob_of(attended, token), .rank = 1};
}

// The `count` most likely tokens, best first.
inline std::vector<Candidate> most_likely(std::uint64_t attended, std::uint32_t count,
                                          std::span<const MaskWord> mask = {}) {
  std::vector<Candidate> all;
  for (TokenId token = 0; token < kVocabulary; ++token) {
    if (!mask.empty() && !allows(mask, token)) continue;
    all.push_back({.token = token, .logprob = logprob_of(attended, token), .rank = 0});
  }
  std::ranges::sort(all, [](const Candidate& a, const Candidate& b) {
    return a.logprob != b.logprob ? a.logprob > b.logprob : a.token < b.token;
  });
  all.resize(std::min<std::size_t>(count, all.size()));
  for (std::size_t i = 0; i < all.size(); ++i) all[i].rank = static_cast<std::int32_t>(i) + 1;
  return all;
}

// The KV groups of the model's layers, also used by reference(); set by the latest runner. Windows have at
// least 2 tokens.
inline std::vector<KvGroup>& model_groups() {
  static std::vector<KvGroup> groups = one_full_group(1);
  return groups;
}
inline AdapterId adapter_of(const Request& request) {
  const RequestAdapter* adapter = request.adapter.get();
  return adapter != nullptr ? adapter->id : kNoAdapter;
}

// The value stored for a token in page `page` of a group's row; the first page of the first group stores the
// plain value.
inline std::uint64_t in_page(std::uint64_t key_value, std::size_t group, std::size_t page) {
  return key_value ^ (group * 0x1000193 + page * 0x100000001b3);
}
// The first position of a group that `position` attends to; at most `position` itself.
inline std::size_t first_seen(const KvGroup& group, std::size_t position) {
  const auto window = static_cast<std::size_t>(group.window);
  if (group.is_state()) return position;
  return group.kind == KvKind::full || position + 1 < window ? 0 : position + 1 - window;
}
// The attention of `position`; at(group, page, i) reads the stored values.
template <class At>
std::uint64_t attended_at(std::size_t position, At at) {
  std::uint64_t sum = 0;
  for (std::size_t g = 0; g < model_groups().size(); ++g) {
    const KvGroup& group = model_groups()[g];
    for (std::size_t page = 0; page < static_cast<std::size_t>(group.pages_per_row); ++page)
      for (std::size_t i = first_seen(group, position); i <= position; ++i) sum = attend(sum, at(g, page, i));
  }
  return sum;
}

// The state after the next token.
inline std::uint64_t next_state(std::uint64_t state, std::uint64_t key_value) {
  return mix64(state * 0x9E3779B97F4A7C15u + key_value);
}

// The value that the model attends to after `tokens`, straight from the definition.
inline std::uint64_t attended_after(std::span<const TokenId> tokens, AdapterId adapter = kNoAdapter) {
  std::uint64_t before = 0;
  std::vector<std::uint64_t> all;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    all.push_back(before = key_value(before, tokens[i], static_cast<std::int32_t>(i), adapter));
  if (tokens.empty()) return 0;
  std::uint64_t state = 0;
  for (const std::uint64_t value : all) state = next_state(state, value);
  return attended_at(tokens.size() - 1, [&](std::size_t group, std::size_t page, std::size_t i) {
    return in_page(model_groups()[group].is_state() ? state : all[i], group, page);
  });
}

// The vector of a pooling prompt.
inline std::vector<float> pooled(std::uint64_t attended, const PoolingSpec& spec) {
  const std::uint64_t shape = static_cast<std::uint64_t>(spec.type) * 2 + (spec.normalize ? 1 : 0);
  std::vector<float> out;
  for (std::int32_t i = 0; i < (spec.dimensions > 0 ? spec.dimensions : 4); ++i)
    out.push_back(logprob_of(attended + shape, i));
  return out;
}

struct Reference {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;
  double cumulative_logprob = 0;
  FinishReason reason = FinishReason::length;
};

// The answer that choice `index` of the request must give, whatever else runs. Sampling only.
inline Reference reference(const Request& request, std::int32_t index, std::int32_t max_model_len) {
  Reference out;
  std::vector<TokenId> tokens = request.prompt_token_ids;
  const SamplingParams& sampling = request.sampling;
  const auto is_in = [](const std::vector<TokenId>& list, TokenId token) {
    return std::ranges::find(list, token) != list.end();
  };
  while (static_cast<std::int32_t>(out.tokens.size()) < sampling.max_tokens) {
    const Allowed allowed = allowed_after(request, out.tokens, kVocabulary);
    if (allowed.dead_end) {
      out.reason = FinishReason::error;
      break;
    }
    const Candidate drawn =
        sample(attended_after(tokens, adapter_of(request)), sampling.seed.value_or(0),
               static_cast<std::uint32_t>(index), static_cast<std::int32_t>(out.tokens.size()),
               sampling.temperature, allowed.mask);
    tokens.push_back(drawn.token);
    out.tokens.push_back(drawn.token);
    out.logprobs.push_back(drawn.logprob);
    out.cumulative_logprob += static_cast<double>(drawn.logprob);
    const bool may_stop = static_cast<std::int32_t>(out.tokens.size()) >= sampling.min_tokens;
    const bool eos = !sampling.ignore_eos && is_in(sampling.eos_token_ids, drawn.token);
    const bool complete = allowed_after(request, out.tokens, kVocabulary).terminated;
    if (complete || (may_stop && (eos || is_in(sampling.stop_token_ids, drawn.token)))) {
      out.reason = FinishReason::stop;
      return out;
    }
    if (static_cast<std::int32_t>(tokens.size()) >= max_model_len) break;
  }
  return out;
}

class FakeModelRunner final : public ModelRunner {
 public:
  // With virtual blocks, tables are read through the page mappings of the batches.
  FakeModelRunner(std::int32_t block_size, std::int64_t num_blocks, std::int64_t num_swap_blocks = 0,
                  std::int64_t num_virtual_blocks = 0, std::vector<KvGroup> groups = one_full_group(1))
      : size_(static_cast<std::size_t>(block_size)),
        shown_(static_cast<std::size_t>(num_virtual_blocks), kNoPage),
        pool_(static_cast<std::size_t>(num_blocks) * size_, 0xBAD),
        swap_(static_cast<std::size_t>(num_swap_blocks) * size_, 0xBAD) {
    model_groups() = std::move(groups);
  }

  bool pools() const override { return makes_vectors; }
  bool prepare_ahead() override { return preparations_left.fetch_sub(1) > 1; }

  // While asleep it must not be called to run; dropped content is overwritten.
  Status release_memory(KvContent content) override {
    if (content == KvContent::drop) std::ranges::fill(pool_, 0xBAD);
    dropped.store(content == KvContent::drop);
    released.store(true);
    return ok_status();
  }
  Status load_weights() override {
    if (load_fails.load()) return unavailable("the file is gone");
    released.store(false);
    return ok_status();
  }
  std::atomic<bool> released{false}, dropped{false}, load_fails{false};

  std::optional<FakeTiers> tiers;
  bool has_tier_news() const override { return tiers && tiers->pending(); }
  void erase_tiers(TierRows which) override {
    if (tiers) tiers->erase(which == TierRows::in_this_process);
  }
  void erase_from_tiers(TierErase what, std::function<void(Status)> done) override {
    if (tiers) tiers->erase(what);
    done(ok_status());
  }

  StepResult run(const ScheduledBatch& batch) override {
    CHECK(!released.load());
    StepResult out;
    if (fail_at_step >= 0 && num_steps == fail_at_step) {
      out.status = internal_error("the device is lost");
      return out;
    }
    ++num_steps;
    CHECK(tiers || batch.tier_moves.empty());
    if (tiers) tiers->cancel(batch.tier_moves);
    // Apply early mappings as late as allowed.
    show(std::exchange(late_, batch.page_maps_ahead));
    show(batch.page_maps);
    for (const SwapCopy& copy : batch.swap_out) move(pool_, index(copy.block), swap_, swap_index(copy));
    for (const SwapCopy& copy : batch.swap_in) move(swap_, swap_index(copy), pool_, index(copy.block));
    for (const BlockCopy& copy : batch.block_copies) move(pool_, index(copy.from), pool_, index(copy.to));
    num_copies += static_cast<std::int64_t>(batch.block_copies.size());
    if (tiers) out.tier_news = tiers->run(batch.tier_moves, pool_, size_);
    std::set<std::size_t> written;
    std::int32_t num_tokens = 0;
    for (const ScheduledSequence& sequence : batch.sequences) {
      num_tokens += static_cast<std::int32_t>(sequence.tokens.size());
      out.sequences.push_back(run(sequence, batch, written));
      if (!makes_vectors) continue;
      std::vector<float>& vector = out.vectors.emplace_back();
      CHECK(sequence.work != WorkKind::generate);
      if (sequence.sample) vector = pooled(attended_, sequence.pooling);
    }
    if (num_steps - 1 == nan_at_step) {  // a broken model
      for (SequenceResult& result : out.sequences)
        for (Candidate& candidate : result.candidates)
          candidate.logprob = std::numeric_limits<float>::quiet_NaN();
    }
    CHECK(num_tokens == batch.num_tokens);
    num_computed_tokens += num_tokens;
    return out;
  }

  bool makes_vectors = false;
  std::atomic<int> preparations_left{0};
  std::int64_t num_steps = 0, fail_at_step = -1, nan_at_step = -1, num_computed_tokens = 0, num_copies = 0,
               num_mappings = 0, num_draft_tokens = 0, num_given_back = 0, num_state_copies = 0;

 private:
  using Slots = std::vector<std::uint64_t>;
  static std::span<const MaskWord> mask_of(const ScheduledSequence& sequence, std::size_t row) {
    const std::size_t words = mask_words(kVocabulary);
    CHECK(sequence.spec.masks.empty() ||
          sequence.spec.masks.size() == words * static_cast<std::size_t>(1 + sequence.num_draft_tokens));
    return sequence.spec.masks.empty() ? sequence.spec.masks
                                       : sequence.spec.masks.subspan(row * words, words);
  }
  static std::int32_t swap_index(const SwapCopy& copy) { return static_cast<std::int32_t>(copy.swap_block); }
  void move(const Slots& from, std::int32_t from_block, Slots& to, std::int32_t to_block) const {
    for (std::size_t i = 0; i < size_; ++i) {
      to.at(static_cast<std::size_t>(to_block) * size_ + i) =
          from.at(static_cast<std::size_t>(from_block) * size_ + i);
    }
  }
  void show(const std::vector<PageMapping>& mappings) {
    for (const PageMapping& mapping : mappings) {
      if (mapping.block == kNoBlock) {  // given back: the content is lost
        for (std::int32_t i = 0; i < mapping.count; ++i) lose(BlockId{index(mapping.page) + i});
        continue;
      }
      for (std::int32_t i = 0; i < mapping.count; ++i)
        shown_.at(static_cast<std::size_t>(index(mapping.block) + i)) =
            mapping.page == kNoPage ? kNoPage : BlockId{index(mapping.page) + i};
      num_mappings += 1;
    }
  }
  void lose(BlockId page) {
    std::fill_n(pool_.begin() + static_cast<std::ptrdiff_t>(index(page)) * static_cast<std::ptrdiff_t>(size_),
                size_, 0xBAD);
    ++num_given_back;
  }
  BlockId page_of(BlockId block) const {
    return shown_.empty() ? block : shown_.at(static_cast<std::size_t>(index(block)));
  }
  std::size_t slot(const ScheduledSequence& sequence, std::size_t group, std::size_t page,
                   std::size_t position) const {
    const KvTable table = group == 0
                              ? KvTable{.blocks = sequence.block_table, .first_row = sequence.first_row}
                              : sequence.more_tables[group - 1];
    if (model_groups()[group].is_state()) position = 0;
    CHECK(position / size_ >= static_cast<std::size_t>(table.first_row));  // otherwise the row was given back
    const auto per_row = static_cast<std::size_t>(model_groups()[group].pages_per_row);
    const std::size_t at = (position / size_ - static_cast<std::size_t>(table.first_row)) * per_row + page;
    CHECK(at < table.blocks.size());
    // A state's table holds pages, also under a virtual manager.
    const BlockId of_pool = model_groups()[group].is_state() ? table.blocks[at] : page_of(table.blocks[at]);
    return static_cast<std::size_t>(index(of_pool)) * size_ + position % size_;
  }

  static bool has_states() { return std::ranges::any_of(model_groups(), &KvGroup::is_state); }
  // Reads the state and checks that all pages of its row agree; 0 at the beginning.
  std::uint64_t read_state(const ScheduledSequence& sequence) const {
    std::optional<std::uint64_t> state;
    for (std::size_t group = 0; group < model_groups().size() && sequence.num_computed_tokens > 0; ++group) {
      for (std::int32_t page = 0;
           model_groups()[group].is_state() && page < model_groups()[group].pages_per_row; ++page) {
        const auto at = static_cast<std::size_t>(page);
        const std::uint64_t found = in_page(pool_.at(slot(sequence, group, at, 0)), group, at);
        CHECK(!state || *state == found);
        state = found;
      }
    }
    return state.value_or(0);
  }
  void write_state(const ScheduledSequence& sequence, std::uint64_t state, std::set<std::size_t>& written) {
    for (std::size_t group = 0; group < model_groups().size(); ++group) {
      for (std::int32_t page = 0;
           model_groups()[group].is_state() && page < model_groups()[group].pages_per_row; ++page) {
        const std::size_t target = slot(sequence, group, static_cast<std::size_t>(page), 0);
        CHECK(written.insert(target).second);
        pool_.at(target) = in_page(state, group, static_cast<std::size_t>(page));
      }
    }
  }
  void copy_state(const StateCopy& copy, std::uint64_t state, std::set<std::size_t>& written) {
    for (std::int32_t i = 0; i < copy.count; ++i) {
      const std::size_t target = static_cast<std::size_t>(index(copy.page) + i) * size_;
      CHECK(written.insert(target).second);
      pool_.at(target) =
          in_page(state, static_cast<std::size_t>(copy.group), static_cast<std::size_t>(copy.first_page + i));
    }
    ++num_state_copies;
  }

  SequenceResult run(const ScheduledSequence& sequence, const ScheduledBatch& batch,
                     std::set<std::size_t>& written) {
    SequenceResult out;
    CHECK(!sequence.tokens.empty());
    const auto first = static_cast<std::size_t>(sequence.num_computed_tokens);
    const auto drafts = static_cast<std::size_t>(sequence.num_draft_tokens);
    num_draft_tokens += sequence.num_draft_tokens;
    std::uint64_t sum = 0;
    CHECK(sequence.more_tables.size() + 1 == model_groups().size());
    std::uint64_t state = read_state(sequence);
    for (std::size_t i = 0; i < sequence.tokens.size(); ++i) {
      const std::size_t position = first + i;
      CHECK(sequence.tokens[i] == sequence.all_tokens[position]);
      const std::uint64_t before = position == 0 ? 0 : pool_.at(slot(sequence, 0, 0, position - 1));
      const std::uint64_t value =
          key_value(before, sequence.tokens[i], static_cast<std::int32_t>(position), sequence.adapter);
      state = next_state(state, value);
      if (has_states()) {
        if (i + 1 + drafts == sequence.tokens.size()) write_state(sequence, state, written);
        for (const StateCopy& copy : batch.state_copies)
          if (&batch.sequences[static_cast<std::size_t>(copy.sequence)] == &sequence &&
              copy.position == static_cast<std::int32_t>(position) + 1)
            copy_state(copy, state, written);
      }
      for (std::size_t group = 0; group < model_groups().size(); ++group) {
        if (model_groups()[group].is_state()) continue;
        for (std::size_t page = 0; page < static_cast<std::size_t>(model_groups()[group].pages_per_row);
             ++page) {
          const std::size_t target = slot(sequence, group, page, position);
          CHECK(written.insert(target).second);  // no other token writes this slot in this step
          pool_.at(target) = in_page(value, group, page);
        }
      }
      const bool last = i + 1 == sequence.tokens.size(), wanted = sequence.prompt_logprobs >= 0;
      if (last || wanted || sequence.num_draft_tokens > 0)
        sum = attended_at(position, [&](std::size_t group, std::size_t page, std::size_t at) {
          return model_groups()[group].is_state() ? in_page(state, group, page)
                                                  : pool_.at(slot(sequence, group, page, at));
        });
      if (const std::size_t left = sequence.tokens.size() - 1 - i;
          sequence.num_draft_tokens > 0 && left <= drafts) {  // drawn as if the later drafts did not exist
        CHECK(sequence.sample && sequence.spec.num_candidates == 1 && !sequence.spec.beam);
        const std::size_t before = drafts - left;  // number of earlier drafts
        SequenceResult& row = before == 0 ? out : out.after_drafts.emplace_back();
        row.candidates.push_back(sample(sum, sequence.spec.seed, sequence.spec.first_stream,
                                        sequence.spec.num_output_tokens + static_cast<std::int32_t>(before),
                                        sequence.spec.params->temperature, mask_of(sequence, before)));
      }
      if (sequence.prompt_logprobs >= 0 &&
          position + 1 < static_cast<std::size_t>(sequence.num_prompt_tokens)) {
        const TokenId next = sequence.all_tokens[position + 1];
        out.prompt_logprobs.push_back({.chosen = {next, logprob_of(sum, next), 1}, .top = {}});
      }
    }
    CHECK(sequence.sample == (first + sequence.tokens.size() == sequence.all_tokens.size()));
    if (!sequence.sample) {
      CHECK(sequence.num_draft_tokens == 0);
      return out;
    }
    const SampleSpec& spec = sequence.spec;
    attended_ = sum;
    if (drafts > 0 || makes_vectors) return out;
    if (spec.beam) {
      out.candidates = most_likely(sum, spec.num_candidates, spec.masks);
      return out;
    }
    for (std::uint32_t i = 0; i < spec.num_candidates; ++i) {
      out.candidates.push_back(sample(sum, spec.seed, spec.first_stream + i, spec.num_output_tokens,
                                      spec.params->temperature, spec.masks));
    }
    return out;
  }

  const std::size_t size_;
  std::uint64_t attended_ = 0;  // result of the last sequence that was run
  std::vector<BlockId> shown_;
  std::vector<PageMapping> late_;
  Slots pool_, swap_;
};

}  // namespace pagoda::fake
