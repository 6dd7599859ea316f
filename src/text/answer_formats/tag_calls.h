#pragma once
// TagFormat: formats with markup around each argument, whose calls stand between two markers, possibly inside
// a section. Each row of the table in tag_calls.cc describes one format; its body is parsed by a function in
// a separate file. A call is reported at its end marker; a truncated call is reported as far as it is
// complete. Threads: none.
#include <optional>
#include <string_view>

#include "text/answer_formats/tool_format.h"

namespace pagoda::answer {

struct TagCall {
  std::string name;
  boost::json::object arguments;
};

struct BodyContext {
  const ToolTypes& tools;
  bool cut;  // the body is truncated
};
// Parses the text between a call's markers; nullopt if it is not a call. A truncated argument is omitted.
using ReadBody = std::optional<TagCall> (*)(std::string_view body, const BodyContext& context);

std::optional<TagCall> read_qwen_xml(std::string_view body, const BodyContext& context);
std::optional<TagCall> read_step3p5(std::string_view body, const BodyContext& context);
std::optional<TagCall> read_glm(std::string_view body, const BodyContext& context);
std::optional<TagCall> read_poolside(std::string_view body, const BodyContext& context);
std::optional<TagCall> read_hunyuan_v3(std::string_view body, const BodyContext& context);
std::optional<TagCall> read_invoke(std::string_view body, const BodyContext& context);  // <parameter name=
std::optional<TagCall> read_dsml(std::string_view body,
                                 const BodyContext& context);  // <｜DSML｜parameter name=
std::optional<TagCall> read_steptml(std::string_view body,
                                    const BodyContext& context);  // <steptml:parameter name=
std::optional<TagCall> read_atem(std::string_view body, const BodyContext& context);  // <atem:parameter name=
std::optional<TagCall> read_minicpm5(std::string_view body, const BodyContext& context);  // <param name=
std::optional<TagCall> read_minimax_m3(std::string_view body, const BodyContext& context);
std::optional<TagCall> read_kimi_k3(std::string_view body, const BodyContext& context);
std::optional<TagCall> read_gemma4(std::string_view body, const BodyContext& context);
std::optional<TagCall> read_functiongemma(std::string_view body, const BodyContext& context);

// Converts bare text to the type in the tool's schema and adds it to the arguments. The later of two equal
// keys wins.
void add_argument(TagCall& call, std::string_view key, std::string_view text, const ToolTypes& tools,
                  ToolTypes::Reading reading = {false});

}  // namespace pagoda::answer
