#include "tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/strings.h"
#include "base/utf8.h"

namespace pagoda {
namespace {

// Limit on backtracking for one match. Ordinary patterns stay far below.
constexpr std::uint32_t kMatchLimit = 200'000'000;
constexpr std::size_t kMaxJitStackBytes = std::size_t{8} << 20;

// Memory for matching; one per thread, made at first use.
struct MatchState {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 << 10, kMaxJitStackBytes, nullptr);
  MatchState() {
    if (!data || !context) return;
    pcre2_set_match_limit(context, kMatchLimit);
    if (stack) pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~MatchState() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
  MatchState(const MatchState&) = delete;
  MatchState& operator=(const MatchState&) = delete;
};

}  // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  bool jit = false;
  ~Code() { pcre2_code_free(code); }
};

Regex::Regex(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Result<Regex> Regex::compile(std::string_view pattern) {
  if (pattern.size() > 100'000 || !is_valid_utf8(pattern))
    return invalid_argument("regular expression: it is too long or not UTF-8");
  Result<std::string> rewritten = rewrite_for_pcre2(pattern);
  if (!rewritten) return rewritten.error().annotate(concat("in '", pattern, "'"));
  auto code = std::make_unique<Code>();
  int number = 0;
  PCRE2_SIZE offset = 0;
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(rewritten->data()), rewritten->size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &number,
                             &offset, nullptr);
  if (!code->code) {
    char message[160] = {};
    pcre2_get_error_message(number, reinterpret_cast<PCRE2_UCHAR*>(message), sizeof message);
    return invalid_argument(
        concat("regular expression '", pattern, "': ", static_cast<const char*>(message)));
  }
  code->jit = pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE) == 0;
  return Regex(std::move(code));
}

Result<Regex> Regex::literal(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain =
        byte >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!plain && c != '\n' && c != '\t' && c != '\r' && byte >= 0x20 && byte != 0x7F) pattern += '\\';
    pattern += c;
  }
  return compile(pattern);
}

Regex::Match Regex::find(std::string_view text, std::size_t start, std::size_t& match_begin,
                         std::size_t& match_end) const {
  thread_local const MatchState state;
  if (!state.data || !state.context) return Match::failed;
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data() ? text.data() : "");
  const int result = code_->jit && state.stack ? pcre2_jit_match(code_->code, subject, text.size(), start, 0,
                                                                 state.data, state.context)
                                               : pcre2_match(code_->code, subject, text.size(), start,
                                                             PCRE2_NO_UTF_CHECK, state.data, state.context);
  if (result == PCRE2_ERROR_NOMATCH) return Match::none;
  if (result < 0) return Match::failed;
  const PCRE2_SIZE* ovector = pcre2_get_ovector_pointer(state.data);
  match_begin = ovector[0];
  match_end = ovector[1];
  if (match_end < match_begin || match_begin < start) return Match::failed;  // \K in a look-ahead
  return Match::found;
}

std::size_t Regex::after_character(std::string_view text, std::size_t at) {
  return at < text.size() ? at + utf8_length(text[at]) : at + 1;
}

}  // namespace pagoda
