#include "sim/run_log_step.h"

#include <algorithm>

#include "sim/run_log_fields.h"

namespace pagoda::run_log {
namespace {

// Flags of a step.
enum StepFlag : std::uint8_t { kFailed = 1, kTiers = 2, kNextPlanned = 4 };

// Flags of a sequence in a step.
enum Flag : std::uint8_t { kSample = 1, kBeam = 2, kAsBefore = 4, kDrafts = 8, kConstrained = 16 };

void put_key(ByteWriter& out, const TierKey& key) {
  for (const std::uint64_t word : key.chain) out.fixed(word, 8);
  out.signed_number(key.group);
}

void get_key(ByteReader& in, TierKey& key) {
  for (std::uint64_t& word : key.chain) word = in.fixed(8);
  key.group = in.int32_in(0, kMaxGroups);
}

TierSet get_tier_set(ByteReader& in) { return static_cast<TierSet>(in.number() & ~TierSet{0}); }

void put_tiers(ByteWriter& out, const LoggedStep& step) {
  out.number(static_cast<std::uint64_t>(step.num_tier_moves));
  out.fixed(step.tiers_digest, 4);
  out.number(step.tier_news.found.size());
  for (const TierFound& found : step.tier_news.found) {
    put_key(out, found.key);
    put_owner(out, found.owner);
    out.number(found.tiers);
  }
  out.number(step.tier_news.done.size());
  for (const TierDone& done : step.tier_news.done) {
    out.number(static_cast<std::uint64_t>(done.ticket));
    out.byte(done.ok ? 1 : 0);
    out.number(done.tiers);
  }
  out.number(step.tier_news.gone.size());
  for (const TierGone& gone : step.tier_news.gone) {
    put_key(out, gone.key);
    out.number(gone.tiers);
  }
}

void get_tiers(ByteReader& in, LoggedStep& step) {
  step.num_tier_moves = static_cast<std::int64_t>(in.number() & 0x7fffffff);
  step.tiers_digest = static_cast<std::uint32_t>(in.fixed(4));
  step.tier_news.found.resize(in.count());
  for (TierFound& found : step.tier_news.found) {
    get_key(in, found.key);
    found.owner = get_owner(in);
    found.tiers = get_tier_set(in);
  }
  step.tier_news.done.resize(in.count());
  for (TierDone& done : step.tier_news.done) {
    done.ticket = TierTicket{in.number()};
    const std::uint8_t ok = in.byte();
    if (ok > 1) in.fail();
    done.ok = ok == 1;
    done.tiers = get_tier_set(in);
  }
  step.tier_news.gone.resize(in.count());
  for (TierGone& gone : step.tier_news.gone) {
    get_key(in, gone.key);
    gone.tiers = get_tier_set(in);
  }
}

void get_sequence(ByteReader& in, const LoggedStep& before, LoggedStep& step, std::uint64_t& last_id) {
  const std::size_t i = step.sequences.size();
  LoggedSequence& s = step.sequences.emplace_back();
  const std::uint8_t flags = in.byte();
  s.sample = (flags & kSample) != 0;
  s.beam = (flags & kBeam) != 0;
  s.table_digest = static_cast<std::uint16_t>(in.fixed(2));
  if ((flags & kDrafts) != 0) s.draft_digest = static_cast<std::uint32_t>(in.fixed(4));
  if ((flags & kAsBefore) != 0) {
    if (i >= before.sequences.size()) return in.fail();
    const LoggedSequence& b = before.sequences[i];
    if (b.num_computed_tokens > kMaxInt32 - b.count) return in.fail();
    s.id = b.id;
    s.num_computed_tokens = b.num_computed_tokens + b.count;
    s.count = 1;
  } else {
    s.id = SequenceId{last_id + static_cast<std::uint64_t>(in.signed_number())};
    s.num_computed_tokens = in.int32_in(0, kMaxInt32);
    s.count = in.int32_in(1, kMaxInt32);
  }
  last_id = static_cast<std::uint64_t>(s.id);
  if (!s.sample || step.failed) return;
  s.tokens = get_tokens(in);
  if (s.beam) {
    s.logprobs.resize(s.tokens.size());
    for (float& logprob : s.logprobs) logprob = in.real32();
  }
  if ((flags & kConstrained) == 0) return;
  const auto most = static_cast<std::int32_t>(s.tokens.size());
  s.ends.resize(in.count());
  for (std::int32_t& index : s.ends) index = in.int32_in(0, std::max(0, most - 1));
  s.dead_row = in.int32_in(-1, most);
}

}  // namespace

void put_owner(ByteWriter& out, const CacheOwner& owner) {
  out.fixed(owner.tenant, 8);
  out.fixed(owner.session, 8);
}

CacheOwner get_owner(ByteReader& in) {
  const std::uint64_t tenant = in.fixed(8);
  return {.tenant = tenant, .session = in.fixed(8)};
}

void put_step(ByteWriter& out, const LoggedStep& step, const LoggedStep& before) {
  out.signed_number(step.started - before.finished);
  out.signed_number(step.finished - step.started);
  const bool tiers = step.num_tier_moves > 0 || !step.tier_news.empty();
  out.byte(static_cast<std::uint8_t>((step.failed ? kFailed : 0) | (tiers ? kTiers : 0) |
                                     (step.next_planned ? kNextPlanned : 0)));
  if (tiers) put_tiers(out, step);
  out.number(static_cast<std::uint64_t>(step.num_swapped_out));
  out.number(static_cast<std::uint64_t>(step.num_swapped_in));
  out.number(static_cast<std::uint64_t>(step.num_copies));
  if (step.num_swapped_out + step.num_swapped_in + step.num_copies > 0) {
    out.fixed(step.copies_digest, 4);
    out.real(step.swap_seconds);
  }
  out.number(step.preempted.size());
  for (const RequestId id : step.preempted) out.number(static_cast<std::uint64_t>(id));
  out.number(step.sequences.size());
  std::uint64_t last_id = 0;
  for (std::size_t i = 0; i < step.sequences.size(); ++i) {
    const LoggedSequence& s = step.sequences[i];
    const LoggedSequence* const b = i < before.sequences.size() ? &before.sequences[i] : nullptr;
    const bool as_before = b != nullptr && b->id == s.id && s.count == 1 &&
                           s.num_computed_tokens == b->num_computed_tokens + b->count;
    out.byte(static_cast<std::uint8_t>((s.sample ? kSample : 0) | (s.beam ? kBeam : 0) |
                                       (as_before ? kAsBefore : 0) | (s.draft_digest != 0 ? kDrafts : 0) |
                                       (s.ends.empty() && s.dead_row < 0 ? 0 : kConstrained)));
    out.fixed(s.table_digest, 2);
    if (s.draft_digest != 0) out.fixed(s.draft_digest, 4);
    if (!as_before) {
      out.signed_number(static_cast<std::int64_t>(static_cast<std::uint64_t>(s.id) - last_id));
      out.signed_number(s.num_computed_tokens);
      out.signed_number(s.count);
    }
    last_id = static_cast<std::uint64_t>(s.id);
    if (!s.sample || step.failed) continue;
    put_tokens(out, s.tokens);
    if (s.beam)
      for (const float logprob : s.logprobs) out.real(logprob);
    if (s.ends.empty() && s.dead_row < 0) continue;
    out.number(s.ends.size());
    for (const std::int32_t index : s.ends) out.signed_number(index);
    out.signed_number(s.dead_row);
  }
}

LoggedStep get_step(ByteReader& in, const LoggedStep& before) {
  LoggedStep step;
  const TimeNs wait = in.number_in(0, kMaxTime), duration = in.number_in(0, kMaxTime);
  if (wait > kMaxTime - before.finished || duration > kMaxTime - before.finished - wait) in.fail();
  if (!in.ok()) return step;
  step.started = before.finished + wait;
  step.finished = step.started + duration;
  const std::uint8_t flags = in.byte();
  step.failed = (flags & kFailed) != 0;
  step.next_planned = (flags & kNextPlanned) != 0;
  if (flags > (kFailed | kTiers | kNextPlanned)) in.fail();
  if ((flags & kTiers) != 0) get_tiers(in, step);
  const auto blocks = [&] {
    const std::uint64_t value = in.number();
    if (value > static_cast<std::uint64_t>(kMaxBlocks)) in.fail();
    return in.ok() ? static_cast<std::int64_t>(value) : 0;
  };
  step.num_swapped_out = blocks();
  step.num_swapped_in = blocks();
  step.num_copies = blocks();
  if (step.num_swapped_out + step.num_swapped_in + step.num_copies > 0) {
    step.copies_digest = static_cast<std::uint32_t>(in.fixed(4));
    step.swap_seconds = in.real();
  }
  step.preempted.resize(in.count());
  for (RequestId& id : step.preempted) id = RequestId{in.number()};
  std::uint64_t last_id = 0;
  for (std::size_t left = in.count(); left > 0 && in.ok(); --left) get_sequence(in, before, step, last_id);
  return step;
}

}  // namespace pagoda::run_log
