#include "sim/run_log.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/assign_or_return.h"
#include "base/random.h"
#include "base/strings.h"
#include "request/kv_groups.h"
#include "sim/byte_coding.h"
#include "sim/run_log_fields.h"
#include "sim/run_log_step.h"

namespace pagoda {
namespace {

using namespace run_log;

constexpr std::string_view kMagic = "PAGODARL";
constexpr std::uint8_t kVersion = 12;
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

std::uint32_t checksum(std::uint8_t kind, std::string_view payload) {
  std::uint64_t hash = kind;
  for (const char c : payload) hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3ull;
  return static_cast<std::uint32_t>(mix64(hash));
}

// A hint which version of the program wrote the log, if a replay needs that version.
std::string_view written_by(int version) {
  return version == 3
             ? ", written by a Pagoda that gave a prompt the room for all of its tokens at once (before "
               "KV groups): replay it with that one"
             : "";
}

// True if the paged manager supports these groups.
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
  // The layout of slots is that of cli/assembly when a simulation does not specify one.
  std::int64_t blocks = 0;
  for (const KvGroup& group : *groups)
    blocks += group.rows_for(header.engine.max_model_len) * group.pages_per_row;
  return blocks > 0 && blocks <= kMaxBlocks / (2 * std::int64_t{header.engine.max_num_seqs});
}

// True if the virtual manager supports these slots.
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
  PAGODA_ASSIGN_OR_RETURN(auto record, out->read_record());
  if (!record || record->kind != static_cast<std::uint8_t>(Kind::header))
    return corrupt_data(concat(path, ": the log does not begin with its header"));
  ByteReader in(record->payload);
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
    if (byte < 0) return std::optional<Record>();  // cut off inside a record, as after a killed writer
    if (shift > 56) return corrupt("its length is too large");
    size |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) break;
  }
  if (size > kMaxRecordBytes) return corrupt("its length is too large");
  // Read in pieces, so that a wrong size does not allocate memory beyond the file.
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
  PAGODA_ASSIGN_OR_RETURN(auto record, read_record());
  if (!record) return std::optional<LogEvent>();
  ByteReader in(record->payload);
  LogEvent event;
  switch (static_cast<Kind>(record->kind)) {
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
      return corrupt(concat("of the unknown kind ", static_cast<int>(record->kind)));
  }
  if (!in.ok()) return corrupt("impossible values");
  if (!in.at_end()) return corrupt("more bytes than it needs");
  return std::optional<LogEvent>(std::move(event));
}

}  // namespace pagoda
