// The pages of docs/ that are generated from the rows.
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

// Escapes a text for a table cell.
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

// Longer cells are hard to read: the table then has the short help, and a note below has the details.
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

constexpr const char* kPageIntroduction =
    R"(The flags of an engine, which `serve`, `chat`, `run`, `generate`, `bench`, `simulate`, `doctor` and others share. To try:
`pagoda serve --max-model-len 4k --port 8001`. Each command's own flags: [commands.md](commands.md).

Names and defaults are vLLM's where vLLM has the flag. `--flag-name` and `--flag_name` are the same, and so are `--flag
value` and `--flag=value`. If a flag is given twice, the last value counts; a repeatable flag takes all of them. An unknown
flag is an error (exit code 2) that names the nearest known one. Numbers may be written as sizes: `8k` is 8,000 and `8K` is
8,192; `MB` is decimal, `M` and `MiB` are binary.

MODEL is a folder in Hugging Face layout, a .gguf file, or ORG/NAME[:TAG] on the hub, which is downloaded into the Hugging
Face cache (`HF_HUB_CACHE`, `HF_HOME`) if it is not there. Without MODEL, the default model is used, which `script/model`
downloads into the cache folder.

## A file of flags

`pagoda serve --config FILE.yaml`, or `PAGODA_CONFIG`: flags by name, with `-` or `_`, as vLLM's:

    model: HuggingFaceTB/SmolLM2-135M-Instruct
    max_model_len: 2k
    enable-prefix-caching: false
    served-model-name: [small, default]
    speculative-config: {method: ngram, num_speculative_tokens: 5}

Switches take true or false; repeatable flags also take a list. An unknown or repeated key is an error that names its line.
`pagoda config check FILE.yaml` checks a file without starting anything. The command line takes precedence over the
environment, and the environment over the file.
)";

constexpr const char* kEnvironment =
    R"(
## Environment

Each flag of this page, and `--record`, can be set by a variable: `PAGODA_` and the flag's name in capitals, such as
`PAGODA_MAX_MODEL_LEN=4k` or `PAGODA_ENABLE_PREFIX_CACHING=false`. An empty variable sets nothing; an unknown one gets a
warning. Further variables:

| variable | |
|---|---|
| `PAGODA_LOGGING_LEVEL`, `VLLM_LOGGING_LEVEL` | `DEBUG`, `INFO`, `WARNING`, `ERROR` |
| `PAGODA_CACHE` | cache folder; default: `$XDG_CACHE_HOME/pagoda`, or else `~/.cache/pagoda` |
| `PAGODA_AMX` | `0`: matrix products and attention without AMX, where the processor has it |
| `VLLM_API_KEY`, `LLAMA_API_KEY` | API key, if nothing else sets one |
| `VLLM_CPU_KVCACHE_SPACE` | size of the KV cache in GiB, if nothing else sets it |
| `VLLM_ALLOW_RUNTIME_LORA_UPDATING` | `1` or `True`: as `--allow-runtime-lora-updating` |
| `OMP_NUM_THREADS` | number of threads, if nothing else sets it |
| `HF_HUB_CACHE`, `HF_HOME` | folder in which ORG/NAME is looked up |
| `HF_ENDPOINT`, `HF_TOKEN` or `HF_TOKEN_PATH`, `HF_HUB_OFFLINE` | URL of the hub, access token, and whether to use only what is on disk |
)";

constexpr const char* kPeers =
    R"(
Many flags of vLLM and llama-server are flags here ([flags.md](flags.md)). Others are accepted if ignoring them changes no
answer; the log names them once. An unsupported value (`--pp 2`) is refused with the reason, and so is a flag that would
change answers or needs a feature that is missing. `--NAME.KEY VALUE` makes a JSON object, as in vLLM.
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
  return concat("\n## ", name, "\n\nAccepted and ignored:\n\n", accepted, "    ", line,
                "\n\n| flag | accepted values | reason |\n|---|---|---|\n", others);
}

}  // namespace

std::string flags_page(const Command& root) {
  const auto serve = std::ranges::find(root.subcommands, "serve", &Command::name);
  std::string text = "# Flags\n" + made("flags") + kPageIntroduction;
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
  std::string text = "# Commands\n" + made("commands") +
                     "The commands, and the flags of each. Commands that take MODEL also take every flag of "
                     "[flags.md](flags.md). To try: `pagoda generate \"Once upon a time\"`.\n";
  text += "\n| command | |\n|---|---|\n";
  for (const auto& [path, command] : all_commands(root))
    if (command->run)
      text += concat("| `", cell(usage_line(path, *command)), "` | ", command->summary, " |\n");
  text += "\n| command | flag | default | |\n|---|---|---|---|\n";
  // The commands of each flag row; equal rows are merged.
  std::vector<std::pair<std::string, std::string>> rows;
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
