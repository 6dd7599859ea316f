#include "model_runner/control_message.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/strings.h"

namespace pagoda {
namespace {

constexpr std::int32_t kMagic = 0x50474443;  // also detects a rank with another byte order

// Whoever adds a field to a batch must encode it or leave it out on purpose, and then update the size here.
// Left out: the cost of a padded batch, which only the simulator uses, and tier moves, which an engine of
// several ranks does not have.
static_assert(sizeof(void*) != 8 || sizeof(std::vector<int>) != 24 || sizeof(ScheduledBatch) == 12 * 24 + 16);
static_assert(sizeof(SwapCopy) == 8 && sizeof(BlockCopy) == 8 && sizeof(PageMapping) == 12);
static_assert(sizeof(StateCopy) == 24 && sizeof(PoolingSpec) == 12);

class Writer {
 public:
  Writer(ControlKind kind, std::vector<std::byte>& bytes) : bytes_(bytes) {
    bytes_.clear();
    word(kMagic);
    word(static_cast<std::int32_t>(kind));
  }
  void word(std::int32_t value) { append(&value, sizeof(value)); }
  void count(std::size_t value) { word(static_cast<std::int32_t>(value)); }
  void wide(std::int64_t value) { append(&value, sizeof(value)); }
  template <class T>
  void items(std::span<const T> items) {  // without their count
    static_assert(sizeof(T) % sizeof(std::int32_t) == 0 && std::is_trivially_copyable_v<T>);
    append(items.data(), items.size_bytes());
  }
  template <class T>
  void list(const std::vector<T>& values) {
    count(values.size());
    items(std::span<const T>(values));
  }

 private:
  void append(const void* data, std::size_t size) {
    const auto* begin = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), begin, begin + size);
  }
  std::vector<std::byte>& bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::int32_t word() {
    std::int32_t value = 0;
    take(&value, sizeof(value));
    return value;
  }
  std::int64_t wide() {
    std::int64_t value = 0;
    take(&value, sizeof(value));
    return value;
  }
  // Reads the count of the items that follow; each has at least `item_bytes` bytes.
  std::size_t count(std::size_t item_bytes) {
    const std::int32_t value = word();
    if (value < 0 || static_cast<std::size_t>(value) > rest_.size() / item_bytes) fail();
    return ok_ ? static_cast<std::size_t>(value) : 0;
  }
  template <class T>
  void items(std::size_t number, std::vector<T>& out) {  // appended
    static_assert(std::is_trivially_copyable_v<T>);
    if (!ok_ || number > rest_.size() / sizeof(T)) return fail();
    const std::size_t before = out.size();
    out.resize(before + number);
    take(out.data() + before, number * sizeof(T));
  }
  template <class T>
  void list(std::vector<T>& out) {
    out.clear();
    items(count(sizeof(T)), out);
  }
  void fail() { ok_ = false; }
  bool ok() const { return ok_; }
  bool done() const { return ok_ && rest_.empty(); }

