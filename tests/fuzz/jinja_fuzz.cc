// Any bytes as a chat template: parsing and rendering must end, within the limits, without a fault.
// links: text
// What comes before a NUL is the template, what follows is the context as JSON; without one a small chat is.
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "text/chat_template.h"

namespace {

constexpr std::string_view kContext =
    R"({"messages":[{"role":"user","content":"hi <b>"},{"role":"assistant","content":"yo\n"}],)"
    R"("tools":[{"name":"f","parameters":{"x":[1,2.5,null,true]}}],"add_generation_prompt":true,"n":3,"bos_token":"<s>"})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t nul = input.find('\0');
  pagoda::TemplateOptions options;
  options.now_unix_seconds = 0;
  options.limits.max_steps = 20'000;
  options.limits.max_output_bytes = 1 << 16;
  options.trim_blocks = options.lstrip_blocks = size % 2 == 0;
  const auto parsed = pagoda::ChatTemplate::parse(std::string(input.substr(0, nul)), options);
  if (!parsed) return 0;
  boost::json::error_code error;
  boost::json::value context =
      boost::json::parse(nul == std::string_view::npos ? kContext : input.substr(nul + 1), error);
  if (error || !context.is_object()) return 0;
  const auto prompt = parsed.value().render(context.get_object());
  if (!prompt) return 0;
  std::size_t done = 0;
  for (const pagoda::ByteRange& range : prompt->user_ranges) {
    CHECK(range.begin >= done && range.begin < range.end && range.end <= prompt->text.size());
    done = range.end + 1;  // ascending, disjoint, merged
  }
  return 0;
}
