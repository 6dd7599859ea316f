// Any text as config.json and generation_config.json, and as a safetensors index.
// links: models loader
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "loader/hf_source.h"
#include "loader/model_files.h"
#include "models/read_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const pagoda::Result<pagoda::ModelInfo> config = pagoda::read_config_json(text, text);
  if (!config && config.error().message().find('\n') != std::string::npos) std::abort();
  if (config && (config->decoder.num_layers() < 1 || config->decoder.vocab_size < 1)) std::abort();
  (void)pagoda::architecture_of_config_json(text);
  if (const auto index = pagoda::parse_safetensors_index(text)) {
    for (const auto& [tensor, shard] : *index) {
      if (!pagoda::plain_file_name(shard)) std::abort();
    }
  }
  return 0;
}