 private:
  void take(void* out, std::size_t size) {
    if (!ok_ || size > rest_.size()) return fail();
    if (size > 0) std::memcpy(out, rest_.data(), size);
    rest_ = rest_.subspan(size);
  }
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

// One sequence in words: computed tokens, prompt tokens, rotation, flags, drafts, prompt_logprobs, first row,
// and the counts of tokens, blocks and further tables; its pooling, if any; then the items. Each further
// table is preceded by its first row and its number of blocks.
constexpr std::size_t kSequenceWords = 10, kTableWords = 2;
constexpr std::int32_t kSample = 1, kWholePrompt = 2, kEmbed = 4, kScore = 8;

std::int32_t flags_of(const ScheduledSequence& sequence) {
  return (sequence.sample ? kSample : 0) | (sequence.whole_prompt ? kWholePrompt : 0) |
         (sequence.work == WorkKind::embed ? kEmbed : 0) | (sequence.work == WorkKind::score ? kScore : 0);
}

void read_pooling(Reader& in, PoolingSpec& pooling) {
  const std::int32_t type = in.word(), dimensions = in.word(), normalize = in.word();
  if (type < 0 || type > static_cast<std::int32_t>(PoolingType::first) || dimensions < 0 || normalize < 0 ||
      normalize > 1)
    return in.fail();
  pooling = {.type = static_cast<PoolingType>(type), .dimensions = dimensions, .normalize = normalize == 1};
}

// Number of items of message.tokens, .blocks and .tables per sequence. Spans are made once these vectors are
// complete.
struct Lengths {
  std::size_t tokens = 0, blocks = 0, tables = 0;
};

Lengths read_sequence(Reader& in, ControlMessage& message, std::vector<std::size_t>& table_blocks) {
  ScheduledSequence& sequence = message.batch.sequences.emplace_back();
  sequence.num_computed_tokens = in.word();
  sequence.num_prompt_tokens = in.word();
  sequence.rotation = in.word();
  const std::int32_t flags = in.word();
  sequence.sample = (flags & kSample) != 0;
  sequence.whole_prompt = (flags & kWholePrompt) != 0;
  if ((flags & kEmbed) != 0) sequence.work = WorkKind::embed;
  if ((flags & kScore) != 0) sequence.work = WorkKind::score;
  sequence.num_draft_tokens = in.word();
  sequence.prompt_logprobs = in.word();
  sequence.first_row = in.word();
  Lengths out;
  out.tokens = in.count(sizeof(TokenId));
  out.blocks = in.count(sizeof(BlockId));
  out.tables = in.count(kTableWords * sizeof(std::int32_t));
  const bool pools = sequence.work != WorkKind::generate;
  if (pools) read_pooling(in, sequence.pooling);
  in.items(out.tokens, message.tokens);
  in.items(out.blocks, message.blocks);
  for (std::size_t i = 0; i < out.tables && in.ok(); ++i) {
    const std::int32_t first_row = in.word();
    if (first_row < 0) in.fail();
    message.tables.push_back({.blocks = {}, .first_row = first_row});
    table_blocks.push_back(in.count(sizeof(BlockId)));
    in.items(table_blocks.back(), message.blocks);
  }
  if (flags < 0 || flags >= (kEmbed | kScore) ||  // both, or unknown ones
      sequence.num_computed_tokens < 0 || sequence.num_prompt_tokens < 0 || sequence.num_draft_tokens < 0 ||
      sequence.first_row < 0 || sequence.rotation < 0 ||
      (sequence.num_draft_tokens > 0 &&
       (pools || std::cmp_greater_equal(sequence.num_draft_tokens, out.tokens))) ||
      (sequence.whole_prompt && sequence.num_computed_tokens > 0))
    in.fail();
  return out;
}

// True if each copy names a state of a sequence and a group of this batch, at a position within the step.
bool are_state_copies(const ScheduledBatch& batch) {
  return std::ranges::all_of(batch.state_copies, [&](const StateCopy& copy) {
    if (copy.sequence < 0 || std::cmp_greater_equal(copy.sequence, batch.sequences.size())) return false;
    const ScheduledSequence& sequence = batch.sequences[static_cast<std::size_t>(copy.sequence)];
    const std::int64_t known = sequence.num_computed_tokens +
                               static_cast<std::int64_t>(sequence.tokens.size()) - sequence.num_draft_tokens;
    return copy.position > sequence.num_computed_tokens && copy.position <= known && copy.group >= 0 &&
           std::cmp_less_equal(copy.group, sequence.more_tables.size()) && copy.first_page >= 0 &&
           index(copy.page) >= 0 && copy.count > 0 &&
           copy.count <=
               std::numeric_limits<std::int32_t>::max() - std::max(copy.first_page, index(copy.page));
  });
}

void read_step(Reader& in, ControlMessage& message) {
  ScheduledBatch& batch = message.batch;
  in.list(batch.swap_out);
  in.list(batch.swap_in);
  in.list(batch.block_copies);
  in.list(batch.page_maps);
  in.list(batch.page_maps_ahead);
  in.list(batch.state_copies);
  batch.sequences.clear();
  batch.num_tokens = 0;
  message.tokens.clear();
  message.blocks.clear();
  message.tables.clear();
  std::vector<Lengths> lengths;
  std::vector<std::size_t> table_blocks;
  const std::size_t num_sequences = in.count(kSequenceWords * sizeof(std::int32_t));
  for (std::size_t i = 0; i < num_sequences && in.ok(); ++i)
    lengths.push_back(read_sequence(in, message, table_blocks));
  if (!in.ok() || message.tokens.size() > std::numeric_limits<std::int32_t>::max()) return in.fail();
  batch.num_tokens = static_cast<std::int32_t>(message.tokens.size());
  std::span<const TokenId> tokens(message.tokens);
  std::span<const BlockId> blocks(message.blocks);
  const auto next_blocks = [&blocks](std::size_t count) {
    const std::span<const BlockId> out = blocks.first(count);
    blocks = blocks.subspan(count);
    return out;
  };
  std::size_t table = 0;
  for (std::size_t i = 0; i < num_sequences; ++i) {
    ScheduledSequence& sequence = batch.sequences[i];
    sequence.tokens = tokens.first(lengths[i].tokens);
    tokens = tokens.subspan(lengths[i].tokens);
    sequence.block_table = next_blocks(lengths[i].blocks);
    sequence.more_tables = std::span(message.tables).subspan(table, lengths[i].tables);
    for (const std::size_t end = table + lengths[i].tables; table < end; ++table)
      message.tables[table].blocks = next_blocks(table_blocks[table]);
  }
  if (!are_state_copies(batch)) in.fail();
}

}  // namespace

