// GrammarBackend on XGrammar: the only file that includes it. Its exceptions are caught here.
#include "base/assign_or_return.h"
#include "constraint/grammar_backend.h"

#ifndef PAGODA_XGRAMMAR

namespace pagoda {

std::shared_ptr<const GrammarBackend> make_xgrammar_backend(const Tokenizer&, std::int32_t,
                                                            std::vector<TokenId>) {
  return nullptr;
}

}  // namespace pagoda

#else

#include <xgrammar/inside.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>

#include "base/check.h"
#include "base/log.h"
#include "base/strings.h"
#include "constraint/grammar_text.h"
#include "constraint/json_string_grammar.h"
#include "constraint/schema_check.h"

namespace pagoda {

namespace {

constexpr std::size_t kMaxProblemBytes = 300;
constexpr std::int64_t kMaxWork = 30'000'000;  // units of xgrammar/work.h: one to three seconds
constexpr PatternChecks kPatterns = {.holds = xgrammar_holds_pattern, .matches = xgrammar_matches};
constexpr std::size_t kMaxVocabularies = 4;
constexpr std::size_t kSharedBytes = std::size_t{16} << 20;  // masks of rules, per vocabulary

class XgrammarConstraint final : public TokenConstraint {
 public:
  XgrammarConstraint(xgrammar::GrammarMatcher matcher, std::int32_t vocab_size)
      : matcher_(std::move(matcher)), vocab_size_(vocab_size) {}

  bool fill_mask(std::span<MaskWord> mask) override {
    std::ranges::fill(mask, 0);
    if (matcher_.IsTerminated()) return true;
    std::int64_t shape = xgrammar::GetBitmaskSize(vocab_size_);
    CHECK(static_cast<std::size_t>(shape) <= mask.size());
    DLTensor tensor{.data = mask.data(),
                    .device = {kDLCPU, 0},
                    .ndim = 1,
                    .dtype = xgrammar::GetBitmaskDLType(),
                    .shape = &shape,
                    .strides = nullptr,
                    .byte_offset = 0};
    try {
      (void)matcher_.FillNextTokenBitmask(&tensor);
    } catch (const std::exception&) {
      std::ranges::fill(mask, 0);
    }
    const auto last = static_cast<std::uint32_t>(vocab_size_) % 32;
    if (last != 0) mask[static_cast<std::size_t>(shape) - 1] &= (MaskWord{1} << last) - 1;
    return std::ranges::any_of(mask, [](MaskWord word) { return word != 0; });
  }
  bool advance(TokenId token) override {
    if (token < 0 || token >= vocab_size_ || matcher_.IsTerminated()) return false;
    try {
      if (!matcher_.AcceptToken(token)) return false;
    } catch (const std::exception&) {
      return false;
    }
    return true;
  }
  void rollback(std::int32_t count) override {
    if (count > 0) matcher_.Rollback(count);
  }
  std::unique_ptr<TokenConstraint> fork() const override {
    return std::make_unique<XgrammarConstraint>(matcher_.Fork(), vocab_size_);
  }
  bool is_terminated() const override { return matcher_.IsTerminated(); }

 private:
  xgrammar::GrammarMatcher matcher_;
  std::int32_t vocab_size_;
};

class XgrammarFactory final : public TokenConstraintFactory {
 public:
  XgrammarFactory(xgrammar::CompiledGrammar grammar, std::int32_t vocab_size)
      : grammar_(std::move(grammar)), vocab_size_(vocab_size) {}
  std::unique_ptr<TokenConstraint> make() const override {
    return std::make_unique<XgrammarConstraint>(xgrammar::GrammarMatcher(grammar_), vocab_size_);
  }

 private:
  xgrammar::CompiledGrammar grammar_;
  std::int32_t vocab_size_;
};

// A schema with the features that most schemas use.
constexpr const char* kUsual =
    R"({"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"},"c":{"type":"number"},
    "d":{"type":"boolean"},"e":{"type":"array","items":{"type":"string"}},"f":{"type":["string","null"]},
    "g":{"type":"string","maxLength":9}},
    "required":["a","b"],"additionalProperties":false})";

