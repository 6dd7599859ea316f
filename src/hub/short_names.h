#pragma once
// Expands the names that users type for a model of the hub to "ORG/NAME[@REV][:TAG]": short names in Ollama's
// form (a table), names that the hub's pages show for other programs, and addresses of these pages. Only
// processes text.
// Threads: any.
#include <span>
#include <string>
#include <string_view>

namespace pagoda {

struct ShortName {
  std::string_view name, size;  // "qwen3", "8b"; the first row of a name is its default size
  std::string_view repository;  // ORG/NAME, with a tag if the repository has several models
};

std::span<const ShortName> short_names();

// Expands "qwen3:8b" and "qwen3:8b-q8_0" (by the table), "hf.co/ORG/NAME:TAG",
// "https://huggingface.co/ORG/NAME", ".../tree/REV", ".../resolve/REV/FILE" and ".../blob/REV/FILE". Returns
// any other text unchanged.
std::string full_name(std::string_view text);

}  // namespace pagoda
