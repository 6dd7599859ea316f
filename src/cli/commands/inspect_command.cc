#include "cli/commands/inspect_command.h"

#include <cstdio>

#include "base/assign_or_return.h"
#include "cli/assembly/hub_paths.h"
#include "cli/assembly/hub_settings.h"
#include "cli/assembly/load_tokenizer.h"
#include "cli/commands/model_facts.h"
#include "cli/flags/flag_values.h"
#include "models/describe.h"

namespace pagoda {
namespace {

// Describes the file. loader/ only parses the outer structure of a tokenizer; text/ checks the rest.
Result<Description> describe_file(const std::string& path) {
  Result<Description> description = describe(path, hub_paths_from_environment());
  if (description && description->format == "tokenizer.json") {
    if (auto tokenizer = load_tokenizer(path); !tokenizer) {
      if (tokenizer.error().code() != StatusCode::unimplemented) return tokenizer.error();
      description->reason = tokenizer.error().message();
    }
  }
  if (!description && path.ends_with(".model")) {
    PAGODA_ASSIGN_OR_RETURN(auto tokenizer, load_tokenizer(path));
    Description sentencepiece;
    sentencepiece.path = path;
    sentencepiece.format = "sentencepiece";
    sentencepiece.metadata.emplace_back("vocab_size", std::int64_t{tokenizer->vocab_size()});
    return sentencepiece;
  }
  return description;
}

}  // namespace

std::vector<Flag> inspect_flags(InspectArgs& args) {
  return {
      {.positional = "MODEL",
       .value = flags::text(args.path, "PATH"),
       .help = "folder, .gguf, .safetensors, config.json, tokenizer.json, or ORG/NAME[:TAG]",
       .required = true},
      {.name = "json", .value = flags::on(args.json), .help = "print JSON instead of a table"},
  };
}

int run_inspect(const InspectArgs& args) {
  const Result<std::string> path = local_model(args.path);
  Result<Description> description = path ? describe_file(*path) : Result<Description>(path.error());
  if (!description) {
    std::fprintf(stderr, "pagoda: %s\n", description.error().message().c_str());
    return 2;
  }
  add_facts(*description);
  measure_memory(*description);
  const std::string text = args.json ? describe_json(*description) + "\n" : describe_table(*description);
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (std::fflush(stdout) != 0) {
    std::fputs("pagoda: cannot write to standard output\n", stderr);
    return 2;
  }
  return 0;
}

}  // namespace pagoda
