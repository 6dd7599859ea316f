// Tokenizer::from_vocab_and_merges: a folder with vocab.json and merges.txt but no tokenizer.json. Neither
// file specifies how text is split into words or which tokens surround it: both follow from the class named
// by tokenizer_config.json. Source: transformers 5, models/*/tokenization_*.py.
#include <algorithm>
#include <array>
#include <boost/json.hpp>

#include "base/assign_or_return.h"
#include "base/log.h"
#include "base/strings.h"
#include "tokenizer/decode_steps.h"
#include "tokenizer/gguf_pre_tokenizers.h"
#include "tokenizer/json_components.h"
#include "tokenizer/json_vocabulary.h"
#include "tokenizer/side_files.h"

namespace pagoda {
namespace {

namespace json = boost::json;

enum class Cut { gpt2, digits, qwen2, qwen3_5, clip };  // digits: single digits, then GPT-2's
enum class Around {
  as_configured,  // BOS and EOS, if requested by add_bos_token and add_eos_token
  cls_sep,        // [CLS] text [SEP]; pairs have two [SEP] between them
  bos_eos,        // the same with BOS and EOS
  prompt_eos      // Whisper's prompt and EOS
};

struct TokenClass {
  std::array<std::string_view, 6> names;   // without "Tokenizer" and "TokenizerFast"
  std::array<std::string_view, 8> models;  // model_types with this class if none is named; "*": any suffix
  std::string_view own;  // the class's special tokens, unless tokenizer_config.json names others
  Cut cut = Cut::gpt2;
  bool composes = false;       // normalise to Unicode's NFC first
  bool leading_space = false;  // default for add_prefix_space
  Around around = Around::as_configured;
};

constexpr std::string_view kEndOfText =
    R"({"unk_token":"<|endoftext|>","bos_token":"<|endoftext|>","eos_token":"<|endoftext|>"})";
constexpr std::string_view kQwen =
    R"({"unk_token":"<|endoftext|>","eos_token":"<|endoftext|>","pad_token":"<|endoftext|>"})";
constexpr std::string_view kAngled =
    R"({"bos_token":"<s>","eos_token":"</s>","sep_token":"</s>","cls_token":"<s>","unk_token":"<unk>",
        "pad_token":"<pad>","mask_token":"<mask>"})";
constexpr std::string_view kAngledWithSpacedMask =
    R"({"bos_token":"<s>","eos_token":"</s>","sep_token":"</s>","cls_token":"<s>","unk_token":"<unk>",
        "pad_token":"<pad>","mask_token":{"content":"<mask>","lstrip":true}})";
constexpr std::string_view kBracketed =
    R"({"bos_token":"[CLS]","eos_token":"[SEP]","sep_token":"[SEP]","cls_token":"[CLS]","unk_token":"[UNK]",
        "pad_token":"[PAD]","mask_token":{"content":"[MASK]","lstrip":true}})";
constexpr std::string_view kNeoX =
    R"({"unk_token":"<|endoftext|>","bos_token":"<|endoftext|>","eos_token":"<|endoftext|>",
        "pad_token":"<|padding|>"})";
constexpr std::string_view kCohere =
    R"({"unk_token":"<UNK>","bos_token":"<BOS_TOKEN>","eos_token":"<|END_OF_TURN_TOKEN|>","pad_token":"<PAD>",
        "cls_token":"<CLS>","sep_token":"<SEP>","mask_token":"<MASK_TOKEN>"})";
constexpr std::string_view kClip =
    R"({"unk_token":"<|endoftext|>","bos_token":"<|startoftext|>","eos_token":"<|endoftext|>",
        "pad_token":"<|endoftext|>"})";

