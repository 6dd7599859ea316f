#include "kv_events/event_encoding.h"

#include <cstring>
#include <string_view>

#include "kv_events/msgpack_writer.h"

namespace pagoda {
namespace {

void write_hashes(MsgpackWriter& out, const std::vector<std::uint64_t>& hashes) {
  out.text("block_hashes");
  out.array(hashes.size());
  for (const std::uint64_t hash : hashes) out.unsigned_integer(hash);
}

void write_type(MsgpackWriter& out, std::string_view type, std::size_t num_fields) {
  out.map(1 + num_fields);
  out.text("type");
  out.text(type);
}

// Routers use the medium to see which blocks would have to be fetched first.
void write_medium(MsgpackWriter& out, const CacheEvent& event) {
  out.text("medium");
  out.text(event.medium);
}

void write_stored(MsgpackWriter& out, const CacheEvent& event, std::int32_t block_size) {
  write_type(out, "BlockStored", event.salt.empty() ? 7 : 8);
  write_hashes(out, event.hashes);
  out.text("parent_block_hash");
  if (event.parent)
    out.unsigned_integer(*event.parent);
  else
    out.nil();
  out.text("token_ids");
  out.array(event.tokens.size());
  for (const TokenId token : event.tokens) out.unsigned_integer(static_cast<std::uint64_t>(token));
  out.text("block_size");
  // vLLM's offloading connector sends only hashes, with block_size 0.
  out.unsigned_integer(event.tokens.empty() ? 0 : static_cast<std::uint64_t>(block_size));
  out.text("lora_id");
  if (event.lora_id > 0)
    out.unsigned_integer(static_cast<std::uint64_t>(event.lora_id));
  else
    out.nil();
  write_medium(out, event);
  out.text("lora_name");
  if (event.lora_id > 0)
    out.text(event.lora_name);
  else
    out.nil();
  if (event.salt.empty()) return;
  out.text("extra_keys");
  out.array(event.hashes.size());  // only the first block needs the salt
  out.array(1);
  out.text(event.salt);
  for (std::size_t i = 1; i < event.hashes.size(); ++i) out.nil();
}

}  // namespace

std::uint64_t external_hash(const BlockHash& hash) {
  std::uint8_t bytes[8];
  std::memcpy(bytes, &hash.words[3], sizeof bytes);
  std::uint64_t out = 0;
  for (const std::uint8_t byte : bytes) out = out << 8 | byte;
  return out;
}

std::string encode(const CacheEventBatch& batch, std::int32_t block_size) {
  std::string bytes;
  MsgpackWriter out(bytes);
  out.array(3);
  out.float64(batch.unix_seconds);
  out.array(batch.events.size());
  for (const CacheEvent& event : batch.events) {
    switch (event.kind) {
      case CacheEvent::Kind::stored:
        write_stored(out, event, block_size);
        break;
      case CacheEvent::Kind::removed:
        write_type(out, "BlockRemoved", 2);
        write_hashes(out, event.hashes);
        write_medium(out, event);
        break;
      case CacheEvent::Kind::cleared:
        write_type(out, "AllBlocksCleared", 0);
        break;
    }
  }
  out.unsigned_integer(static_cast<std::uint64_t>(batch.data_parallel_rank));
  return bytes;
}

}  // namespace pagoda