// XGrammar's fall-back is of no interest to users.
constexpr std::string_view kOneOf = "oneOf with overlapping";

// Shortens a message to one printable line: it contains client input and is returned to the client.
std::string problem(std::string_view message) {
  if (message.starts_with("Check failed: ")) {
    const std::size_t end = message.find(") is false: ");
    if (end != std::string_view::npos) message.remove_prefix(end + 12);
  }
  if (message.starts_with(kOneOf))
    return "the schema has 'oneOf' whose cases are not known to exclude each other, which is not supported";
  std::string out;
  for (const char c : message.substr(0, kMaxProblemBytes))
    out.push_back(static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f ? ' ' : c);
  while (!out.empty() && (out.back() == ' ' || out.back() == '.')) out.pop_back();
  return out.empty() ? "it cannot be compiled" : out;
}

// Collects the tokens that a structural tag names by id.
void collect_tokens(const boost::json::value& part, std::vector<TokenId>& out) {
  if (const boost::json::array* list = part.if_array())
    for (const boost::json::value& one : *list) collect_tokens(one, out);
  const boost::json::object* object = part.if_object();
  if (object == nullptr) return;
  const boost::json::value* type = object->if_contains("type");
  const boost::json::value* token = object->if_contains("token");
  if (type != nullptr && *type == "token" && token != nullptr && token->is_int64() &&
      token->get_int64() >= 0 && token->get_int64() < std::numeric_limits<TokenId>::max())
    out.push_back(static_cast<TokenId>(token->get_int64()));
  for (const auto& entry : *object) collect_tokens(entry.value(), out);
}
std::vector<TokenId> said_tokens(std::string_view tag) {
  std::vector<TokenId> out;
  if (const Result<boost::json::value> parsed = parse_grammar_json(tag, kMaxTagBytes))
    collect_tokens(*parsed, out);
  std::ranges::sort(out);
  const auto [first, last] = std::ranges::unique(out);
  out.erase(first, last);
  return out;
}

