#pragma once
// Names that people type for a model of the hub -> "ORG/NAME[@REV][:TAG]": short names in Ollama's form (a
// table), names that the hub's pages show for other programs, and the pages' addresses. Reads text only.
// Threads: any.
#include <span>
#include <string>
#include <string_view>

namespace pagoda {

struct ShortName {
  std::string_view name, size;  // "qwen3", "8b": the first row of a name is the one without a size
  std::string_view repository;  // ORG/NAME, with a tag where it has several models
};

std::span<const ShortName> short_names();

// "qwen3:8b" and "qwen3:8b-q8_0" by the table, "hf.co/ORG/NAME:TAG", "https://huggingface.co/ORG/NAME",
// ".../tree/REV", ".../resolve/REV/FILE" and ".../blob/REV/FILE". Anything else as it is.
std::string full_name(std::string_view text);

}  // namespace pagoda
