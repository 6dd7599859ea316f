// A kept answer's file: any bytes are one that is whole, or none; what is whole is as long as it says.
// links: api
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "api/answer_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto parsed = pagoda::parse_answer_file(bytes);
  if (parsed && parsed->answer.size() + parsed->conversation.size() > size) std::abort();
  return 0;
}