void encode_step(const ScheduledBatch& batch, std::vector<std::byte>& bytes) {
  CHECK(batch.tier_moves.empty());
  Writer out(ControlKind::step, bytes);
  out.list(batch.swap_out);
  out.list(batch.swap_in);
  out.list(batch.block_copies);
  out.list(batch.page_maps);
  out.list(batch.page_maps_ahead);
  out.list(batch.state_copies);
  out.count(batch.sequences.size());
  for (const ScheduledSequence& sequence : batch.sequences) {
    out.word(sequence.num_computed_tokens);
    out.word(sequence.num_prompt_tokens);
    out.word(sequence.rotation);
    out.word(flags_of(sequence));
    out.word(sequence.num_draft_tokens);
    out.word(sequence.prompt_logprobs);
    out.word(sequence.first_row);
    out.count(sequence.tokens.size());
    out.count(sequence.block_table.size());
    out.count(sequence.more_tables.size());
    if (sequence.work != WorkKind::generate) {
      out.word(static_cast<std::int32_t>(sequence.pooling.type));
      out.word(sequence.pooling.dimensions);
      out.word(sequence.pooling.normalize ? 1 : 0);
    }
    out.items(sequence.tokens);
    out.items(sequence.block_table);
    for (const KvTable& table : sequence.more_tables) {
      out.word(table.first_row);
      out.count(table.blocks.size());
      out.items(table.blocks);
    }
  }
}

void encode_allocate(std::int64_t num_blocks, std::int64_t num_swap_blocks, std::vector<std::byte>& bytes) {
  Writer out(ControlKind::allocate, bytes);
  out.wide(num_blocks);
  out.wide(num_swap_blocks);
}

void encode_allocate_virtual(std::int32_t block_size, const VirtualKvShape& shape, std::int64_t num_blocks,
                             std::int64_t num_swap_blocks, std::vector<std::byte>& bytes) {
  Writer out(ControlKind::allocate_virtual, bytes);
  out.wide(num_blocks);
  out.wide(num_swap_blocks);
  out.word(block_size);
  out.word(shape.num_tensors);
  out.wide(shape.num_slots);
  out.wide(shape.blocks_per_slot);
  out.wide(shape.num_created);
}

void encode_create_pages(std::int64_t first, std::int64_t count, std::vector<std::byte>& bytes) {
  Writer out(ControlKind::create_pages, bytes);
  out.wide(first);
  out.wide(count);
}

void encode_signal(ControlKind kind, std::vector<std::byte>& bytes) { Writer(kind, bytes); }

Status decode_control(std::span<const std::byte> bytes, ControlMessage& message) {
  Reader in(bytes);
  if (in.word() != kMagic) return corrupt_data("not a control message");
  const std::int32_t kind = in.word();
  message.kind = static_cast<ControlKind>(kind);
  switch (message.kind) {
    case ControlKind::allocate:
      message.num_blocks = in.wide();
      message.num_swap_blocks = in.wide();
      break;
    case ControlKind::allocate_virtual:
      message.num_blocks = in.wide();
      message.num_swap_blocks = in.wide();
      message.block_size = in.word();
      message.shape.num_tensors = in.word();
      message.shape.num_slots = in.wide();
      message.shape.blocks_per_slot = in.wide();
      message.shape.num_created = in.wide();
      break;
    case ControlKind::create_pages:
      message.first_page = in.wide();
      message.num_pages = in.wide();
      break;
    case ControlKind::step:
      read_step(in, message);
      break;
    case ControlKind::ping:
    case ControlKind::release:
    case ControlKind::release_all:
    case ControlKind::load:
    case ControlKind::stop:
      break;
    default:
      return corrupt_data(concat("a control message of unknown kind ", kind));
  }
  return in.done() ? ok_status() : corrupt_data("a malformed control message");
}

}  // namespace pagoda
