#pragma once
// ChatTemplate: a model's Jinja chat template, rendered as `transformers` does (trim_blocks and
// lstrip_blocks on, its extra filters and globals), sandboxed: bounded steps, depth, output and time;
// no attribute reaches the host.
// Threads: any; render() is const and keeps its state on its own stack.
#include <boost/json/object.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "jinja/template_options.h"
#include "text/template_traits.h"

namespace pagoda {

// The options used by servers: a limit of 200 ms of the thread's CPU time.
TemplateOptions timed_template_options();

class ChatTemplate {
 public:
  static Result<ChatTemplate> parse(std::string source, TemplateOptions options = {});
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // invalid_argument, with the template's own text if it called raise_exception, or if a limit is reached.
  Result<RenderedText> render(const boost::json::object& context) const;

  const std::string& source() const;

  // True if the template shows messages of a role that is not one of OpenAI's: it accepts any role, or names
  // this one (Granite's "control", or "document" for "document {…}").
  bool shows_role(std::string_view role) const;

  // Which conversations the template shows completely. Determined on the first call, which may take up to 0.2
  // seconds.
  const TemplateTraits& traits() const;

 private:
  ChatTemplate();
  struct Program;
  std::unique_ptr<Program> program_;
};

}  // namespace pagoda
