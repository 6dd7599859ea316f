#include "api/fill_in_middle.h"

#include <optional>

#include "api/prompt_limits.h"
#include "base/strings.h"

namespace pagoda {
namespace {

struct Markers {
  std::string_view prefix, suffix, middle;
  bool suffix_first = false;  // the suffix precedes the prefix
};
constexpr Markers kKnown[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
    {"\xe2\x96\x81<PRE>", "\xe2\x96\x81<SUF>", "\xe2\x96\x81<MID>"},
    {"<\xef\xbd\x9c"
     "fim\xe2\x96\x81"
     "begin\xef\xbd\x9c>",
     "<\xef\xbd\x9c"
     "fim\xe2\x96\x81"
     "hole\xef\xbd\x9c>",
     "<\xef\xbd\x9c"
     "fim\xe2\x96\x81"
     "end\xef\xbd\x9c>"},
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},
    {"[PREFIX]", "[SUFFIX]", "[MIDDLE]", true},
};

struct MarkerIds {
  TokenId prefix, suffix;
  std::optional<TokenId> middle;
  bool suffix_first;
};

std::optional<MarkerIds> find_markers(const Tokenizer& tokenizer) {
  for (const Markers& known : kKnown) {
    const auto prefix = tokenizer.find(known.prefix), suffix = tokenizer.find(known.suffix);
    const auto middle = tokenizer.find(known.middle);
    // Codestral's order needs no middle token.
    if (prefix && suffix && (middle || known.suffix_first))
      return MarkerIds{.prefix = *prefix,
                       .suffix = *suffix,
                       .middle = known.suffix_first ? std::nullopt : middle,
                       .suffix_first = known.suffix_first};
  }
  return std::nullopt;
}

}  // namespace

bool fills_in_middle(const Tokenizer& tokenizer) { return find_markers(tokenizer).has_value(); }

Result<std::vector<TokenId>> fill_in_middle_tokens(const ApiContext& context, std::string_view param,
                                                   std::string_view before, std::string_view after) {
  const Tokenizer& tokenizer = *context.tokenizer;
  const std::optional<MarkerIds> markers = find_markers(tokenizer);
  if (!markers)
    return unimplemented(
               concat("'", param,
                      "' is not supported: this model's tokenizer has no tokens for filling in the middle."))
        .with_param(std::string(param))
        .with_reason("unsupported_parameter");
  if (exceeds_byte_bound(context, before.size() + after.size()))
    return context_length_exceeded(context, param, "Your texts are longer than that; please shorten them.");
  EncodeOptions plain;
  plain.parse_special = false;
  plain.add_special_tokens = false;
  const Result<std::vector<TokenId>> first = tokenizer.encode(before, plain),
                                     second = tokenizer.encode(after, plain);
  EncodeOptions empty;
  empty.add_special_tokens = true;
  const Result<std::vector<TokenId>> begin = tokenizer.encode("", empty);
  if (!first || !second || !begin)
    return invalid_argument(concat("'", param, "' cannot be tokenized.")).with_param(std::string(param));
  std::vector<TokenId> out;
  if (!begin->empty() && begin->front() == tokenizer.bos()) out.push_back(tokenizer.bos());
  const auto add = [&out](TokenId marker, const std::vector<TokenId>& text) {
    out.push_back(marker);
    out.insert(out.end(), text.begin(), text.end());
  };
  if (markers->suffix_first) {
    add(markers->suffix, *second);
    add(markers->prefix, *first);
  } else {
    add(markers->prefix, *first);
    add(markers->suffix, *second);
  }
  if (markers->middle) out.push_back(*markers->middle);
  return out;
}

}  // namespace pagoda
