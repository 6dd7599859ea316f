// The pages of docs/ that are made from the rows.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "cli/flags/environment.h"
#include "cli/flags/help.h"
#include "cli/flags/peer_flags.h"
#include "cli/flags/texts_of_flags.h"

namespace pagoda {
namespace {

constexpr const char* kMade =
    "<!-- made by `pagoda man --markdown %`; change the rows in src/cli/flags instead -->\n";

std::string made(const char* page) {
  std::string text = kMade;
  return text.replace(text.find('%'), 1, page);
}

// Within a cell of a table.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string choices(const Flag& flag) {
  std::string out;
  for (const std::string& choice : flag.value.choices)
    out += (out.empty() ? "" : ", ") + ("`" + choice + "`");
  return out;
}

// A cell that is longer is hard to read: the table has the short help then, and a note below it the details.
constexpr std::size_t kCellCharacters = 200;

struct FlagText {
  std::string row, note;
};

FlagText text_of(const Flag& flag) {
  const std::string heading = concat(
      "`", cell(flag.name.empty() || !flag.positional.empty() ? flag.positional : flag_heading(flag)), "`");
  std::string text = flag.details.empty() ? flag.help : flag.details;
  if (!flag.value.choices.empty()) text = choices(flag) + (text.empty() ? "" : ": " + text);
  FlagText out;
  if (text.size() > kCellCharacters) {
    out.note = concat("* ", heading, ": ", text, ".\n");
    text = flag.help;
  }
  out.row = concat("| ", heading, " | ", cell(flag.required ? "required" : flag.shown_default()), " | ",
                   cell(text), " |\n");
  return out;
}

constexpr const char* kIntroduction =
    R"(What an engine is made with: `serve`, `chat`, `run`, `generate`, `bench`, `simulate`, `doctor` and others share one set. To try:
`pagoda serve --max-model-len 4k --port 8001`. Each command's own flags: [commands.md](commands.md).

Names and defaults are vLLM's where it has the flag. `--flag-name`, `--flag_name`, `--flag value` and `--flag=value` are
the same; given twice, the last counts, and of a repeatable flag all. An unknown flag is an error (exit code 2), with
the nearest known one. Numbers may be written as sizes: `8k` is 8,000, `8K` 8,192;
`MB` is decimal, `M` and `MiB` are binary.

MODEL is a folder in Hugging Face layout, a .gguf file, or ORG/NAME in the local Hugging Face cache (`HF_HUB_CACHE`,
`HF_HOME`). Without it: the model that `script/model` puts into the cache folder.

## A file of flags

`pagoda serve --config FILE.yaml`, or `PAGODA_CONFIG`: flags by name, with `-` or `_`, as vLLM's:

    model: HuggingFaceTB/SmolLM2-135M-Instruct
    max_model_len: 2k
    enable-prefix-caching: false
    served-model-name: [small, default]
    speculative-config: {method: ngram, num_speculative_tokens: 5}

Switches take true or false, repeatable flags a list too. A key that no flag has, or that stands twice, is refused
with its line. `pagoda config check FILE.yaml` says so without starting anything. The command line comes before the
environment, that before the file.
)";

constexpr const char* kEnvironment =
    R"(
## Environment

`PAGODA_` and a flag's name in capitals sets each flag of this page: `PAGODA_MAX_MODEL_LEN=4k`,
`PAGODA_ENABLE_PREFIX_CACHING=false`; so does `PAGODA_RECORD`. An empty variable sets nothing; one that no flag has is
warned of. Beside them:

| variable | |
|---|---|
| `PAGODA_LOGGING_LEVEL`, `VLLM_LOGGING_LEVEL` | `DEBUG`, `INFO`, `WARNING`, `ERROR` |
| `PAGODA_CACHE` | the cache folder; else `$XDG_CACHE_HOME/pagoda`, else `~/.cache/pagoda` |
| `VLLM_API_KEY` | the key, where nothing else gives it |
| `VLLM_CPU_KVCACHE_SPACE` | the KV cache's size in GiB, where nothing else gives it |
| `OMP_NUM_THREADS` | threads, where nothing else gives them |
| `HF_HUB_CACHE`, `HF_HOME` | where ORG/NAME is looked for |
| `HF_ENDPOINT`, `HF_TOKEN` or `HF_TOKEN_PATH`, `HF_HUB_OFFLINE` | which hub is asked, with which token; or none at all |
)";

constexpr const char* kPeers =
    R"(
Many flags of vLLM and llama-server are flags here ([flags.md](flags.md)). The others are accepted where leaving them out
changes no answer, and named once in the log. A value that cannot be had here (`--pp 2`) is refused with the reason. So is
a flag that would change answers or promises more than is there. `--NAME.KEY VALUE` makes a JSON object, as in vLLM.
)";