constexpr TokenClass kTokenClasses[] = {
    {.names = {"GPT2", "CodeGen"},
     .models = {"gpt2", "gpt_neo", "gptj", "opt", "phi", "starcoder2", "codegen"},
     .own = kEndOfText,
     .cut = Cut::gpt2},
    {.names = {"Qwen2"},
     .models = {"qwen2*", "qwen3", "qwen3_moe", "qwen3_next", "qwen3_vl*", "internvl"},
     .own = kQwen,
     .cut = Cut::qwen2,
     .composes = true},
    {.names = {"Qwen3_5"}, .models = {"qwen3_5*"}, .own = kQwen, .cut = Cut::qwen3_5, .composes = true},
    {.names = {"GPTNeoX"}, .models = {"gpt_neox"}, .own = kNeoX, .cut = Cut::gpt2, .composes = true},
    {.names = {"Cohere"},
     .models = {"cohere", "cohere2"},
     .own = kCohere,
     .cut = Cut::digits,
     .composes = true},
    {.names = {"Roberta", "Bart", "Longformer", "LED", "Mvp"},
     .models = {"roberta", "bart", "longformer", "data2vec-text", "roberta-prelayernorm"},
     .own = kAngled,
     .cut = Cut::gpt2,
     .around = Around::cls_sep},
    {.names = {"Blenderbot"},
     .models = {"blenderbot"},
     .own = kAngledWithSpacedMask,
     .cut = Cut::gpt2,
     .leading_space = true},
    {.names = {"Deberta"},
     .models = {"deberta"},
     .own = kBracketed,
     .cut = Cut::gpt2,
     .around = Around::cls_sep},
    {.names = {"Whisper"},
     .models = {"whisper"},
     .own = kEndOfText,
     .cut = Cut::gpt2,
     .around = Around::prompt_eos},
    {.names = {"CLIP"},
     .models = {"clip*"},
     .own = kClip,
     .cut = Cut::clip,
     .composes = true,
     .around = Around::bos_eos},
};

// The special tokens of the class that exist in the vocabulary.
json::object own_tokens(const TokenClass& kind, const Vocabulary& vocabulary) {
  json::object own;
  const json::value listed = json::parse(json::string_view(kind.own));
  for (const auto& [key, value] : listed.get_object()) {
    const json::value& spelling = value.is_object() ? value.at("content") : value;
    if (vocabulary.find(std::string_view(spelling.get_string()))) own.emplace(key, value);
  }
  return own;
}

// The named class, or the class of the folder's model; GPT-2's if neither is known.
Result<const TokenClass*> find_class(const json::object& config, std::string_view model_type) {
  Result<std::string> named = string_member(config, "tokenizer_class", "");
  if (!named) return named.error().annotate("tokenizer_config.json");
  std::string_view name = *named;
  for (const std::string_view end : {"Fast", "Tokenizer"})
    if (name.ends_with(end)) name.remove_suffix(end.size());
  for (const TokenClass& each : kTokenClasses)
    if (!name.empty() && std::ranges::find(each.names, name) != each.names.end()) return &each;
  constexpr std::array<std::string_view, 2> kOfAnyModel = {"PreTrained", "Tokenizers"};
  if (!name.empty() && std::ranges::find(kOfAnyModel, name) == kOfAnyModel.end()) {
    std::string known;
    for (const TokenClass& each : kTokenClasses)
      for (const std::string_view one : each.names)
        if (!one.empty()) known += concat(known.empty() ? "" : ", ", one, "Tokenizer");
    return unimplemented(concat("tokenizer_config.json: tokenizer_class '", *named,
                                "' is not supported with vocab.json and merges.txt alone (supported: ", known,
                                "); save it as tokenizer.json"));
  }
  for (const TokenClass& each : kTokenClasses)
    for (const std::string_view model : each.models)
      if (model.ends_with('*') ? model_type.starts_with(model.substr(0, model.size() - 1))
                               : !model.empty() && model == model_type)
        return &each;
  log_warning("tokenizer",
              "there is no tokenizer.json and tokenizer_config.json names no tokenizer_class, so GPT-2's "
              "pre-tokenizer is used: if the model was trained with another one, its answers are worse");
  return &kTokenClasses[0];
}

constexpr std::size_t kAll = 1 << 20;  // spaces at either end of a text

// CLIP's: lower case, white space dropped, and the last piece of each word marked by "</w>".
constexpr std::string_view kClipNormalizer =
    R"({"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Replace","pattern":{"Regex":"\\s+"},"content":" "},
        {"type":"Lowercase"}]})";
constexpr std::string_view kClipPreTokenizer =
    R"({"type":"Sequence","pretokenizers":[{"type":"Split","behavior":"Removed","invert":true,"pattern":{"Regex":
        "<\\|startoftext\\|>|<\\|endoftext\\|>|'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+"}},
        {"type":"ByteLevel","add_prefix_space":false,"use_regex":true}]})";

Status make_clip(TokenizerParts& parts) {
  PAGODA_RETURN_IF_ERROR(read_normalizer(json::parse(json::string_view(kClipNormalizer)), parts.normalizer));
  bool bytes_to_model = false;
  return read_pre_tokenizer(json::parse(json::string_view(kClipPreTokenizer)), bytes_to_model,
                            parts.needs_origins, parts.pre_tokenizer);
}

