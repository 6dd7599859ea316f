// The key file: any text gives entries or one line without a secret, and an entry can be added or not.
// links: server
#include <cstdint>
#include <cstdlib>
#include <string>

#include "server/keys/key_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 4096) return 0;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto keys = pagoda::parse_key_file(text, "f");
  if (!keys) {
    for (const char c : keys.error().message())
      if (c == '\n') std::abort();
    return 0;
  }
  for (const pagoda::KeyEntry& entry : *keys)
    if (!pagoda::is_key_name(entry.name) || entry.digests.empty() || entry.weight < 1) std::abort();
  pagoda::KeyEntry more;
  more.name = "one-more";
  more.digests = {pagoda::digest_of_key("k")};
  const auto longer = pagoda::with_new_key(text, "f", more);
  if (longer && pagoda::parse_key_file(*longer, "f")->size() != keys->size() + 1) std::abort();
  return 0;
}
