#include "cli/commands/tokenize_command.h"

#include <boost/json.hpp>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

#include "base/strings.h"
#include "cli/assembly/default_model.h"
#include "cli/assembly/hub_settings.h"
#include "cli/assembly/load_tokenizer.h"
#include "cli/commands/json_line.h"
#include "cli/commands/typed_words.h"
#include "cli/exit_code.h"
#include "cli/flags/flag_values.h"

namespace pagoda {
namespace {

namespace json = boost::json;

std::string encode_line(const Tokenizer& tokenizer, const json::object& line, bool add_special_tokens) {
  const json::value* text = line.if_contains("text");
  if (!text || !text->is_string()) return json_line("error", "'text' must be a string");
  const json::string& string = text->get_string();
  const Result<std::vector<TokenId>> ids = tokenizer.encode(std::string_view(string.data(), string.size()),
                                                            {.add_special_tokens = add_special_tokens});
  if (!ids) return json_line("error", ids.error().message());
  std::string out = "{\"ids\": [";
  for (std::size_t i = 0; i < ids->size(); ++i) {
    if (i > 0) out += ", ";
    char buffer[16];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, (*ids)[i]).ptr;
    out.append(buffer, end);
  }
  out += "]}";
  return out;
}

std::string decode_line(const Tokenizer& tokenizer, const json::object& line) {
  const json::value* list = line.if_contains("ids");
  if (!list || !list->is_array()) return json_line("error", "'ids' must be a list of token ids");
  std::vector<TokenId> ids;
  ids.reserve(list->get_array().size());
  for (const json::value& element : list->get_array()) {
    boost::system::error_code error;
    const auto id = element.is_number() ? element.to_number<std::int32_t>(error) : -1;
    if (error || id < 0) return json_line("error", "'ids' must be a list of token ids");
    ids.push_back(id);
  }
  return json_line("text", tokenizer.decode(ids, false));
}

std::string answer(const Tokenizer& tokenizer, const TokenizeArgs& args, const std::string& line) {
  boost::system::error_code error;
  const json::value value = json::parse(line, error);
  if (error) return json_line("error", concat("the line is not JSON: ", error.message()));
  if (!value.is_object()) return json_line("error", "the line is not a JSON object");
  return args.decode ? decode_line(tokenizer, value.get_object())
                     : encode_line(tokenizer, value.get_object(), args.add_special_tokens);
}

// Converts a text file into an input line: a text, or ids separated by spaces or commas.
Result<std::string> typed_line(const std::string& text, bool decode) {
  if (!decode) return json_line("text", text);
  std::string ids = text;
  for (char& c : ids)
    if (c == ',' || c == '[' || c == ']') c = ' ';
  json::array list;
  std::istringstream words(ids);
  for (std::string word; words >> word;) {
    std::int64_t id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size())
      return invalid_argument(concat("'", word, "' is not a token id"));
    list.emplace_back(id);
  }
  return json::serialize(json::object{{"ids", list}});
}

int refuse(std::string_view message) {
  std::fputs(concat("pagoda: ", message, "\n").c_str(), stderr);
  return 2;
}

}  // namespace

std::vector<Flag> tokenize_flags(TokenizeArgs& args) {
  return {
      {.positional = "TOKENIZER",
       .value = flags::text(args.tokenizer, "PATH"),
       .help = "folder, tokenizer.json, SentencePiece tokenizer.model, .gguf (weights optional), or "
               "ORG/NAME[:TAG]",
       .default_text = "the default model's"},
      {.positional = "TEXT",
       .value = flags::text(args.text, "TEXT"),
       .help = "text to tokenize, or ids with --decode; a single word is the text",
       .default_text = "standard input"},
      {.name = "input",
       .value = flags::text(args.input, "FILE"),
       .help = "file of {\"text\": …} objects, one per line, or {\"ids\": […]} with --decode; -: stdin",
       .aliases = {"-i"}},
      {.name = "decode", .value = flags::on(args.decode), .help = "convert token ids to text"},
      {.name = "add-special-tokens",
       .value = flags::on(args.add_special_tokens),
       .help = "add BOS and EOS tokens as the tokenizer defines them"},
  };
}

int run_tokenize(const TokenizeArgs& args) {
  std::string path = args.tokenizer, typed;
  if (args.input.empty()) {
    const auto words = typed_words(args.tokenizer, args.text, false);
    if (!words) return refuse(words.error().message());
    path = words->model;
    const auto line = typed_line(words->text, args.decode);
    if (!line) return refuse(line.error().message());
    typed = *line;
  } else if (!args.text.empty()) {
    return refuse(concat("'", args.text, "': give a text or --input, not both"));
  }
  if (path.empty()) {
    auto model = default_model();
    if (!model) return refuse(model.error().message());
    path = *model;
  }
  const Result<std::string> local = local_model(path);
  if (!local) return refuse(local.error().message());
  const Result<std::unique_ptr<Tokenizer>> tokenizer = load_tokenizer(*local);
  if (!tokenizer) return refuse(tokenizer.error().message());
  std::ifstream file;
  std::istringstream one_line(typed);
  if (!args.input.empty() && args.input != "-") {
    file.open(args.input, std::ios::binary);
    if (!file) return refuse(file_failure("read", args.input));
  }
  std::istream& input = args.input.empty()  ? static_cast<std::istream&>(one_line)
                        : args.input == "-" ? std::cin
                                            : file;
  for (std::string line; std::getline(input, line);) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    std::string out = answer(**tokenizer, args, line);
    out += '\n';
    if (std::fwrite(out.data(), 1, out.size(), stdout) != out.size())
      return refuse("cannot write to standard output");
  }
  if (input.bad()) return refuse(file_failure("read", args.input));  // for example a directory
  return std::fflush(stdout) == 0 ? 0 : refuse("cannot write to standard output");
}

}  // namespace pagoda
