#include "text/chat_template.h"

#include <mutex>
#include <new>
#include <utility>

#include "base/strings.h"
#include "base/thread_cpu_clock.h"
#include "base/utf8.h"
#include "jinja/filters.h"
#include "jinja/lexer.h"
#include "jinja/parser.h"
#include "jinja/render.h"
#include "jinja/scope.h"
#include "jinja/tests.h"

namespace pagoda {

struct ChatTemplate::Program {
  std::string source;
  TemplateOptions options;
  jinja::TemplateCode code;
  std::once_flag probed;
  TemplateTraits traits;
};

namespace {

// The template's own message if it raised the error; otherwise the cause and its location.
Status to_status(const jinja::TemplateError& error) {
  if (error.kind() == jinja::ErrorKind::raised) return invalid_argument(error.message());
  std::string where = error.line() > 0 ? " (line " + std::to_string(error.line()) + ")" : "";
  return invalid_argument("chat template: " + error.message() + where);
}

}  // namespace

ChatTemplate::ChatTemplate() : program_(std::make_unique<Program>()) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

const std::string& ChatTemplate::source() const { return program_->source; }

const TemplateTraits& ChatTemplate::traits() const {
  std::call_once(program_->probed, [this] { program_->traits = probe_template(*this); });
  return program_->traits;
}

bool ChatTemplate::shows_role(std::string_view role) const {
  const std::string_view name = role.substr(0, role.find(' '));
  if (name.empty()) return false;
  for (const char quote : {'\'', '"'})
    if (source().find(concat(quote, name, quote)) != std::string::npos) return true;
  return traits().other_roles;
}

TemplateOptions timed_template_options() {
  TemplateOptions out;
  out.clock = std::make_shared<ThreadCpuClock>();
  out.limits.max_time = 200'000'000;
  return out;
}

Result<ChatTemplate> ChatTemplate::parse(std::string source, TemplateOptions options) {
  ChatTemplate result;
  Program& program = *result.program_;
  program.source = std::move(source);
  program.source.erase(0, program.source.size() - without_byte_order_mark(program.source).size());
  program.options = std::move(options);
  try {
    program.code = jinja::parse(
        jinja::tokenize(program.source, {program.options.trim_blocks, program.options.lstrip_blocks}),
        3 * program.options.limits.max_depth);  // a bracket takes two or three levels of the grammar
    jinja::resolve_names(program.code, {jinja::is_filter, jinja::is_test});
  } catch (const jinja::TemplateError& error) {
    return to_status(error);
  }
  return result;
}

Result<RenderedText> ChatTemplate::render(const boost::json::object& context) const {
  try {
    return jinja::Render(program_->code, program_->options).run(context);
  } catch (const jinja::TemplateError& error) {
    return to_status(error);
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::resource_exhausted, "chat template: out of memory");
  }
}

}  // namespace pagoda
