#include "engine/model_proposer.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/strings.h"
#include "decoding/draft_policy.h"
#include "scheduler/group_ops.h"

namespace pagoda {
namespace {

// Class of DraftHistory; as likely as an n-gram draft that agrees well.
constexpr std::size_t kDraftClass = 2;
// Approximate time, in rows, that drafts save per output token. Catching up may take as much as the answer so
// far would have saved, so no answer loses more than that.
constexpr double kRowsSaved = kStepRows / 4;
// A sequence whose drafts were not computed, for lack of space in the step or in the cache, is skipped for
// this many calls, then for twice as many, and so on up to the maximum.
constexpr std::uint64_t kFirstPause = 2, kLongestPause = 64;

std::size_t as_size(std::int64_t n) { return static_cast<std::size_t>(n); }

}  // namespace

struct ModelProposer::Known {
  std::vector<TokenId> text;      // the sequence's text, followed by drafts
  std::int32_t num_computed = 0;  // tokens of `text` that have K/V
  std::int32_t rotation = 0;      // from this model's RotationRule
  std::uint64_t seen = 0;         // the latest call in which it decoded
  bool is_foreign = false;        // the text has a token outside this model's vocabulary
  bool waits = false;             // its latest drafts have not been verified
  std::uint64_t pause = kFirstPause, paused_until = 0;

