#include "tokenizer/pipeline_tokenizer.h"

#include <algorithm>

#include "base/assign_or_return.h"
#include "base/utf8.h"
#include "tokenizer/byte_level.h"

namespace pagoda {

PipelineTokenizer::PipelineTokenizer(TokenizerParts parts) : parts_(std::move(parts)) {
  vocab_size_ = parts_.vocabulary->end_id();
  for (const AddedToken& token : parts_.added.tokens()) vocab_size_ = std::max(vocab_size_, token.id + 1);
  special_.resize(static_cast<std::size_t>(vocab_size_));
  for (const AddedToken& token : parts_.added.tokens()) {
    if (!token.special) continue;
    if (token.id >= 0) special_[static_cast<std::size_t>(token.id)] = true;
    if (const auto id = parts_.vocabulary->find(token.content))
      special_[static_cast<std::size_t>(*id)] = true;
  }
}

// One call of encode().
class PipelineTokenizer::Encoding final : public PieceSink {
 public:
  Encoding(const TokenizerParts& parts, const EncodeOptions& options, std::vector<TokenId>& ids)
      : parts_(parts), options_(options), ids_(ids) {}

  Status run(std::string_view text) {
    Status status;
    if (!options_.parse_special || parts_.added.empty(false)) {
      if (!text.empty()) status = section(text, 0);
    } else {
      parts_.added.for_each_part(
          text, false, [&](std::size_t begin, std::size_t end) { return is_plain(begin, end); },
          [&](std::size_t begin, std::size_t end, const AddedToken* token) {
            if (token)
              ids_.push_back(token->id);
            else if (status.ok())
              status = section(text.substr(begin, end - begin), begin);
          });
    }
    if (!status.ok()) return status;
    if (!model_ok_)
      return invalid_argument("the vocabulary has no token for a part of this text, and no unknown token");
    return ok_status();
  }

  void piece(const Piece& piece) override { model_ok_ &= parts_.model->encode(piece.text, ids_); }

 private:
  // True if a plain range overlaps [begin, end) of the original text.
  bool is_plain(std::size_t begin, std::size_t end) const {
    const auto& ranges = options_.plain_ranges;
    auto it = std::partition_point(ranges.begin(), ranges.end(),
                                   [&](const ByteRange& range) { return range.end <= begin; });
    while (it != ranges.end() && it->begin < end && it->begin == it->end) ++it;  // skip empty ranges
    return it != ranges.end() && it->begin < end;
  }

  // Encodes ordinary text between tokens that were matched in the original text; `base` is its offset.
  Status section(std::string_view text, std::size_t base) {
    const bool parse = options_.parse_special && !parts_.added.empty(true);
    if (!parts_.normalizer) {
      if (!parse) return pre_tokenize({text, base == 0});
      return matched_parts(
          text, [&](std::size_t begin, std::size_t end) { return is_plain(base + begin, base + end); },
          [&](std::size_t begin) { return base == 0 && begin == 0; });
    }
    NormalizedText normalized =
        NormalizedText::of(text, parts_.needs_origins || (parse && !options_.plain_ranges.empty()));
    PAGODA_RETURN_IF_ERROR(parts_.normalizer->apply(normalized));
    const auto at_origin = [&](std::size_t begin) {
      return base == 0 && (normalized.tracked ? normalized.origins[begin] == 0 : begin == 0);
    };
    const std::string_view in = normalized.text;
    if (!parse) return in.empty() ? ok_status() : pre_tokenize({in, at_origin(0)});
    return matched_parts(
        in,
        [&](std::size_t begin, std::size_t end) {
          return !options_.plain_ranges.empty() &&
                 is_plain(base + normalized.origins[begin], base + normalized.origins[end - 1] + 1);
        },
        at_origin);
  }

  template <class IsPlain, class AtOrigin>
  Status matched_parts(std::string_view text, const IsPlain& is_plain, const AtOrigin& at_origin) {
    Status status;
    parts_.added.for_each_part(text, true, is_plain,
                               [&](std::size_t begin, std::size_t end, const AddedToken* token) {
                                 if (token)
                                   ids_.push_back(token->id);
                                 else if (status.ok())
                                   status = pre_tokenize({text.substr(begin, end - begin), at_origin(begin)});
                               });
    return status;
  }

