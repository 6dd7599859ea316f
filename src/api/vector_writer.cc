#include "api/vector_writer.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace pagoda {

VectorWriter::VectorWriter(std::span<const Request> requests)
    : vectors_(requests.size()), ended_(requests.size()), num_left_(requests.size()) {
  for (const Request& request : requests)
    usage_.prompt_tokens += static_cast<std::int64_t>(request.prompt_token_ids.size());
}

void VectorWriter::add(std::size_t prompt_index, RequestOutput output) {
  if (finished()) return;
  CHECK(prompt_index < vectors_.size());
  if (!output.error.ok()) return fail(std::move(output.error));
  for (SequenceDelta& delta : output.deltas)
    if (!delta.vector.empty()) vectors_[prompt_index] = std::move(delta.vector);
  usage_.cached_tokens += output.num_cached_tokens;
  arrival_ = arrival_ == 0 ? output.times.arrival : std::min(arrival_, output.times.arrival);
  ended_at_ = std::max(ended_at_, output.times.last_token);
  if (!output.finished || ended_[prompt_index]) return;
  if (vectors_[prompt_index].empty())
    return fail(unavailable("The request was ended by the server before it was complete."));
  if (!std::ranges::all_of(vectors_[prompt_index], [](float value) { return std::isfinite(value); }))
    return fail(internal_error("The model returned a vector that is not finite."));
  ended_[prompt_index] = true;
  --num_left_;
}

void VectorWriter::fail(Status error) {
  if (!finished()) error_ = std::move(error);
}

bool VectorWriter::take(std::string& out, std::size_t max_bytes) {
  if (!finished() || !error_.ok() || done_) return false;
  if (!begun_) {
    begun_ = true;
    num_items_ = prepare();
    write_begin(out);
  }
  const std::size_t end = out.size() + max_bytes;
  for (; next_ < num_items_; ++next_) {
    if (out.size() >= end) return true;
    if (next_ > 0) out.push_back(',');
    write_item(out, next_);
  }
  write_end(out);
  done_ = true;
  return false;
}

double VectorWriter::held() const {
  if (done_) return 0;
  return num_items_ == 0 ? 1 : 1 - static_cast<double>(next_) / static_cast<double>(num_items_);
}

void write_floats(JsonWriter& json, std::span<const float> values) {
  json.begin_array();
  for (const float value : values) json.float32(value);
  json.end_array();
}

std::string base64_of(std::span<const float> values) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve(values.size() * 16 / 3 + 4);
  std::uint32_t bits = 0;
  int num_bits = 0;
  const auto put_byte = [&](std::uint32_t byte) {
    bits = bits << 8 | byte;
    for (num_bits += 8; num_bits >= 6; num_bits -= 6) out.push_back(kDigits[bits >> (num_bits - 6) & 63]);
  };
  for (const float value : values) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) put_byte(word >> shift & 255);
  }
  if (num_bits > 0) out.push_back(kDigits[bits << (6 - num_bits) & 63]);
  while (out.size() % 4 != 0) out.push_back('=');
  return out;
}

}  // namespace pagoda
