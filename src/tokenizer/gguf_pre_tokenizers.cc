#include "tokenizer/gguf_pre_tokenizers.h"

#include <algorithm>
#include <vector>

#include "base/assign_or_return.h"
#include "base/strings.h"

namespace pagoda {
namespace {

// A step of a pre-tokenizer chain; the chain ends with the mapping to bytes.
enum class Step { split, digits_each, digits_run, punctuation_run, gpt2, byte_level };
struct ChainStep {
  Step step;
  std::string_view pattern = {};  // pattern of the split
};
struct PreTokenizerRecipe {
  std::vector<std::string_view> names;
  std::vector<ChainStep> chain;
  bool nfc = false;
  bool ignore_merges = false;
  bool add_bos = false;  // default if the file does not say
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
      // Digits in groups of three, counted from the right.
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
      // White space in runs whose lengths are powers of two.
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
        PAGODA_ASSIGN_OR_RETURN(Regex regex, Regex::compile(step.pattern));
        steps.push_back(make_split(std::move(regex), SplitBehavior::isolated, false));
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

}  // namespace

std::vector<std::string_view> gguf_pre_tokenizer_names() {
  std::vector<std::string_view> names;
  for (const PreTokenizerRecipe& recipe : recipes()) names.push_back(recipe.names.front());
  return names;
}

Result<GgufPreTokenizer> make_gguf_pre_tokenizer(std::string_view name) {
  PAGODA_ASSIGN_OR_RETURN(const PreTokenizerRecipe* recipe, find_recipe(name));
  GgufPreTokenizer made;
  made.nfc = recipe->nfc;
  made.ignore_merges = recipe->ignore_merges;
  made.add_bos = recipe->add_bos;
  PAGODA_ASSIGN_OR_RETURN(made.pre_tokenizer, make_chain(*recipe, made.bytes_to_model));
  return made;
}

}  // namespace pagoda