  Status pre_tokenize(const Piece& text) {
    if (!parts_.pre_tokenizer) {
      piece(text);
      return ok_status();
    }
    if (parts_.pre_tokenizer->split(text, *this)) return ok_status();
    return invalid_argument("the tokenizer's pattern needs too much backtracking on this text");
  }

  const TokenizerParts& parts_;
  const EncodeOptions& options_;
  std::vector<TokenId>& ids_;
  bool model_ok_ = true;
};

Result<std::vector<TokenId>> PipelineTokenizer::encode(std::string_view text,
                                                       const EncodeOptions& options) const {
  if (text.size() >= std::size_t{1} << 31) return invalid_argument("the text is longer than 2 GiB");
  if (!is_valid_utf8(text)) return invalid_argument("the text is not valid UTF-8");
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 4 + 4);
  if (Status status = Encoding(parts_, options, ids).run(text); !status.ok()) return status;
  if (options.add_special_tokens) parts_.post_processor.apply(ids);
  return ids;
}

Result<EncodedPair> PipelineTokenizer::encode_pair(std::string_view first, std::string_view second) const {
  PAGODA_ASSIGN_OR_RETURN(std::vector<TokenId> ids, encode(first, {}));
  PAGODA_ASSIGN_OR_RETURN(std::vector<TokenId> more, encode(second, {}));
  EncodedPair pair{.ids = std::move(ids)};
  pair.second = static_cast<std::int32_t>(parts_.post_processor.apply_pair(pair.ids, std::move(more)));
  return pair;
}

std::string_view PipelineTokenizer::decode_spelling(TokenId id) const {
  if (const AddedToken* token = parts_.added.find(id)) return token->normalized_content;
  return parts_.vocabulary->token(id);
}

class PipelineTokenizer::Stream final : public TokenTextStream {
 public:
  Stream(const PipelineTokenizer& tokenizer, bool skip_special_tokens)
      : tokenizer_(tokenizer),
        skip_special_tokens_(skip_special_tokens),
        stream_(tokenizer.parts_.decoder, {}) {}
  void push(TokenId id, std::string& out) override {
    if (!tokenizer_.exists(id) || (skip_special_tokens_ && tokenizer_.is_special(id))) return;
    stream_.push(tokenizer_.decode_spelling(id), out);
  }
  void finish(std::string& out) override { stream_.finish(out); }
  void settle(std::string& out) override { stream_.settle(out); }

 private:
  const PipelineTokenizer& tokenizer_;
  bool skip_special_tokens_;
  DecodeStream stream_;
};

std::unique_ptr<TokenTextStream> PipelineTokenizer::text_stream(bool skip_special_tokens) const {
  return std::make_unique<Stream>(*this, skip_special_tokens);
}

std::string PipelineTokenizer::decode(std::span<const TokenId> ids, bool skip_special_tokens) const {
  std::string out;
  Stream stream(*this, skip_special_tokens);
  for (const TokenId id : ids) stream.push(id, out);
  stream.finish(out);
  return out;
}

std::string PipelineTokenizer::token_string(TokenId id) const {
  if (const AddedToken* token = parts_.added.find(id)) return token->content;
  return std::string(parts_.vocabulary->token(id));
}

std::string PipelineTokenizer::token_bytes(TokenId id) const {
  if (!exists(id)) return {};
  const std::string_view spelling = decode_spelling(id);
  std::string out;
  if (parts_.bytes == TokenizerParts::Bytes::byte_level) {
    if (!append_from_byte_level(out, spelling)) out = spelling;
    return out;
  }
  if (parts_.bytes == TokenizerParts::Bytes::byte_fallback && spelling.size() == 6 &&
      spelling.starts_with("<0x")) {
    const auto hex = [](char c) {
      return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    };
    const int high = hex(spelling[3]), low = hex(spelling[4]);
    if (high >= 0 && low >= 0 && spelling[5] == '>')
      return std::string(1, static_cast<char>(high * 16 + low));
  }
  DecodeStream stream(parts_.decoder, {.at_start = false});
  stream.push(spelling, out);
  stream.finish(out);
  return out;
}

std::optional<TokenId> PipelineTokenizer::find(std::string_view token) const {
  if (const AddedToken* added = parts_.added.find(token)) return added->id;
  return parts_.vocabulary->find(token);
}

bool PipelineTokenizer::is_special(TokenId id) const {
  return id >= 0 && static_cast<std::size_t>(id) < special_.size() && special_[static_cast<std::size_t>(id)];
}

}  // namespace pagoda