// "--ctx-size -c"
std::string spelled(const PeerFlag& flag) {
  std::string text;
  std::string_view rest = flag.names;
  while (!rest.empty()) {
    const std::string_view name = rest.substr(0, rest.find(' '));
    const bool is_short = name.size() == 1 || (flag.peer == PeerFlag::Peer::llama_server && name.size() <= 5);
    const std::string_view dashes = is_short && text.size() > 0 ? "-" : "--";
    text += concat(text.empty() ? "" : " ", dashes, name);
    rest.remove_prefix(std::min(name.size() + 1, rest.size()));
  }
  return text;
}

std::string peer_section(PeerFlag::Peer peer, const char* name) {
  constexpr std::size_t kWidth = 116;
  std::string accepted, line, others;
  for (const PeerFlag& flag : peer_flag_table()) {
    if (flag.peer != peer) continue;
    const std::string names = spelled(flag);
    if (flag.rule == PeerFlag::Rule::no_effect) {
      if (line.size() + names.size() > kWidth) accepted += concat("    ", std::exchange(line, ""), "\n");
      line += concat(line.empty() ? "" : "  ", names);
      continue;
    }
    if (flag.rule == PeerFlag::Rule::of_cpu) {
      others += concat("| `", names, "` | all, without effect; with `--device` none | ", flag.why, " |\n");
      continue;
    }
    std::string values = flag.rule == PeerFlag::Rule::refused ? "" : concat("`", flag.accepted, "`");
    for (std::size_t at = 0; (at = values.find(' ', at)) < values.size(); at += 4)
      values.replace(at, 1, "`, `");
    others += concat("| `", names, "` | ", values.empty() ? "none" : values, " | ", flag.why, " |\n");
  }
  return concat("\n## ", name, "\n\nWithout effect:\n\n", accepted, "    ", line,
                "\n\n| flag | values that are accepted | reason |\n|---|---|---|\n", others);
}

}  // namespace

std::string flags_page(const Command& root) {
  const auto serve = std::ranges::find(root.subcommands, "serve", &Command::name);
  std::string text = "# Flags\n" + made("flags") + kIntroduction;
  std::string group, notes;
  const auto add_notes = [&] { text += notes.empty() ? "" : "\n" + std::exchange(notes, ""); };
  for (const Flag& flag : serve->flags) {
    if (flag.group.empty() || flag.hidden) continue;
    if (flag.group != group) {
      add_notes();
      text += concat("\n## ", flag.group, "\n\n| flag | default | |\n|---|---|---|\n");
    }
    group = flag.group;
    const FlagText said = text_of(flag);
    text += said.row;
    notes += said.note;
  }
  add_notes();
  return text + kEnvironment;
}

std::string peer_flags_page() {
  return "# Flags of vLLM and llama-server\n" + made("peer-flags") + kPeers +
         peer_section(PeerFlag::Peer::vllm, "vLLM") +
         peer_section(PeerFlag::Peer::llama_server, "llama-server");
}

std::string commands_page(const Command& root) {
  std::string text =
      "# Commands\n" + made("commands") +
      "What each command does, and the flags of its own. Those that take MODEL take every flag of "
      "[flags.md](flags.md) too. To try: `pagoda generate \"Once upon a time\"`.\n";
  text += "\n| command | |\n|---|---|\n";
  for (const auto& [path, command] : all_commands(root))
    if (command->run)
      text += concat("| `", cell(usage_line(path, *command)), "` | ", command->summary, " |\n");
  text += "\n| command | flag | default | |\n|---|---|---|---|\n";
  std::vector<std::pair<std::string, std::string>> rows;  // commands; a flag's row, once for all of them
  std::string notes;
  for (const auto& [path, command] : all_commands(root)) {
    if (!command->run) continue;
    for (const Flag& flag : command->flags) {
      if (flag.hidden || !flag.group.empty()) continue;
      const std::string name = concat("`", path.substr(path.find(' ') + 1), "`");
      const FlagText said = text_of(flag);
      if (notes.find(said.note) == std::string::npos) notes += said.note;
      const auto known = std::ranges::find(rows, said.row, &std::pair<std::string, std::string>::second);
      if (known == rows.end())
        rows.emplace_back(name, said.row);
      else
        known->first += concat(", ", name);
    }
  }
  for (const auto& [names, said] : rows) text += concat("| ", names, " ", said);
  return text + (notes.empty() ? "" : "\n" + notes);
}

}  // namespace pagoda
