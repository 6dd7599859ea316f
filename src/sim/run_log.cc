#include "sim/run_log.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/random.h"
#include "base/strings.h"
#include "request/kv_groups.h"
#include "sim/byte_coding.h"
#include "sim/run_log_fields.h"

namespace pagoda {
namespace {

using namespace run_log;

constexpr std::string_view kMagic = "PAGODARL";
constexpr std::uint8_t kVersion = 9;
constexpr std::uint64_t kMaxRecordBytes = std::uint64_t{256} << 20;

enum class Kind : std::uint8_t {
  header = 1,
  submit,
  abort,
  abort_sequence,
  add_prefix,
  drop_prefix,
  step,
  end,
  grant,
  drafts,
  reset_cache,
  erase_cached,
};

// Flags of a step.
enum StepFlag : std::uint8_t { kFailed = 1, kTiers = 2 };

// Flags of a sequence in a step.
enum Flag : std::uint8_t { kSample = 1, kBeam = 2, kAsBefore = 4, kDrafts = 8, kConstrained = 16 };

std::uint32_t checksum(std::uint8_t kind, std::string_view payload) {
  std::uint64_t hash = kind;
  for (const char c : payload) hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3ull;
  return static_cast<std::uint32_t>(mix64(hash));
}

// The program that wrote the log, where that says what to do.
std::string_view written_by(int version) {
  return version == 3
             ? ", written by a Pagoda that gave a prompt the room for all of its tokens at once (before "
               "KV groups): replay it with that one"
             : "";
}

// Checks that the paged manager can have such groups.
bool groups_can_be(const RunHeader& header) {
  const auto& groups = header.engine.kv_groups;
  if (!groups) return true;
  for (const KvGroup& group : *groups) {
    if ((group.kind == KvKind::window) != (group.window > 0)) return false;
    if (group.kind == KvKind::full && &group != &groups->front()) return false;
    if (group.is_state() && (&group != &groups->back() || header.modes.kv_manager != "paged")) return false;
  }
  if (header.modes.scheduler != "vllm" || pages_for(*groups, header.engine.max_model_len) > header.num_blocks)
    return false;
  if (header.modes.kv_manager != "virtual" || header.modes.slots) return true;
  // Slots are laid out as cli/assembly does where a simulation says nothing about them.
  std::int64_t blocks = 0;
  for (const KvGroup& group : *groups)
    blocks += group.rows_for(header.engine.max_model_len) * group.pages_per_row;
  return blocks > 0 && blocks <= kMaxBlocks / (2 * std::int64_t{header.engine.max_num_seqs});
}

// Checks that the virtual manager can have such slots.
bool slots_can_be(const RunHeader& header) {
  const SlotMapConfig& slots = *header.modes.slots;
  const EngineConfig& engine = header.engine;
  const std::vector<KvGroup> groups = engine.kv_groups.value_or(one_full_group(engine.block_size));
  if (groups.empty()) return false;
  std::int64_t per_row = 0;
  for (const KvGroup& group : groups) per_row += group.pages_per_row;
  const std::int64_t pages = pages_for(groups, engine.max_model_len);  // pages of the longest sequence
  return std::int64_t{slots.num_slots} * slots.blocks_per_slot <= kMaxBlocks &&
         slots.blocks_per_slot % per_row == 0 &&
         slots.blocks_per_slot / per_row >= groups.front().rows_for(engine.max_model_len) &&
         slots.num_slots >= engine.max_num_seqs &&
         (slots.max_regions == 0 || slots.max_regions > 2 * pages) &&
         header.modes.num_created <= header.num_blocks &&
         (header.modes.num_created == 0 ||
          header.modes.num_created >= std::min<std::int64_t>(header.num_blocks, pages));
}

void put_key(ByteWriter& out, const TierKey& key) {
  for (const std::uint64_t word : key.chain) out.fixed(word, 8);
  out.signed_number(key.group);
}

void get_key(ByteReader& in, TierKey& key) {
  for (std::uint64_t& word : key.chain) word = in.fixed(8);
  key.group = in.int32_in(0, kMaxGroups);
}

void put_owner(ByteWriter& out, const CacheOwner& owner) {
  out.fixed(owner.tenant, 8);
  out.fixed(owner.session, 8);
}

CacheOwner get_owner(ByteReader& in) {
  const std::uint64_t tenant = in.fixed(8);
  return {.tenant = tenant, .session = in.fixed(8)};
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

void put_step(ByteWriter& out, const LoggedStep& step, const LoggedStep& before) {
  out.signed_number(step.started - before.finished);
  out.signed_number(step.finished - step.started);
  const bool tiers = step.num_tier_moves > 0 || !step.tier_news.empty();
  out.byte(static_cast<std::uint8_t>((step.failed ? kFailed : 0) | (tiers ? kTiers : 0)));
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

LoggedStep get_step(ByteReader& in, const LoggedStep& before) {
  LoggedStep step;
  const TimeNs wait = in.number_in(0, kMaxTime), duration = in.number_in(0, kMaxTime);
  if (wait > kMaxTime - before.finished || duration > kMaxTime - before.finished - wait) in.fail();
  if (!in.ok()) return step;
  step.started = before.finished + wait;
  step.finished = step.started + duration;
  const std::uint8_t flags = in.byte();
  step.failed = (flags & kFailed) != 0;
  if (flags > (kFailed | kTiers)) in.fail();
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

}  // namespace

Result<std::unique_ptr<RunLogWriter>> RunLogWriter::create(const std::string& path, const RunHeader& header) {
  std::unique_ptr<RunLogWriter> out(new RunLogWriter());
  out->file_.open(path, std::ios::binary | std::ios::trunc);
  out->file_ << kMagic << static_cast<char>(kVersion);
  ByteWriter bytes;
  code_header(Put{bytes}, header);
  out->write_record(static_cast<std::uint8_t>(Kind::header), bytes.bytes());
  if (!out->flush().ok()) return invalid_argument(concat("cannot write ", path, ": ", std::strerror(errno)));
  return out;
}

void RunLogWriter::write_record(std::uint8_t kind, const std::string& payload) {
  ByteWriter frame;
  frame.byte(kind);
  frame.number(payload.size());
  file_ << frame.bytes() << payload;
  ByteWriter sum;
  sum.fixed(checksum(kind, payload), 4);
  file_ << sum.bytes();
}

void RunLogWriter::write(const LogEvent& event) {
  ByteWriter out;
  Kind kind = Kind::end;
  if (const auto* request = std::get_if<Request>(&event)) {
    kind = Kind::submit;
    out.number(static_cast<std::uint64_t>(request->id));
    code_request(Put{out}, *request);
  } else if (const auto* abort = std::get_if<LoggedAbort>(&event)) {
    kind = Kind::abort;
    out.number(static_cast<std::uint64_t>(abort->id));
  } else if (const auto* sequence = std::get_if<LoggedAbortSequence>(&event)) {
    kind = Kind::abort_sequence;
    out.number(static_cast<std::uint64_t>(sequence->id));
    out.signed_number(sequence->index);
  } else if (const auto* add = std::get_if<LoggedAddPrefix>(&event)) {
    kind = Kind::add_prefix;
    out.text(add->name);
    put_tokens(out, add->tokens);
  } else if (const auto* drop = std::get_if<LoggedDropPrefix>(&event)) {
    kind = Kind::drop_prefix;
    out.text(drop->name);
  } else if (std::holds_alternative<LoggedResetCache>(event)) {
    kind = Kind::reset_cache;
  } else if (const auto* erase = std::get_if<LoggedEraseCached>(&event)) {
    kind = Kind::erase_cached;
    put_owner(out, erase->owner);
  } else if (const auto* step = std::get_if<LoggedStep>(&event)) {
    kind = Kind::step;
    put_step(out, *step, before_);
    before_ = *step;
  } else if (const auto* grant = std::get_if<LoggedGrant>(&event)) {
    kind = Kind::grant;
    out.byte(grant->granted ? 1 : 0);
  } else if (const auto* drafts = std::get_if<LoggedDrafts>(&event)) {
    kind = Kind::drafts;
    out.number(static_cast<std::uint64_t>(drafts->id));
    put_tokens(out, drafts->tokens);
  }
  write_record(static_cast<std::uint8_t>(kind), out.bytes());
}

Status RunLogWriter::flush() {
  file_.flush();
  return file_ ? ok_status() : internal_error("the run log could not be written");
}

Status RunLogReader::corrupt(const std::string& what) const {
  return corrupt_data(concat(path_, ": record ", num_records_, ": ", what));
}

Result<std::unique_ptr<RunLogReader>> RunLogReader::open(const std::string& path) {
  std::unique_ptr<RunLogReader> out(new RunLogReader());
  out->path_ = path;
  out->file_.open(path, std::ios::binary);
  if (!out->file_) return not_found(concat("cannot read ", path, ": ", std::strerror(errno)));
  std::string magic(kMagic.size() + 1, '\0');
  out->file_.read(magic.data(), static_cast<std::streamsize>(magic.size()));
  if (!out->file_ || !std::string_view(magic).starts_with(kMagic))
    return corrupt_data(concat(path, ": not a log of `pagoda serve --record`"));
  if (const int version = static_cast<std::uint8_t>(magic.back()); version != kVersion)
    return corrupt_data(concat(path, ": version ", version, " of the log", written_by(version),
                               "; this program reads version ", static_cast<int>(kVersion)));
  auto record = out->read_record();
  if (!record) return record.error();
  if (!*record || (*record)->kind != static_cast<std::uint8_t>(Kind::header))
    return corrupt_data(concat(path, ": the log does not begin with its header"));
  ByteReader in((*record)->payload);
  code_header(Get{in}, out->header_);
  out->header_.engine.log_stats = false;
  if (!in.ok() || !in.at_end()) return out->corrupt("a header with impossible values");
  if (const Status status = validate(out->header_.engine); !status.ok())
    return out->corrupt(concat("a header that cannot be: ", status.message()));
  if (!groups_can_be(out->header_)) return out->corrupt("KV groups that cannot be");
  if (out->header_.modes.slots && !slots_can_be(out->header_))
    return out->corrupt("slots of the virtual manager that cannot be");
  if (out->header_.num_swap_blocks > out->header_.num_blocks)
    return out->corrupt("more swap space than KV cache");
  return out;
}

Result<std::optional<RunLogReader::Record>> RunLogReader::read_record() {
  Record record;
  const int kind = file_.get();
  if (kind < 0) return std::optional<Record>();
  ++num_records_;
  record.kind = static_cast<std::uint8_t>(kind);
  std::uint64_t size = 0;
  for (int shift = 0;; shift += 7) {
    const int byte = file_.get();
    if (byte < 0) return std::optional<Record>();  // cut off in a record: as a killed writer leaves it
    if (shift > 56) return corrupt("its length is too large");
    size |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) break;
  }
  if (size > kMaxRecordBytes) return corrupt("its length is too large");
  // In pieces: what is not in the file is not allocated.
  constexpr std::uint64_t kPiece = 1 << 20;
  while (record.payload.size() < size) {
    const std::size_t at = record.payload.size();
    const auto piece = static_cast<std::size_t>(std::min(kPiece, size - at));
    record.payload.resize(at + piece);
    file_.read(record.payload.data() + at, static_cast<std::streamsize>(piece));
    if (!file_) return std::optional<Record>();
  }
  std::string sum(4, '\0');
  file_.read(sum.data(), 4);
  if (!file_) return std::optional<Record>();
  if (ByteReader(sum).fixed(4) != checksum(record.kind, record.payload))
    return corrupt("its checksum is wrong");
  return std::optional<Record>(std::move(record));
}

Result<std::optional<LogEvent>> RunLogReader::next() {
  auto record = read_record();
  if (!record) return record.error();
  if (!*record) return std::optional<LogEvent>();
  ByteReader in((*record)->payload);
  LogEvent event;
  switch (static_cast<Kind>((*record)->kind)) {
    case Kind::submit: {
      Request request;
      request.id = RequestId{in.number()};
      code_request(Get{in}, request);
      const SamplingParams& sampling = request.sampling;
      if (sampling.best_of < sampling.n && !sampling.use_beam_search) in.fail();
      event = std::move(request);
      break;
    }
    case Kind::abort:
      event = LoggedAbort{RequestId{in.number()}};
      break;
    case Kind::abort_sequence: {
      const RequestId id{in.number()};
      event = LoggedAbortSequence{id, in.int32_in(0, kMaxInt32)};
      break;
    }
    case Kind::add_prefix: {
      std::string name = in.text();
      event = LoggedAddPrefix{std::move(name), get_tokens(in)};
      break;
    }
    case Kind::drop_prefix:
      event = LoggedDropPrefix{in.text()};
      break;
    case Kind::reset_cache:
      event = LoggedResetCache{};
      break;
    case Kind::erase_cached:
      event = LoggedEraseCached{get_owner(in)};
      break;
    case Kind::step: {
      LoggedStep step = get_step(in, before_);
      if (in.ok()) before_ = step;
      event = std::move(step);
      break;
    }
    case Kind::grant: {
      const std::uint8_t granted = in.byte();
      if (granted > 1) in.fail();
      event = LoggedGrant{granted == 1};
      break;
    }
    case Kind::drafts: {
      const SequenceId id{in.number()};
      event = LoggedDrafts{id, get_tokens(in)};
      break;
    }
    case Kind::end:
      event = LoggedEnd{};
      break;
    case Kind::header:
    default:
      return corrupt(concat("of the unknown kind ", static_cast<int>((*record)->kind)));
  }
  if (!in.ok()) return corrupt("impossible values");
  if (!in.at_end()) return corrupt("more bytes than it needs");
  return std::optional<LogEvent>(std::move(event));
}

}  // namespace pagoda
