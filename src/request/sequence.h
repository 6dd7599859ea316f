#pragma once
// Sequence and SequenceGroup: the state of one request inside the engine. A group holds the sequences
// that one request runs (one; best_of samples; the beams); they are admitted, preempted and resumed
// together (PagedAttention §4.5). Plain data: decoding/ says what happens to it, scheduler/ does it.
//
//     sequence:  parked (no K/V) --admit or resume--> resident --preempt--> parked
//                resident --swap out--> swapped --swap in--> resident;   any --> finished
//                parked --begin_arrival--> arriving (its prompt's K/V comes from a tier) --> parked
//
// Threads: the engine thread only.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/strings.h"
#include "request/cache_claim.h"
#include "request/draft_history.h"
#include "request/order_account.h"
#include "request/request.h"
#include "request/request_output.h"

namespace pagoda {

enum class SequenceState : std::uint8_t { parked, arriving, resident, swapped, finished };

struct Sequence {
  SequenceId id{};
  std::int32_t index = 0;  // choice index and random stream
  SequenceState state = SequenceState::parked;
  std::vector<TokenId> tokens;  // prompt, then output
  std::int32_t num_prompt_tokens = 0;
  std::int32_t num_computed_tokens = 0;  // have K/V; a step lets this catch up with num_tokens()

  // Steps that were planned with it and have not ended. K/V of one that finishes meanwhile stays until they
  // have: `keeps_kv`.
  std::int32_t num_in_flight = 0;
  bool keeps_kv = false;
  // Only while the scheduler plans a step beside one in flight, and as if that had run: tokens that it draws,
  // 0 or 1, and the sequence's place in its batch.
  std::int32_t num_expected = 0, place_in_flight = -1;

  // Draws once it has caught up; kept by decoding/.
  std::uint32_t num_candidates = 1;
  bool beam = false;

  // Drafts of the tokens after the known ones: set by the engine between steps, taken into the batch by the
  // scheduler as far as there is room, gone with the step. `drafted` is tokens and drafts of that batch, the
  // first num_drafted_tokens of them tokens.
  std::vector<TokenId> draft, drafted;
  std::int32_t num_drafted_tokens = 0;
  DraftHistory draft_history;  // kept by decoding/: how they fared

  // The runner's partial result for a prompt that pools over several steps.
  std::vector<float> pooled;

  double cumulative_logprob = 0;
  std::vector<TokenLogprobs> output_logprobs;  // kept only where outputs are held back to the end
  std::optional<FinishReason> finish_reason;
  std::optional<TokenId> stop_token;

  std::int32_t num_tokens() const { return static_cast<std::int32_t>(tokens.size()) + num_expected; }
  std::int32_t num_output_tokens() const { return num_tokens() - num_prompt_tokens; }
  std::int32_t num_missing() const { return num_tokens() - num_computed_tokens; }
  // It misses just the token that it sampled last.
  bool decodes() const { return state == SequenceState::resident && num_missing() == 1; }
  bool finished() const { return state == SequenceState::finished; }
};

enum class GroupState : std::uint8_t { waiting, arriving, running, swapped, finished };

struct SequenceGroup {
  static constexpr char kVariantMark = '\1', kAdapterMark = '\2';

  Request request;
  std::uint64_t seed = 0;                            // the request's, or drawn by the engine
  std::int32_t rotation = 0;                         // rotation of queries and keys: as RotationRule says
  std::vector<std::unique_ptr<Sequence>> sequences;  // stable addresses: batches point at them
  GroupState state = GroupState::waiting;

  std::int64_t last_step = 0;  // number of the latest step that it was scheduled in

  // Kept by decoding/.
  std::int32_t max_live_sequences = 1;  // how many will run at once: best_of, or the beam width
  bool forked = false;         // all of them exist; from here on their number only falls (but for beams)
  bool lockstep = false;       // no sequence may sample before all have caught up (beams)
  bool keep_logprobs = false;  // outputs are held back: sequences remember their output_logprobs

  // Kept by scheduler/.
  std::int64_t rank = 0;    // in the admission order; among equals `order` decides
  OrderAccount account;     // that order's
  std::uint64_t order = 0;  // order of arrival
  std::int32_t num_preemptions = 0;
  std::int32_t num_cached_tokens = -1;  // prompt tokens taken from the prefix cache when first admitted
  std::int64_t resume_blocks = 0;       // blocks it held when it was preempted
  std::int64_t retry_free_blocks = 0;   // admission failed with fewer free blocks than this
  bool asked_tiers = false;             // since it began to wait, for its prompt's K/V

  // One entry per prompt token once its log-probability is known; the first is absent.
  std::vector<std::optional<TokenLogprobs>> prompt_logprobs;

  const SamplingParams& sampling() const { return request.sampling; }
  // Names all that K and V depend on beside tokens, the rotation and the adapter's content; empty: nothing.
  std::string kv_variant() const {
    if (rotation == 0 && request.adapter == nullptr) return {};
    std::string out = kVariantMark + std::to_string(rotation);
    if (request.adapter != nullptr) {
      const std::string& identity = request.adapter->identity;
      out += concat(kAdapterMark, identity.size(), kAdapterMark, identity);
    }
    return out + kVariantMark;
  }
  // That and the client's salt: K/V of a prefix are found by groups of an equal one. No text of a client's
  // gives one with a variant.
  std::string prefix_salt() const {
    const std::string& salt = request.cache_salt;
    std::string variant = kv_variant();
    if (variant.empty() && salt.starts_with(kVariantMark))
      variant = std::string(1, kVariantMark) + "0" + kVariantMark;
    return variant + salt;
  }
  CacheClaim cache_claim() const {
    constexpr TimeNs kSecond = 1'000'000'000;
    const CacheHint& hint = request.cache_hint;
    const auto after = [&](std::int32_t seconds) {
      return seconds > 0 ? request.arrival_time + seconds * kSecond : TimeNs{0};
    };
    return {.owner = {.tenant = CacheOwner::number_of(request.tenant),
                      .session = CacheOwner::number_of(hint.session)},
            .priority = hint.priority,
            .expires = after(hint.ttl_s),
            .pinned_until = after(hint.pin_s)};
  }
  bool wants_prompt_logprobs() const { return sampling().prompt_logprobs.has_value(); }
  bool prompt_logprobs_complete() const {
    return !wants_prompt_logprobs() || prompt_logprobs.size() == request.prompt_token_ids.size();
  }
  // Whether its prompt may begin with K/V that is there already, so that those rows are not computed for it.
  bool takes_cached_prefix() const {
    return prompt_logprobs_complete() && !request.work.whole_prompt &&
           (!request.work.pools() || request.work.pooling.type == PoolingType::last);
  }
  std::int32_t num_live() const {
    return static_cast<std::int32_t>(
        std::count_if(sequences.begin(), sequences.end(), [](const auto& s) { return !s->finished(); }));
  }
  // Sequences it counts for under max_num_seqs.
  std::int32_t num_reserved() const { return forked && !lockstep ? num_live() : max_live_sequences; }
  bool finished() const { return state == GroupState::finished; }
};

}  // namespace pagoda