  bool is_paused(std::uint64_t call) const { return call < paused_until; }
  void pass_over(std::uint64_t call) {
    paused_until = call + pause;
    pause = std::min(2 * pause, kLongestPause);
  }
  std::int32_t num_missing() const { return static_cast<std::int32_t>(text.size()) - num_computed; }
};

struct ModelProposer::Active {
  SequenceId id;
  Sequence* sequence;
  Known* known;
  std::int32_t count;  // number of drafts wanted
};

struct ModelProposer::Row {
  SequenceId id;
  Known* known;
  std::int32_t num_tokens;  // computed in the step
  Sequence* draws;          // receives the token drawn after them; null: nothing is drawn
};

ModelProposer::ModelProposer(DraftModelConfig config, std::unique_ptr<ModelRunner> runner,
                             std::unique_ptr<KvManager> kv)
    : config_(std::move(config)),
      runner_(std::move(runner)),
      rotation_(runner_->rotation_rule()),
      kv_(std::move(kv)) {
  greedy_.temperature = 0;
}

ModelProposer::~ModelProposer() = default;

void ModelProposer::propose(std::span<const DraftableSequence> sequences, std::int32_t num_decodes) {
  if (!status_.ok()) return;
  ++call_;
  forget_absent(sequences);
  active_.clear();
  const std::int32_t most = config_.speculative.disable_by_batch_size;
  if (most > 0 && num_decodes >= most) return;
  for (const DraftableSequence& one : sequences) choose(one, num_decodes);
  if (active_.empty()) return;
  catch_up();
  while (draft_one()) {
  }
  for (const Active& one : active_) one.known->waits = !one.sequence->draft.empty();
}

// Forgets sequences that have ended or been preempted. Their cached K/V can be found again.
void ModelProposer::forget_absent(std::span<const DraftableSequence> sequences) {
  for (const DraftableSequence& one : sequences)
    if (const auto it = known_.find(one.sequence->id); it != known_.end()) it->second.seen = call_;
  for (auto it = known_.begin(); it != known_.end();) {
    const bool absent = it->second.seen != call_;
    if (absent) kv_->free(it->first);
    it = absent ? known_.erase(it) : std::next(it);
  }
}

void ModelProposer::forget(SequenceId id) {
  kv_->free(id);
  known_.erase(id);
}

void ModelProposer::choose(const DraftableSequence& one, std::int32_t num_decodes) {
  Sequence& sequence = *one.sequence;
  if (std::cmp_greater_equal(active_.size(), config_.max_num_seqs)) return;
  const double chance = expect_accepted(sequence.draft_history, kDraftClass);
  const std::int32_t room = config_.max_model_len - sequence.num_tokens();
  const std::int32_t limit = std::min({one.limit, room, config_.speculative.num_speculative_tokens});
  const double rows_each = config_.cost * (kStepRows + num_decodes) / std::max(num_decodes, 1);
  const std::int32_t count = worthwhile_guesses(chance, limit, num_decodes, rows_each);
  if (count < 1) return;
  Known& known = known_[sequence.id];
  if (known.waits) known.pass_over(call_);
  known.waits = false;
  if (known.is_foreign || known.is_paused(call_) || !follow(known, *one.group, sequence)) return;
  if (!is_worth_catching_up(known, sequence)) return;
  sequence.draft_history.latest = kDraftClass;
  active_.push_back({.id = sequence.id, .sequence = &sequence, .known = &known, .count = count});
}

// Updates what is known of a sequence to its current text. Returns false if it cannot have drafts now.
bool ModelProposer::follow(Known& known, const SequenceGroup& group, const Sequence& sequence) {
  const bool is_new = std::exchange(known.seen, call_) == 0;
  if (is_new) {
    known.rotation = rotation_.rotation_of(max_tokens_of(group.request, config_.max_model_len));
    const std::string salt = concat(known.rotation, "/", group.prefix_salt());
    const CacheUse use(salt, group.cache_claim(), group.request.arrival_time);
    known.num_computed = kv_->add_sequence(sequence.id, sequence.tokens, use, true);
    known.text.assign(sequence.tokens.begin(), sequence.tokens.begin() + known.num_computed);
    if (kv_->num_available_blocks() < 0) {
      forget(sequence.id);
      return false;
    }
  }
  if (!take_text(known, sequence)) {
    known.is_foreign = true;
    return false;
  }
  kv_->computed(sequence.id, known.text, known.num_computed);
  return known.num_missing() > 0;  // a sequence that no step has extended has nothing to compute drafts from
}

// Returns false if the text has a token outside this model's vocabulary.
bool ModelProposer::take_text(Known& known, const Sequence& sequence) const {
  const auto known_end = std::ranges::mismatch(known.text, sequence.tokens).in1;
  known.text.erase(known_end, known.text.end());
  known.num_computed = std::min(known.num_computed, static_cast<std::int32_t>(known.text.size()));
  for (std::size_t i = known.text.size(); i < sequence.tokens.size(); ++i) {
    if (sequence.tokens[i] >= config_.vocab_size) return false;
    known.text.push_back(sequence.tokens[i]);
  }
  return true;
}

bool ModelProposer::is_worth_catching_up(const Known& known, const Sequence& sequence) const {
  const std::int32_t usual = config_.speculative.num_speculative_tokens + 1;
  return known.num_missing() <= usual ||
         config_.cost * known.num_missing() <= kRowsSaved * sequence.num_output_tokens();
}

// Computes one step of the missing K/V, shortest first, so that most sequences can draft. Sequences that do
// not catch up are removed from active_.
void ModelProposer::catch_up() {
  std::ranges::sort(active_, {},
                    [](const Active& one) { return std::pair(one.known->num_missing(), one.id); });
  std::int32_t left = config_.max_num_batched_tokens;
  rows_.clear();
  std::size_t kept = 0;
  for (const Active& one : active_) {
    const std::int32_t missing = one.known->num_missing(), now = std::min(missing, left);
    if (now == 0) continue;
    const bool draws = now == missing;
    rows_.push_back(
        {.id = one.id, .known = one.known, .num_tokens = now, .draws = draws ? one.sequence : nullptr});
    left -= now;
    if (draws) active_[kept++] = one;
  }
  active_.resize(kept);
  if (!step(rows_)) active_.clear();
}

// Computes one more draft for each sequence that wants one. Returns false if none does, or the model has
// failed.
bool ModelProposer::draft_one() {
  rows_.clear();
  for (const Active& one : active_) {
    const auto drafted = std::ssize(one.sequence->draft);
    if (drafted == 0 || drafted >= one.count || one.known->num_missing() != 1 || one.known->is_paused(call_))
      continue;
    rows_.push_back({.id = one.id, .known = one.known, .num_tokens = 1, .draws = one.sequence});
  }
  return !rows_.empty() && step(rows_);
}

// Computes the rows and draws. Sequences that do not fit in the cache are left out. Returns false if the
// model has failed.
bool ModelProposer::step(std::span<Row> rows) {
  batch_ = {};
  std::size_t count = 0;
  for (const Row& row : rows) {
    if (!kv_->grow(row.id, row.known->num_computed + row.num_tokens, batch_.block_copies)) {
      row.known->pass_over(call_);
      continue;
    }
    rows[count++] = row;
    batch_.num_tokens += row.num_tokens;
  }
  rows = rows.first(count);
  if (rows.empty()) return true;
  for (const Row& row : rows) {
    const Known& known = *row.known;
    const std::span<const TokenId> text = known.text;
    const auto begin = as_size(known.num_computed);
    const KvTables tables = kv_->tables(row.id);
    ScheduledSequence& one = batch_.sequences.emplace_back();
    one.id = row.id;
    one.num_computed_tokens = known.num_computed;
    one.tokens = text.subspan(begin, as_size(row.num_tokens));
    one.all_tokens = text;
    one.rotation = known.rotation;
    one.num_prompt_tokens = static_cast<std::int32_t>(text.size());
    one.block_table = tables.blocks;
    one.first_row = tables.first_row;
    one.more_tables = tables.more;
    one.sample = row.draws != nullptr;
    one.spec.params = &greedy_;
  }
  StepResult result;
  try {
    result = runner_->run(batch_);
  } catch (const std::exception& error) {
    result.status = internal_error(error.what());
  }
  if (!result.status.ok()) {
    status_ = result.status;
    log_error("engine", concat("the draft model has failed and drafts no more: ", status_.message()));
    return false;
  }
  CHECK(result.sequences.size() == rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Known& known = *rows[i].known;
    known.num_computed += rows[i].num_tokens;
    if (rows[i].draws == nullptr) continue;
    const TokenId token = result.sequences[i].candidates.front().token;
    if (token < 0 || token >= config_.served_vocab_size) continue;
    rows[i].draws->draft.push_back(token);
    known.text.push_back(token);
  }
  return true;
}

void ModelProposer::verified(Sequence& sequence, std::int32_t num_tried, std::int32_t num_accepted) {
  note_verified(sequence.draft_history, num_tried, num_accepted);
  const auto it = known_.find(sequence.id);
  if (it == known_.end()) return;
  it->second.waits = false;
  it->second.pause = kFirstPause;
}

void ModelProposer::clear_cache() {
  for (const auto& [id, known] : known_) kv_->free(id);
  known_.clear();
  kv_->sharing().clear_prefix_cache();
}

Status ModelProposer::release_memory() {
  clear_cache();
  return runner_->release_memory(ModelRunner::KvContent::drop);
}

Status ModelProposer::load_weights() { return runner_->load_weights(); }

}  // namespace pagoda