std::string join(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

// {"type": "json_string", "syntax": "lark" | "regex", "grammar": …} is a text of that grammar, escaped for a
// JSON string.
Result<boost::json::value> json_string(const boost::json::object& part) {
  const boost::json::value* grammar = part.if_contains("grammar");
  const boost::json::value* syntax = part.if_contains("syntax");
  if (grammar == nullptr || !grammar->is_string()) return invalid_argument("a json_string needs a grammar");
  const std::string text(grammar->as_string());
  const bool regex = syntax != nullptr && *syntax == "regex";
  const boost::json::value* tool = part.if_contains("tool");
  const auto refused = [&](std::string_view why) {
    if (tool == nullptr || !tool->is_string()) return invalid_argument(std::string(why));
    return invalid_argument(
        concat("the grammar of the tool '", std::string_view(tool->as_string()), "': ", why));
  };
  try {
    const xgrammar::Grammar parsed =
        regex ? xgrammar::Grammar::FromRegex(text) : xgrammar::Grammar::FromLark(text);
    const Result<std::string> inside = json_string_grammar(parsed.ToString());
    if (!inside) return refused(inside.error().message());
    return boost::json::value{{"type", "grammar"}, {"grammar", *inside}};
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::length_error&) {  // the bound on compilation work was reached
    throw;
  } catch (const std::exception& error) {
    return refused(problem(error.what()));
  }
}
Status expand_json_strings(boost::json::value& part) {
  if (boost::json::array* list = part.if_array())
    for (boost::json::value& one : *list) PAGODA_RETURN_IF_ERROR(expand_json_strings(one));
  boost::json::object* object = part.if_object();
  if (object == nullptr) return ok_status();
  const boost::json::value* type = object->if_contains("type");
  if (type != nullptr && *type == "json_string") {
    PAGODA_ASSIGN_OR_RETURN(part, json_string(*object));
    return ok_status();
  }
  for (auto& entry : *object)
    if (entry.key() != "json_schema") PAGODA_RETURN_IF_ERROR(expand_json_strings(entry.value()));
  return ok_status();
}
Result<std::string> with_json_strings(const std::string& tag) {
  if (tag.find("\"json_string\"") == std::string::npos) return tag;
  PAGODA_ASSIGN_OR_RETURN(boost::json::value parsed, parse_grammar_json(tag, kMaxTagBytes));
  PAGODA_RETURN_IF_ERROR(expand_json_strings(parsed));
  return boost::json::serialize(parsed);
}

Result<CompiledConstraint> without(std::vector<std::string> left_out, CompiledConstraint compiled) {
  constexpr std::size_t kMaxNamed = 20;
  if (left_out.size() > kMaxNamed) left_out.resize(kMaxNamed);
  for (std::string& part : left_out) part = problem(part);
  if (!left_out.empty())
    log_warning("constraint", concat("parts of schemas are not enforced: ", problem(join(left_out))));
  compiled.left_out = std::move(left_out);
  return compiled;
}

class XgrammarBackend final : public GrammarBackend {
 public:
  XgrammarBackend(const Tokenizer& tokenizer, std::int32_t vocab_size, std::vector<TokenId> stop_tokens)
      : tokenizer_(tokenizer), vocab_size_(vocab_size), stop_tokens_(std::move(stop_tokens)) {}

  Result<CompiledConstraint> compile(const GrammarSpec& spec,
                                     const std::atomic<bool>* given_up) const override {
    std::string warning;
    xgrammar_warning = &warning;
    const XgrammarWork work(kMaxWork, given_up);
    Result<CompiledConstraint> compiled = invalid_argument("");
    try {
      compiled = compile_checked(spec);
    } catch (const std::bad_alloc&) {
      compiled = resource_exhausted("There is not enough memory to compile this grammar.");
    } catch (const std::exception& error) {
      compiled = invalid_argument(problem(error.what()));
    }
    xgrammar_warning = nullptr;
    if (compiled && !warning.empty()) return invalid_argument(problem(warning));
    return compiled;
  }
  void warm_up() const override {
    (void)compile({.kind = GrammarSpec::Kind::json_schema, .text = kUsual}, nullptr);
    (void)compile({.kind = GrammarSpec::Kind::json_object}, nullptr);
  }
  std::int64_t live_shared_bytes() const override { return xgrammar_live_shared_bytes(); }

 private:
  Result<CompiledConstraint> compile_checked(const GrammarSpec& spec) const {
    const std::shared_ptr<const XgrammarCompiler> compiler = vocabulary(spec);
    const auto whole = [this](xgrammar::CompiledGrammar grammar) {
      const auto bytes = static_cast<std::int64_t>(grammar.MemorySizeBytes());
      const std::int64_t shared = xgrammar_shareable_bytes(grammar);
      return CompiledConstraint{std::make_shared<XgrammarFactory>(std::move(grammar), vocab_size_),
                                bytes - shared, shared};
    };
    const auto by_schema = [&](const boost::json::value& schema) {
      return whole(compiler->json_schema(boost::json::serialize(schema), spec.compact ? 0 : kMaxWhiteSpace));
    };
    switch (spec.kind) {
      case GrammarSpec::Kind::json_object:
        return by_schema({{"type", "object"}, {"additionalProperties", true}});
      case GrammarSpec::Kind::json_schema: {
        PAGODA_ASSIGN_OR_RETURN(const boost::json::value schema, parse_grammar_json(spec.text));
        std::vector<std::string> dropped;
        const Result<boost::json::value> prepared =
            spec.most ? prepare_most(schema, kPatterns, dropped) : prepare_schema(schema, kPatterns);
        if (!prepared) return prepared.error();
        return without(std::move(dropped), by_schema(*prepared));
      }
      case GrammarSpec::Kind::regex:
        return whole(compiler->regex(spec.text));
      case GrammarSpec::Kind::choice: {
        PAGODA_ASSIGN_OR_RETURN(const std::string grammar, choice_grammar(spec.text));
        return whole(compiler->ebnf(grammar));
      }
      case GrammarSpec::Kind::grammar:
        return whole(is_lark(spec.text) ? compiler->lark(plain_lark(spec.text)) : compiler->ebnf(spec.text));
      case GrammarSpec::Kind::structural_tag: {
        std::vector<std::string> dropped;
        PAGODA_ASSIGN_OR_RETURN(const std::string tag,
                                prepare_structural_tag(spec.text, kPatterns, &dropped));
        PAGODA_ASSIGN_OR_RETURN(const std::string expanded, with_json_strings(tag));
        return without(std::move(dropped), whole(compiler->structural_tag(expanded)));
      }
    }
    return internal_error("unknown kind of grammar");
  }

  // The tokens' bytes as they appear in text; for special tokens, only those that the grammar names. Created
  // on first use: takes about 30 ms.
  std::shared_ptr<const XgrammarCompiler> vocabulary(const GrammarSpec& spec) const {
    const TokenId count = std::min(vocab_size_, tokenizer_.vocab_size());
    std::lock_guard lock(mutex_);
    if (special_.empty())
      for (TokenId id = 0; id < count; ++id)
        if (tokenizer_.is_special(id)) special_.emplace_back(id, tokenizer_.token_bytes(id));
    std::vector<TokenId> named, said;
    if (spec.kind == GrammarSpec::Kind::structural_tag) said = said_tokens(spec.text);
    for (const auto& [id, text] : special_)
      if (spec.special_tokens && !text.empty() && spec.text.find(text) != std::string::npos)
        named.push_back(id);
    std::erase_if(said, [&](TokenId id) {
      return id < 0 || id >= count || !tokenizer_.is_special(id) || std::ranges::binary_search(named, id);
    });
    for (auto known = made_.begin(); known != made_.end(); ++known) {
      if (known->special != named || known->said != said) continue;
      std::rotate(made_.begin(), known, known + 1);
      return made_.front().compiler;
    }
    std::vector<std::string> tokens(static_cast<std::size_t>(count));
    for (TokenId id = 0; id < count; ++id)
      if (!tokenizer_.is_special(id) || std::ranges::binary_search(named, id))
        tokens[static_cast<std::size_t>(id)] = tokenizer_.token_bytes(id);
    // No text contains this byte: only the grammar's own name for the token permits it.
    for (const TokenId id : said)
      tokens[static_cast<std::size_t>(id)] = concat("\xff", tokenizer_.token_bytes(id));
    std::vector<std::int32_t> stops;
    for (const TokenId id : stop_tokens_)
      if (std::cmp_less(id, tokens.size())) stops.push_back(id);
    const xgrammar::TokenizerInfo info(tokens, xgrammar::VocabType::RAW, vocab_size_, stops);
    made_.insert(made_.begin(), {named, said, std::make_shared<const XgrammarCompiler>(info, kSharedBytes)});
    if (made_.size() > kMaxVocabularies) made_.pop_back();
    return made_.front().compiler;
  }

  const Tokenizer& tokenizer_;
  const std::int32_t vocab_size_;
  const std::vector<TokenId> stop_tokens_;
  mutable std::mutex mutex_;
  struct Vocabulary {
    std::vector<TokenId> special;  // permitted by a text that spells them
    std::vector<TokenId> said;     // permitted by their ids
    std::shared_ptr<const XgrammarCompiler> compiler;
  };
  mutable std::vector<Vocabulary> made_;  // most recently used first
  mutable std::vector<std::pair<TokenId, std::string> > special_;
};

}  // namespace

std::shared_ptr<const GrammarBackend> make_xgrammar_backend(const Tokenizer& tokenizer,
                                                            std::int32_t vocab_size,
                                                            std::vector<TokenId> stop_tokens) {
  return std::make_shared<XgrammarBackend>(tokenizer, vocab_size, std::move(stop_tokens));
}

}  // namespace pagoda

#endif
