// Tokenizer::from_gguf: the vocabularies that GGUF files carry. Which pre-tokenizer belongs to which
// tokenizer.ggml.pre name is llama.cpp's convention; where the model's own tokenizer.json is known, its
// components are used, so that ids equal Hugging Face's.
#include <algorithm>
#include <array>

#include "base/strings.h"
#include "base/utf8.h"
#include "tokenizer/decode_steps.h"
#include "tokenizer/gguf_unigram.h"
#include "tokenizer/pipeline_tokenizer.h"

namespace pagoda {
namespace {

enum TokenType { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

constexpr std::string_view kMetaspace = "\xE2\x96\x81";

// A piece of a pre-tokenizer chain; the chain ends with the mapping to bytes.
enum class Step { split, digits_each, digits_run, punctuation_run, gpt2, byte_level };
struct ChainStep {
  Step step;
  std::string_view pattern = {};  // of split
};
struct PreTokenizerRecipe {
  std::vector<std::string_view> names;
  std::vector<ChainStep> chain;
  bool nfc = false;
  bool ignore_merges = false;
  bool add_bos = false;  // where the file does not say
};

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define UPPER_NOT_HAN "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define LOWER_NOT_HAN "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define LLAMA3(NUMBERS) \
  CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" NUMBERS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES
#define DEEPSEEK3_WORDS \
  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
#define DEEPSEEK3 DEEPSEEK3_WORDS "| ?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES
#define GPT4O(NUMBERS)                                                                                 \
  "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" CONTRACTIONS "?|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER \
  "*" CONTRACTIONS "?|" NUMBERS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES

const std::vector<PreTokenizerRecipe>& recipes() {
  static const std::vector<PreTokenizerRecipe> all = {
      {{"default"},
       {{Step::split, "[\\p{P}\\$\\+<=>\\^~\\|]+"},
        {Step::gpt2},
        {Step::split, "\\p{N}+"},
        {Step::split, "[0-9][0-9][0-9]"}}},
      {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
        "jina-v5-nano"},
       {{Step::split, LLAMA3("\\p{N}{1,3}")}},
       false,
       true,
       true},
      {{"dbrx", "smaug-bpe", "glm4", "glm5", "chatglm-bpe"}, {{Step::split, LLAMA3("\\p{N}{1,3}")}}},
      {{"gpt-2", "gpt2", "phi-2", "jina-es", "jina-de", "jina-v1-en", "jina-v2-es", "jina-v2-de",
        "jina-v2-code", "roberta-bpe", "gigachat", "a.x-4.0", "mellum", "modern-bert", "exaone4", "jais",
        "trillion", "granite-docling"},
       {{Step::gpt2}}},
      {{"mpt", "olmo"}, {{Step::gpt2}}, true},
      {{"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"},
       {{Step::digits_each}, {Step::gpt2}}},
      {{"qwen2", "deepseek-r1-qwen", "megrez", "kormo", "f2llmv2"}, {{Step::split, LLAMA3("\\p{N}")}}, true},
      {{"stablelm2", "hunyuan", "solar-open", "grok-2"}, {{Step::split, LLAMA3("\\p{N}")}}},
      {{"qwen35"},
       {{Step::split, CONTRACTIONS
         "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES}},
       true},
      {{"falcon"},
       {{Step::punctuation_run},
        {Step::gpt2},
        {Step::byte_level},
        {Step::digits_run},
        {Step::split, "[0-9][0-9][0-9]"}}},
      {{"deepseek-llm"},
       {{Step::split, "[\\r\\n]"},
        {Step::split,
         "\\s?["
         "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}"
         "\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}-\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-"
         "\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-"
         "\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-"
         "\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-"
         "\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}"
         "\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-"
         "\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-"
         "\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}"
         "\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}"
         "\\x{214E}\\x{2183}-\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}\\x{2CF2}-"
         "\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}\\x{A78B}-"
         "\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-"
         "\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}"
         "\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"
         "]+"},
        {Step::split,
         "\\s?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+"},
        {Step::split, "\\s+$"},
        {Step::split, "[\\x{4E00}-\\x{9FA5}\\x{0800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"},
        {Step::digits_each}}},
      {{"deepseek-coder"},
       {{Step::split, "[\\r\\n]"},
        {Step::split, "\\s?\\p{L}+"},
        {Step::split, "\\s?\\p{P}+"},
        {Step::split, "[\\x{4E00}-\\x{9FA5}\\x{0800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"},
        {Step::digits_each}}},
      {{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"},
       {{Step::split, "\\p{N}{1,3}"},
        {Step::split, "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"},
        {Step::split, DEEPSEEK3}}},
      {{"tekken"},
       {{Step::split, "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER
                      "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES}},
       false,
       true,
       true},
      {{"gpt-4o", "llama4", "kanana2", "minimax-m2", "talkie"}, {{Step::split, GPT4O("\\p{N}{1,3}")}}},
      {{"granite-embed-multi-97m"}, {{Step::split, GPT4O("\\p{N}{1,3}")}}, false, true},
      // Digits in threes from the right.
      {{"tiny_aya", "cohere2moe"},
       {{Step::split, "\\d{1,3}(?=(?:\\d{3})*\\b)"}, {Step::split, GPT4O("\\p{N}{1,3}")}}},
      {{"afmoe"},
       {{Step::split, "\\p{N}+"},
        {Step::split, "(?=(\\d{3})+(?!\\d))"},
        {Step::split,
         "[\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{F900}-\\x{FAFF}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}"
         "\\x{FF65}-\\x{FF9F}\\x{2F00}-\\x{2FDF}\\x{0E40}-\\x{0E7F}\\x{0E80}-\\x{0EFF}\\x{1780}-\\x{17FF}"
         "\\x{1000}-\\x{109F}\\x{AA60}-\\x{AA7F}\\x{A9E0}-\\x{A9FF}\\x{AC00}-\\x{D7AF}\\x{1100}-\\x{11FF}]+"},
        {Step::split, DEEPSEEK3}}},
      {{"youtu"},
       {{Step::split,
         "[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+|[\\x{FF01}\\x{2026}\\x{201C}\\x{201D}\\x{2018}\\x{2019}"
         "\\x{2014}\\x{FF1A}\\x{FF1B}\\x{FF0C}\\x{3001}-\\x{303F}\\x{FE30}-\\x{FE4F}]+|[\\x{3105}-\\x{312F}]+"
         "|"
         "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"},
        {Step::split, GPT4O("\\p{N}")}},
       false,
       true},
      {{"spark2_5"},
       {{Step::split, "\\p{N}{1,3}"},
        {Step::split, "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"},
        {Step::split, DEEPSEEK3_WORDS "| ?[\\p{P}\\p{S}]+|[\\r\\n]|\\s+(?!\\S)|\\s+"},
        {Step::split, "\\p{N}"}}},
      {{"minicpm5"}, {{Step::split, "\\p{N}{1,3}"}, {Step::split, LLAMA3("\\p{N}+")}}, false, true},
      {{"laguna"}, {{Step::split, "[^\\n]+|[\\n]+"}, {Step::split, LLAMA3("\\p{N}")}}},
      {{"ufakzeka"},
       {{Step::split, "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES}}},
      // White space in runs of powers of two.
      {{"jais-2"},
       {{Step::split, CONTRACTIONS
         "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
         "\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|"
         "\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}"}}},
      {{"kimi-k2"},
       {{Step::split, "[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?" UPPER_NOT_HAN "*" LOWER_NOT_HAN "+" CONTRACTIONS
                      "?|[^\\r\\n\\p{L}\\p{N}]?" UPPER_NOT_HAN "+" LOWER_NOT_HAN "*" CONTRACTIONS
                      "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES}}},
      {{"chameleon"},
       {{Step::split, "<sentinel:[0-9]+>"},
        {Step::split, "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"},
        {Step::split, "([\\t\\n]|    |  )"},
        {Step::split, "\\p{N}"},
        {Step::split, "[\\p{P}!-/:-@\\[-`{-~]"},
        {Step::gpt2}},
       false,
       false,
       true},
      {{"poro-chat", "bloom", "gpt3-finnish"},
       {{Step::split, " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{0964}\\x{06D4}\\x{060C})]+"}}},
      {{"viking"},
       {{Step::split, " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{0964}\\x{06D4}\\x{060C})]+"},
        {Step::digits_each}}},
      {{"bailingmoe", "bailingmoe2", "llada-moe"},
       {{Step::split,
         "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|"
         "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}}},
      {{"seed-coder"},
       {{Step::split,
         CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" SPACES}}},
      {{"superbpe"}, {{Step::split, "\\p{N}+"}, {Step::split, "(?=(\\d{3})+(?!\\d))"}}},
      {{"exaone-moe"},
       {{Step::split, CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| "
                                   "?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|"
                                   "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}}},
  };
  return all;
}

// Files that call their tokenizer "gpt2" although it has SentencePiece's pieces, as Gemma 4's.
bool holds_pieces(std::string_view pre) {
  return pre == "gemma4" || pre == "granite-embed-multi-311m" || pre == "sarvam-moe";
}

Result<const PreTokenizerRecipe*> find_recipe(std::string_view name) {
  if (name.empty()) name = "default";
  std::vector<std::string_view> known;
  for (const PreTokenizerRecipe& recipe : recipes()) {
    for (const std::string_view candidate : recipe.names) {
      if (candidate == name) return &recipe;
      known.push_back(candidate);
    }
  }
  std::sort(known.begin(), known.end());
  std::string list;
  for (const std::string_view candidate : known) list += concat(list.empty() ? "" : ", ", candidate);
  return unimplemented(
      concat("GGUF: the pre-tokenizer '", name, "' is not supported (supported: ", list, ")"));
}

Result<PreTokenizerPtr> make_chain(const PreTokenizerRecipe& recipe, bool& bytes_to_model) {
  std::vector<PreTokenizerPtr> steps;
  bytes_to_model = true;
  for (const ChainStep& step : recipe.chain) {
    switch (step.step) {
      case Step::split: {
        if (PreTokenizerPtr known = make_known_split(step.pattern)) {
          steps.push_back(std::move(known));
          break;
        }
        Result<Regex> regex = Regex::compile(step.pattern);
        if (!regex) return regex.error();
        steps.push_back(make_split(*std::move(regex), SplitBehavior::isolated, false));
        break;
      }
      case Step::digits_each:
        steps.push_back(make_digits(true));
        break;
      case Step::digits_run:
        steps.push_back(make_digits(false));
        break;
      case Step::punctuation_run:
        steps.push_back(make_punctuation(SplitBehavior::contiguous));
        break;
      case Step::gpt2:
        steps.push_back(make_known_split(kGpt2Pattern));
        break;
      case Step::byte_level:
        steps.push_back(make_byte_level_pre_tokenizer(false, false, true));
        bytes_to_model = false;
        break;
    }
  }
  if (steps.size() == 1) return std::move(steps[0]);
  return make_sequence_pre_tokenizer(std::move(steps));
}

class GgufBuilder {
 public:
  explicit GgufBuilder(const GgufVocabulary& source) : source_(source) {}

  Result<std::unique_ptr<Tokenizer>> build() {
    if (Status status = read(); !status.ok()) return status;
    parts_.bos = known(source_.bos);
    parts_.eos = known(source_.eos);
    parts_.added.build();
    return std::unique_ptr<Tokenizer>(std::make_unique<PipelineTokenizer>(std::move(parts_)));
  }

 private:
  Status read() {
    parts_.vocabulary = std::make_unique<Vocabulary>();
    Vocabulary& vocabulary = *parts_.vocabulary;
    if (source_.tokens.empty()) return corrupt_data("GGUF: tokenizer.ggml.tokens is missing or empty");
    if (source_.tokens.size() > Vocabulary::kMaxId)
      return corrupt_data("GGUF: tokenizer.ggml.tokens is too long");
    std::size_t num_bytes = 0;
    for (const std::string_view token : source_.tokens) num_bytes += token.size();
    vocabulary.reserve(source_.tokens.size(), num_bytes);
    for (std::size_t i = 0; i < source_.tokens.size(); ++i) {
      const auto id = static_cast<TokenId>(i);
      // The first of equal spellings keeps it, as the later one could never be encoded.
      if (!vocabulary.add_if_new(source_.tokens[i], id))
        return corrupt_data("GGUF: tokenizer.ggml.tokens is too large");
      const int type = type_of(id);
      if (type == kControl || type == kUnknown) vocabulary.hide(id);
      if (type == kControl || type == kUnknown || type == kUserDefined) {
        AddedToken token;
        token.id = id;
        token.content = token.normalized_content = source_.tokens[i];
        token.special = type != kUserDefined;
        // SentencePiece looks for its white space symbols after spaces have become U+2581.
        token.normalized = type == kUserDefined && token.content.find(kMetaspace) != std::string::npos;
        if (is_valid_utf8(token.content)) parts_.added.add(std::move(token));
      }
    }
    if (source_.model == "gpt2" && holds_pieces(source_.pre)) return read_ranked_pieces(false);
    if (source_.model == "gpt2") return read_byte_level();
    if (source_.model == "llama") return read_sentencepiece();
    if (source_.model == "gemma4") return read_ranked_pieces(true);
    if (source_.model == "bert") return read_word_piece();
    if (source_.model == "t5") {
      wrap(source_.bos, source_.eos, false, true);
      return read_gguf_unigram(source_, parts_);
    }
    return unimplemented(concat("GGUF: the tokenizer model '", source_.model,
                                "' is not supported (supported: gpt2, llama, gemma4, bert, t5)"));
  }

  int type_of(TokenId id) const {
    const auto at = static_cast<std::size_t>(id);
    return at < source_.types.size() ? source_.types[at] : kNormal;
  }
  TokenId known(TokenId id) const { return parts_.vocabulary->contains(id) ? id : -1; }

  void wrap(TokenId before, TokenId after, bool add_before, bool add_after) {
    PostProcessor::Wrap wrap;
    if (source_.add_bos.value_or(add_before) && known(before) >= 0) wrap.before.push_back(before);
    if (source_.add_eos.value_or(add_after) && known(after) >= 0) wrap.after.push_back(after);
    parts_.post_processor.add(std::move(wrap));
  }

  Status read_byte_level() {
    Result<const PreTokenizerRecipe*> recipe = find_recipe(source_.pre);
    if (!recipe) return recipe.error();
    bool bytes_to_model = true;
    Result<PreTokenizerPtr> chain = make_chain(**recipe, bytes_to_model);
    if (!chain) return chain.error();
    parts_.pre_tokenizer = *std::move(chain);
    if ((*recipe)->nfc) parts_.normalizer = make_unicode_normalizer(NormalForm::nfc);
    if (source_.add_space_prefix.value_or(false)) {
      std::vector<PreTokenizerPtr> steps;
      steps.push_back(make_byte_level_pre_tokenizer(true, false, false));
      steps.push_back(std::move(parts_.pre_tokenizer));
      parts_.pre_tokenizer = make_sequence_pre_tokenizer(std::move(steps));
    }
    const Result<MergeList> merges = read_merges();
    if (!merges) return merges.error();
    Result<TokenModelPtr> model = make_bpe(
        *parts_.vocabulary, *merges,
        {.byte_level = bytes_to_model, .ignore_merges = (*recipe)->ignore_merges, .skip_bad_merges = true});
    if (!model) return model.error();
    parts_.model = *std::move(model);
    std::vector<DecodeStepMakerPtr> steps;
    steps.push_back(make_byte_level_decoder());
    parts_.decoder = Decoder(std::move(steps));
    parts_.bytes = TokenizerParts::Bytes::byte_level;
    wrap(source_.bos, source_.eos, (*recipe)->add_bos, false);
    add_encoder_pair(source_, parts_);
    return ok_status();
  }

  Result<MergeList> read_merges() const {
    MergeList merges;
    merges.reserve(source_.merges.size());
    for (const std::string_view merge : source_.merges) {
      // Either part may begin with a space character of a non-byte-level alphabet: look behind the first.
      const std::size_t space = merge.find(' ', 1);
      if (space == std::string::npos)
        return corrupt_data(concat("GGUF: merge '", merge, "' is not two tokens"));
      merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
    }
    return merges;
  }

  // Gemma 4: SentencePiece's pieces, of which ranked merges and not scores make tokens, over the whole text.
  Status read_ranked_pieces(bool add_bos) {
    const Result<MergeList> merges = read_merges();
    if (!merges) return merges.error();
    const TokenId unknown = known(source_.unk >= 0 ? source_.unk : 3);
    Result<TokenModelPtr> model =
        make_bpe(*parts_.vocabulary, *merges,
                 {.byte_fallback = true,
                  .fuse_unknown = true,
                  .skip_bad_merges = true,
                  .unknown_token = unknown >= 0 ? std::string(parts_.vocabulary->token(unknown)) : ""});
    if (!model) return model.error();
    parts_.model = *std::move(model);
    decode_pieces(source_.add_space_prefix.value_or(false));
    wrap(source_.bos, source_.eos, add_bos, false);
    return ok_status();
  }

  // Text to pieces and back: spaces are U+2581, bytes without a token <0xNN>.
  void decode_pieces(bool prefix) {
    std::vector<NormalizerPtr> normalizers;
    if (prefix) normalizers.push_back(make_prepend_normalizer(std::string(kMetaspace)));
    normalizers.push_back(make_replace_string_normalizer(" ", std::string(kMetaspace)));
    parts_.normalizer = make_sequence_normalizer(std::move(normalizers));
    std::vector<DecodeStepMakerPtr> steps;
    steps.push_back(make_replace_string_decoder(std::string(kMetaspace), " "));
    steps.push_back(make_byte_fallback_decoder());
    steps.push_back(make_fuse_decoder());
    if (prefix) steps.push_back(make_strip_decoder(" ", 1, 0));
    parts_.decoder = Decoder(std::move(steps));
    parts_.bytes = TokenizerParts::Bytes::byte_fallback;
  }

  Status read_sentencepiece() {
    ScoredBpeOptions options;
    options.scores = source_.scores;
    const std::size_t count = source_.tokens.size();
    options.can_merge.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      const int type = type_of(static_cast<TokenId>(i));
      options.can_merge[i] = type != kControl && type != kUnknown && type != kByte;
    }
    options.unknown = known(source_.unk >= 0 ? source_.unk : 0);
    options.byte_fallback = true;
    parts_.model = make_scored_bpe(*parts_.vocabulary, std::move(options));
    decode_pieces(source_.add_space_prefix.value_or(true));
    wrap(source_.bos, source_.eos, true, false);
    return ok_status();
  }

  // BERT's WordPiece; the file marks the first piece of a word (U+2581), not the others (##).
  Status read_word_piece() {
    WordPieceOptions options;
    options.unknown_token = parts_.vocabulary->contains(source_.unk)
                                ? std::string(parts_.vocabulary->token(source_.unk))
                                : "[UNK]";
    options.word_prefix = kMetaspace;
    options.continuing_subword_prefix.clear();
    if (const auto id = parts_.vocabulary->find(options.unknown_token)) parts_.vocabulary->hide(*id);
    parts_.model = make_word_piece(*parts_.vocabulary, std::move(options));
    parts_.normalizer = make_bert_normalizer({.strip_accents = true});
    parts_.pre_tokenizer = make_bert_pre_tokenizer();
    std::vector<DecodeStepMakerPtr> steps;
    steps.push_back(make_replace_string_decoder(std::string(kMetaspace), " "));
    steps.push_back(make_fuse_decoder());
    steps.push_back(make_strip_decoder(" ", 1, 0));
    parts_.decoder = Decoder(std::move(steps));
    const TokenId cls = source_.cls >= 0 ? source_.cls : source_.bos,
                  sep = source_.sep >= 0 ? source_.sep : source_.eos;
    wrap(cls, sep, true, true);
    if (known(cls) >= 0 && known(sep) >= 0)
      parts_.post_processor.add_pair(
          {.before = {cls}, .between = {sep}, .after = {sep}, .second = 1, .typed = true});
    return ok_status();
  }

  const GgufVocabulary& source_;
  TokenizerParts parts_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_gguf(const GgufVocabulary& vocabulary) {
  return GgufBuilder(vocabulary).build();
}

}  // namespace pagoda
