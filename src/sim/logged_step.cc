// Steps of a run log: the part of a batch that is stored, and the comparison of two steps.
#include <algorithm>
#include <utility>

#include "base/random.h"
#include "base/strings.h"
#include "sim/run_log.h"

namespace pagoda {
namespace {

std::uint64_t mix(std::uint64_t hash, std::int64_t value) {
  return mix64(hash ^ static_cast<std::uint64_t>(value));
}

}  // namespace

LoggedStep decisions_of(const ScheduledBatch& batch) {
  LoggedStep out;
  out.num_swapped_out = std::ssize(batch.swap_out);
  out.num_swapped_in = std::ssize(batch.swap_in);
  out.num_copies = std::ssize(batch.block_copies);
  std::uint64_t copies = 0;
  for (const auto* swaps : {&batch.swap_out, &batch.swap_in}) {
    for (const SwapCopy& copy : *swaps)
      copies = mix(mix(copies, index(copy.block)), static_cast<std::int32_t>(copy.swap_block));
  }
  for (const BlockCopy& copy : batch.block_copies)
    copies = mix(mix(copies, index(copy.from)), index(copy.to));
  out.copies_digest = static_cast<std::uint32_t>(copies);
  const TierMoves& moves = batch.tier_moves;
  out.num_tier_moves = std::ssize(moves.cancels) + std::ssize(moves.stores) + std::ssize(moves.fetches) +
                       std::ssize(moves.touches) + std::ssize(moves.asks);
  std::uint64_t tiers = 0;
  const auto mix_key = [&tiers](const TierKey& key) {
    tiers = mix(mix(tiers, static_cast<std::int64_t>(key.chain[0])), key.group);
  };
  const auto mix_move = [&](const auto& move) {
    tiers = mix(tiers, static_cast<std::int64_t>(move.ticket));
    mix_key(move.row.key);
    for (const BlockId page : move.pages) tiers = mix(tiers, index(page));
  };
  for (const TierTicket ticket : moves.cancels) tiers = mix(tiers, static_cast<std::int64_t>(ticket));
  for (const TierStore& store : moves.stores) mix_move(store);
  for (const TierFetch& fetch : moves.fetches) mix_move(fetch);
  for (const TierRow& touch : moves.touches) mix_key(touch.key);
  for (const TierAsk& ask : moves.asks) {
    tiers = mix(tiers, static_cast<std::int64_t>(ask.ticket));
    for (const TierKey& key : ask.keys) mix_key(key);
  }
  out.tiers_digest = static_cast<std::uint32_t>(tiers);
  out.sequences.reserve(batch.sequences.size());
  for (const ScheduledSequence& sequence : batch.sequences) {
    LoggedSequence& to = out.sequences.emplace_back();
    to.id = sequence.id;
    to.num_computed_tokens = sequence.num_computed_tokens;
    to.count = static_cast<std::int32_t>(sequence.tokens.size());
    to.sample = sequence.sample;
    to.beam = sequence.sample && sequence.spec.beam;
    if (sequence.num_draft_tokens > 0) {
      std::uint64_t drafts = static_cast<std::uint64_t>(sequence.num_draft_tokens);
      for (const TokenId token : sequence.tokens.last(static_cast<std::size_t>(sequence.num_draft_tokens)))
        drafts = mix(drafts, token);
      to.draft_digest = std::max(1u, static_cast<std::uint32_t>(drafts));
    }
    std::uint64_t table = 0;
    for (const BlockId block : sequence.block_table) table = mix(table, index(block));
    for (const KvTable& more : sequence.more_tables) {
      table = mix(table, more.first_row);
      for (const BlockId block : more.blocks) table = mix(table, index(block));
    }
    to.table_digest = static_cast<std::uint16_t>(table);
  }
  return out;
}

LoggedStep logged_step(LoggedStep decisions, const StepReport& report) {
  LoggedStep out = std::move(decisions);
  out.started = report.started;
  out.finished = report.finished;
  out.swap_seconds = report.result.swap_seconds;
  out.failed = !report.result.status.ok();
  out.next_planned = report.next_planned;
  out.tier_news = report.result.tier_news;
  for (const SequenceGroup* group : report.preempted) out.preempted.push_back(group->request.id);
  if (out.failed) return out;
  for (std::size_t i = 0; i < out.sequences.size(); ++i) {
    LoggedSequence& to = out.sequences[i];
    const SequenceResult& from = report.result.sequences[i];
    const auto put = [&to](const Candidate& candidate) {
      if (candidate.ends) to.ends.push_back(static_cast<std::int32_t>(to.tokens.size()));
      to.tokens.push_back(candidate.token);
      if (to.beam) to.logprobs.push_back(candidate.logprob);
    };
    for (const Candidate& candidate : from.candidates) put(candidate);
    if (from.dead_end) to.dead_row = 0;
    for (std::size_t row = 0; row < from.after_drafts.size(); ++row) {
      put(from.after_drafts[row].candidates.front());
      if (from.after_drafts[row].dead_end && to.dead_row < 0)
        to.dead_row = static_cast<std::int32_t>(row) + 1;
    }
  }
  return out;
}

std::string first_difference(const LoggedStep& recorded, const LoggedStep& now) {
  const auto differs = [](std::string_view what, std::int64_t a, std::int64_t b) {
    return concat("the recorded step ", what, ' ', a, ", this one ", b);
  };
  if (recorded.num_swapped_out != now.num_swapped_out)
    return differs("swaps out blocks:", recorded.num_swapped_out, now.num_swapped_out);
  if (recorded.num_swapped_in != now.num_swapped_in)
    return differs("swaps in blocks:", recorded.num_swapped_in, now.num_swapped_in);
  if (recorded.num_copies != now.num_copies)
    return differs("copies blocks:", recorded.num_copies, now.num_copies);
  if (recorded.num_tier_moves != now.num_tier_moves)
    return differs("moves rows to and from tiers:", recorded.num_tier_moves, now.num_tier_moves);
  if (recorded.tiers_digest != now.tiers_digest) return "other rows move to or from tiers";
  const std::size_t common = std::min(recorded.sequences.size(), now.sequences.size());
  for (std::size_t i = 0; i < common; ++i) {
    const LoggedSequence &a = recorded.sequences[i], &b = now.sequences[i];
    if (a.same_decision(b)) continue;
    const auto describe = [](const LoggedSequence& s) {
      return concat("sequence ", static_cast<std::uint64_t>(s.id), " from token ", s.num_computed_tokens,
                    ", ", s.count, " token(s)", s.draft_digest != 0 ? ", some of them drafts" : "",
                    s.sample ? ", sampling" : "", ", table ", s.table_digest);
    };
    return concat("entry ", i, " of the recorded batch is ", describe(a), "; of this one ", describe(b));
  }
  if (recorded.sequences.size() != now.sequences.size())
    return differs("runs sequences:", std::ssize(recorded.sequences), std::ssize(now.sequences));
  if (recorded.copies_digest != now.copies_digest) return "other blocks are copied or swapped";
  return {};
}

}  // namespace pagoda
