#include "model_runner/control_message.h"

#include <cstring>
#include <limits>
#include <utility>

#include "base/strings.h"

namespace pagoda {
namespace {

constexpr std::int32_t kMagic = 0x50474443;  // also tells a rank of another byte order

// A field added to a batch has to be carried over, or left out on purpose: then change the size here.
// Left out: what a padded batch would have cost, which is the simulator's.
static_assert(sizeof(void*) != 8 || sizeof(std::vector<int>) != 24 || sizeof(ScheduledBatch) == 6 * 24 + 16);
static_assert(sizeof(SwapCopy) == 8 && sizeof(BlockCopy) == 8 && sizeof(PageMapping) == 12);

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
  void items(std::span<const T> items) {  // without their number
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
  // The number of items that follow, each of so many bytes at least.
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

// The part of a sequence's table that its tokens of this step attend to.
std::size_t needed_blocks(const ScheduledSequence& sequence, std::int32_t block_size) {
  const std::size_t end = static_cast<std::size_t>(sequence.num_computed_tokens) + sequence.tokens.size();
  const auto size = static_cast<std::size_t>(block_size);
  return std::min(sequence.block_table.size(), (end + size - 1) / size);
}

// One sequence in words: computed tokens, prompt tokens, sample, guesses, prompt_logprobs, tokens, blocks;
// then these.
constexpr std::size_t kSequenceWords = 7;

void read_step(Reader& in, ControlMessage& message) {
  ScheduledBatch& batch = message.batch;
  in.list(batch.swap_out);
  in.list(batch.swap_in);
  in.list(batch.block_copies);
  in.list(batch.page_maps);
  in.list(batch.page_maps_ahead);
  batch.sequences.clear();
  batch.num_tokens = 0;
  message.tokens.clear();
  message.blocks.clear();
  struct Lengths {
    std::size_t tokens, blocks;
  };
  std::vector<Lengths> lengths;
  const std::size_t num_sequences = in.count(kSequenceWords * sizeof(std::int32_t));
  for (std::size_t i = 0; i < num_sequences && in.ok(); ++i) {
    ScheduledSequence sequence;
    sequence.num_computed_tokens = in.word();
    sequence.num_prompt_tokens = in.word();
    sequence.sample = in.word() != 0;
    sequence.num_draft_tokens = in.word();
    sequence.prompt_logprobs = in.word();
    const std::size_t num_tokens = in.count(sizeof(TokenId)), num_blocks = in.count(sizeof(BlockId));
    in.items(num_tokens, message.tokens);
    in.items(num_blocks, message.blocks);
    if (sequence.num_computed_tokens < 0 || sequence.num_prompt_tokens < 0 || sequence.num_draft_tokens < 0 ||
        (sequence.num_draft_tokens > 0 && std::cmp_greater_equal(sequence.num_draft_tokens, num_tokens)))
      in.fail();
    lengths.push_back({num_tokens, num_blocks});
    batch.sequences.push_back(sequence);
  }
  if (!in.ok() || message.tokens.size() > std::numeric_limits<std::int32_t>::max()) return in.fail();
  batch.num_tokens = static_cast<std::int32_t>(message.tokens.size());
  std::span<const TokenId> tokens(message.tokens);
  std::span<const BlockId> blocks(message.blocks);
  for (std::size_t i = 0; i < num_sequences; ++i) {
    batch.sequences[i].tokens = tokens.first(lengths[i].tokens);
    batch.sequences[i].block_table = blocks.first(lengths[i].blocks);
    tokens = tokens.subspan(lengths[i].tokens);
    blocks = blocks.subspan(lengths[i].blocks);
  }
}

}  // namespace

void encode_step(const ScheduledBatch& batch, std::int32_t block_size, std::vector<std::byte>& bytes) {
  Writer out(ControlKind::step, bytes);
  out.list(batch.swap_out);
  out.list(batch.swap_in);
  out.list(batch.block_copies);
  out.list(batch.page_maps);
  out.list(batch.page_maps_ahead);
  out.count(batch.sequences.size());
  for (const ScheduledSequence& sequence : batch.sequences) {
    const std::size_t num_blocks = needed_blocks(sequence, block_size);
    out.word(sequence.num_computed_tokens);
    out.word(sequence.num_prompt_tokens);
    out.word(sequence.sample ? 1 : 0);
    out.word(sequence.num_draft_tokens);
    out.word(sequence.prompt_logprobs);
    out.count(sequence.tokens.size());
    out.count(num_blocks);
    out.items(sequence.tokens);
    out.items(sequence.block_table.first(num_blocks));
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
    case ControlKind::stop:
      break;
    default:
      return corrupt_data(concat("a control message of unknown kind ", kind));
  }
  return in.done() ? ok_status() : corrupt_data("a malformed control message");
}

}  // namespace pagoda
