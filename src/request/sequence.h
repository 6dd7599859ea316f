#pragma once
// Sequence and SequenceGroup: the state of one request inside the engine. A group holds the sequences of one
// request (a single one, best_of samples, or the beams); they are admitted, preempted and resumed together
// (PagedAttention §4.5). Plain data: decoding/ decides the changes, scheduler/ applies them.
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
  std::int32_t num_computed_tokens = 0;  // tokens that have K/V; a step lets this catch up with num_tokens()

  // Steps that include this sequence and have not ended. If the sequence finishes meanwhile, `keeps_kv` is
  // set and its K/V stays until those steps have ended.
  std::int32_t num_in_flight = 0;
  bool keeps_kv = false;
  // Set only while the scheduler plans a step alongside one in flight, as if that step had run: the number of
  // tokens (0 or 1) that it will draw for the sequence, and the sequence's index in its batch.
  std::int32_t num_expected = 0, place_in_flight = -1;

  // Number of draws once the sequence has caught up; maintained by decoding/.
  std::uint32_t num_candidates = 1;
  bool beam = false;

  // `draft`: draft tokens that follow the known tokens. Set by the engine between steps, added to the batch
  // by the scheduler if there is room, and cleared with the step. `drafted`: the batch's tokens followed by
  // its drafts; the first num_drafted_tokens are tokens.
  std::vector<TokenId> draft, drafted;
  std::int32_t num_drafted_tokens = 0;
  DraftHistory draft_history;  // maintained by decoding/

  // The runner's partial result for a prompt that pools over several steps.
  std::vector<float> pooled;

  double cumulative_logprob = 0;
  std::vector<TokenLogprobs> output_logprobs;  // kept only if outputs are held back until the end
  std::optional<FinishReason> finish_reason;
  std::optional<TokenId> stop_token;

  std::int32_t num_tokens() const { return static_cast<std::int32_t>(tokens.size()) + num_expected; }
  std::int32_t num_output_tokens() const { return num_tokens() - num_prompt_tokens; }
  std::int32_t num_missing() const { return num_tokens() - num_computed_tokens; }
  // True if only the last sampled token is missing.
  bool decodes() const { return state == SequenceState::resident && num_missing() == 1; }
  bool finished() const { return state == SequenceState::finished; }
};

enum class GroupState : std::uint8_t { waiting, arriving, running, swapped, finished };

struct SequenceGroup {
  static constexpr char kVariantMark = '\1', kAdapterMark = '\2';

  Request request;
  std::uint64_t seed = 0;                            // from the request, or drawn by the engine
  std::int32_t rotation = 0;                         // rotation of queries and keys, from RotationRule
  std::vector<std::unique_ptr<Sequence>> sequences;  // stable addresses: batches hold pointers to them
  GroupState state = GroupState::waiting;

  std::int64_t last_step = 0;  // number of the latest step in which it was scheduled

  // Maintained by decoding/.
  std::int32_t max_live_sequences = 1;  // maximum that run at once: best_of, or the beam width
  bool forked = false;         // all sequences exist; from now on their number only falls (except for beams)
  bool lockstep = false;       // no sequence may sample until all have caught up (beams)
  bool keep_logprobs = false;  // outputs are held back, so sequences store their output_logprobs

  // Maintained by scheduler/.
  std::int64_t rank = 0;    // in the admission order; ties are broken by `order`
  OrderAccount account;     // maintained by the admission order
  std::uint64_t order = 0;  // order of arrival
  std::int32_t num_preemptions = 0;
  std::int32_t num_cached_tokens = -1;  // prompt tokens taken from the prefix cache when first admitted
  std::int64_t resume_blocks = 0;       // blocks held when it was preempted
  std::int64_t retry_free_blocks = 0;   // admission is not retried with fewer free blocks
  bool asked_tiers = false;  // its prompt's K/V has been requested from tiers since it began to wait

  // One entry per prompt token once its log-probability is known; the first is absent.
  std::vector<std::optional<TokenLogprobs>> prompt_logprobs;

  const SamplingParams& sampling() const { return request.sampling; }
  // Identifies everything besides tokens that K and V depend on: the rotation and the adapter's content.
  // Empty for the defaults.
  std::string kv_variant() const {
    if (rotation == 0 && request.adapter == nullptr) return {};
    std::string out = kVariantMark + std::to_string(rotation);
    if (request.adapter != nullptr) {
      const std::string& identity = request.adapter->identity;
      out += concat(kAdapterMark, identity.size(), kAdapterMark, identity);
    }
    return out + kVariantMark;
  }
  // kv_variant() plus the client's salt: groups share K/V of a prefix only if their salts are equal. A
  // client's salt cannot imitate a variant.
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
  // True if the prompt may start with K/V from the prefix cache instead of computing those rows.
  bool takes_cached_prefix() const {
    return prompt_logprobs_complete() && !request.work.whole_prompt &&
           (!request.work.pools() || request.work.pooling.type == PoolingType::last);
  }
  std::int32_t num_live() const {
    return static_cast<std::int32_t>(
        std::count_if(sequences.begin(), sequences.end(), [](const auto& s) { return !s->finished(); }));
  }
  // Number of sequences that count towards max_num_seqs.
  std::int32_t num_reserved() const { return forked && !lockstep ? num_live() : max_live_sequences; }
  bool finished() const { return state == GroupState::finished; }
};

}  // namespace pagoda
