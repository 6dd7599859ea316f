// Any bytes as the body of a server's answer, whole and in pieces: the load generator reads the same.
// links: load
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "load/answer_reader.h"

namespace {
pagoda::RequestOutcome read(std::string_view bytes, bool stream, std::size_t piece) {
  pagoda::AnswerReader reader(0, pagoda::AnswerReader::Texts::keep);
  reader.head(200, stream);
  for (std::size_t at = 0; at < bytes.size(); at += piece)
    if (!reader.body(1'000'000, bytes.substr(at, piece))) break;
  return reader.finish(7, "");
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool stream = data[0] % 2 == 0;
  const pagoda::RequestOutcome whole = read(bytes, stream, size);
  const pagoda::RequestOutcome pieces = read(bytes, stream, 1 + data[0] / 32);
  if (whole.error != pieces.error || whole.text != pieces.text || whole.itl_s.size() != pieces.itl_s.size() ||
      whole.output_tokens != pieces.output_tokens || whole.prompt_tokens != pieces.prompt_tokens)
    std::abort();
  if (whole.ok() && whole.output_tokens < 1) std::abort();
  return 0;
}