// ByteLevel puts the space before each of its input pieces: before the whole text only if it splits the text
// itself.
Result<PreTokenizerPtr> make_cut(Cut cut, bool leading_space) {
  const bool itself = cut == Cut::gpt2 || cut == Cut::digits;
  std::vector<PreTokenizerPtr> chain;
  if (cut == Cut::digits) chain.push_back(make_digits(true));
  if (!itself) {
    PAGODA_ASSIGN_OR_RETURN(GgufPreTokenizer made,
                            make_gguf_pre_tokenizer(cut == Cut::qwen2 ? "qwen2" : "qwen35"));
    chain.push_back(std::move(made.pre_tokenizer));
  }
  chain.push_back(make_byte_level_pre_tokenizer(leading_space, itself, false));
  return make_sequence_pre_tokenizer(std::move(chain));
}

Status read_merge_lines(std::string_view text, MergeList& merges) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with("#version")) continue;
    if (!split_merge(line, merges))
      return corrupt_data(concat("merges.txt: merge ", merges.size(), " is not two tokens"));
  }
  return ok_status();
}

// Adds the tokens that the class itself puts around texts, regardless of add_bos_token.
void surround(const TokenClass& kind, const SideTokens& side, TokenizerParts& parts) {
  const auto ids = [&](std::initializer_list<std::string_view> spellings) {
    std::vector<TokenId> out;
    for (const std::string_view spelling : spellings)
      if (const AddedToken* token = parts.added.find(spelling))
        out.push_back(token->id);
      else if (const auto id = parts.vocabulary->find(spelling))
        out.push_back(*id);
    return out;
  };
  std::vector<TokenId> before, between, after;
  switch (kind.around) {
    case Around::as_configured:
      return;
    case Around::cls_sep:
      before = ids({side.cls});
      after = ids({side.sep});
      between = ids({side.sep, side.sep});
      break;
    case Around::bos_eos:
      before = ids({side.bos});
      after = ids({side.eos});
      between = ids({side.eos, side.eos});
      break;
    case Around::prompt_eos:
      before = ids({"<|startoftranscript|>", "<|notimestamps|>"});
      after = ids({side.eos});
      break;
  }
  const std::size_t second = between.size();
  parts.post_processor.clear();
  parts.post_processor.add({.before = before, .after = after});
  parts.post_processor.add_pair({.before = before, .between = between, .after = after, .second = second});
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_vocab_and_merges(std::string_view vocab_json,
                                                                    std::string_view merges_txt,
                                                                    const TokenizerSideFiles& files,
                                                                    std::string_view model_type) {
  TokenizerParts parts;
  parts.vocabulary = std::make_unique<Vocabulary>();
  if (Status status = read_vocabulary(vocab_json, *parts.vocabulary); !status.ok())
    return status.annotate("vocab.json");
  MergeList merges;
  PAGODA_RETURN_IF_ERROR(read_merge_lines(merges_txt, merges));
  PAGODA_ASSIGN_OR_RETURN(json::object config, parse_side_file(files.config, "tokenizer_config.json"));
  PAGODA_ASSIGN_OR_RETURN(const TokenClass* kind, find_class(config, model_type));
  PAGODA_ASSIGN_OR_RETURN(SideTokens side, read_side_files(files, own_tokens(*kind, *parts.vocabulary)));
  Result<bool> leading_space = bool_member(config, "add_prefix_space", kind->leading_space);
  if (!leading_space) return leading_space.error().annotate("tokenizer_config.json");

  hide_special(side, *parts.vocabulary);
  const std::size_t model_size = parts.vocabulary->num_tokens();
  BpeOptions options;
  std::vector<DecodeStepMakerPtr> steps;
  steps.push_back(make_byte_level_decoder());
  if (kind->cut == Cut::clip) {
    PAGODA_RETURN_IF_ERROR(make_clip(parts));
    options.end_of_word_suffix = "</w>";
    options.unknown_token = side.unk;
    steps.push_back(make_replace_string_decoder("</w>", " "));
    steps.push_back(make_strip_decoder(" ", kAll, kAll));
  } else {
    PAGODA_ASSIGN_OR_RETURN(parts.pre_tokenizer, make_cut(kind->cut, *leading_space));
    if (kind->composes) parts.normalizer = make_unicode_normalizer(NormalForm::nfc);
    options.byte_level = true;
  }
  PAGODA_ASSIGN_OR_RETURN(parts.model, make_bpe(*parts.vocabulary, merges, std::move(options)));
  parts.decoder = Decoder(std::move(steps));
  parts.bytes = TokenizerParts::Bytes::byte_level;
  PAGODA_RETURN_IF_ERROR(apply_side_tokens(side, model_size, false, parts));
  surround(*kind, side, parts);
  parts.added.build();
  return std::unique_ptr<Tokenizer>(std::make_unique<PipelineTokenizer>(std::move(parts)));
}

}  // namespace pagoda
