#include "cli/chat/chat_command.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/json.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "cli/chat/chat_backend.h"
#include "cli/chat/line_editor.h"
#include "cli/commands/typed_words.h"
#include "hub/pull.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

constexpr const char* kHelp =
    "/help              this list\n"
    "/system TEXT       replace the system prompt and begin anew\n"
    "/clear             forget the conversation\n"
    "/retry             answer the last message again\n"
    "/set NAME VALUE    temperature, top_p, top_k, min_p, repetition_penalty, max_tokens or seed of later "
    "answers\n"
    "/exit              leave (also end of input)\n"
    "Several lines: between two lines of \"\"\", or with \\ at a line's end.\n"
    "Ctrl-C ends the answer that runs, or drops what is typed.\n";

std::atomic<bool> g_interrupted{false};
int g_interrupts = -1;  // an eventfd, also polled while waiting for a key
void on_interrupt(int) {
  g_interrupted = true;
  eventfd_write(g_interrupts, 1);
}

// Makes SIGINT interrupt answers and waiting for a key.
void catch_interrupts() {
  g_interrupts = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  sigaction(SIGINT, &action, nullptr);
}

// Under XDG_STATE_HOME, like the histories of shells.
std::string history_file() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  if (state != nullptr && *state == '/') return concat(state, "/pagoda/chat_history");
  return home != nullptr && *home == '/' ? concat(home, "/.local/state/pagoda/chat_history") : std::string();
}

// Parameters of a request that can be set, by their names in the API.
constexpr std::array<std::string_view, 7> kParameters = {"temperature",        "top_p",      "top_k", "min_p",
                                                         "repetition_penalty", "max_tokens", "seed"};

class ChatTurns {
 public:
  ChatTurns(ChatBackend& backend, const ChatArgs& args)
      : backend_(backend), system_(args.system_prompt), parameters_({{"max_tokens", args.max_tokens}}) {
    const SamplingFlags& given = args.engine.sampling;
    const auto add = [this](const char* name, const auto& value) {
      if (value) parameters_[name] = *value;
    };
    add("temperature", given.temperature);
    add("top_p", given.top_p);
    add("top_k", given.top_k);
    add("min_p", given.min_p);
    add("repetition_penalty", given.repetition_penalty);
    clear();
  }

  void clear() {
    messages_.clear();
    if (!system_.empty()) messages_.push_back({{"role", "system"}, {"content", system_}});
  }
  void set_system(std::string text) {
    system_ = std::move(text);
    clear();
  }
  // Returns false if the parameter does not exist or the value is not a number.
  bool set(const std::string& name, const std::string& value) {
    boost::system::error_code error;
    const boost::json::value number = boost::json::parse(value, error);
    if (error || !number.is_number() || std::ranges::count(kParameters, name) == 0) return false;
    parameters_[name] = number;
    return true;
  }
  void add_user(const std::string& text) { messages_.push_back({{"role", "user"}, {"content", text}}); }
  // Drops the last answer. Returns false if there is none.
  bool drop_answer() {
    if (messages_.empty() || messages_.back().as_object().at("role") != "assistant") return false;
    messages_.pop_back();
    return true;
  }
  void drop_last() { messages_.pop_back(); }

  // Streams the answer to stdout and adds it to the conversation.
  Status answer() {
    boost::json::object body = parameters_;
    body["messages"] = messages_;
    g_interrupted = false;
    std::string text;
    const AnswerWatcher watcher = {.show =
                                       [&text](std::string_view piece) {
                                         text += piece;
                                         std::fwrite(piece.data(), 1, piece.size(), stdout);
                                         std::fflush(stdout);
                                       },
                                   .interrupted = [] { return g_interrupted.load(); }};
    const Status status = backend_.answer(std::move(body), watcher);
    if (status.ok() || !text.empty()) std::fputc('\n', stdout);
    std::fflush(stdout);
    if (status.ok()) messages_.push_back({{"role", "assistant"}, {"content", text}});
    return status;
  }

 private:
  ChatBackend& backend_;
  std::string system_;
  boost::json::object parameters_;  // parameters set by the user; others have the model's defaults
  boost::json::array messages_;
};

// Answers the last message. On an error, prints the error and drops the message.
void answer_or_explain(ChatTurns& conversation) {
  if (const Status status = conversation.answer(); !status.ok()) {
    std::fprintf(stderr, "pagoda: %s\n", status.message().c_str());
    conversation.drop_last();
  }
}

// Reads one message: a line, lines that end with a backslash, or the text between two lines of """. nullopt
// at the end of input; empty if there is nothing to answer.
std::optional<std::string> read_message(LineEditor& editor) {
  constexpr std::string_view kFence = "\"\"\"";
  const std::string first_prompt = editor.on_terminal() ? "> " : "",
                    next_prompt = editor.on_terminal() ? ". " : "";
  std::string text;
  bool fenced = false, begun = false;
  for (;;) {
    g_interrupted = false;
    std::optional<std::string> line = editor.read(begun ? next_prompt : first_prompt);
    if (!line && g_interrupted) return std::string();
    if (!line) return begun ? std::optional(text) : std::nullopt;
    if (!begun && line->starts_with(kFence)) {
      fenced = true;
      line->erase(0, kFence.size());
      begun = true;
      if (line->empty()) continue;
    }
    begun = true;
    if (fenced) {
      const bool closed = line->ends_with(kFence);
      if (closed) line->resize(line->size() - kFence.size());
      text += *line;
      if (closed) break;
      text += '\n';
      continue;
    }
    const bool goes_on = line->ends_with('\\');
    if (goes_on) line->back() = '\n';
    text += *line;
    if (!goes_on) break;
  }
  if (fenced && text.ends_with('\n')) text.pop_back();
  return text;
}

// Returns false if the command ends the session.
bool obey(const std::string& command, ChatTurns& conversation) {
  const std::size_t space = std::min(command.find(' '), command.size());
  const std::string name = command.substr(0, space),
                    rest = command.substr(std::min(space + 1, command.size()));
  if (name == "/exit" || name == "/quit" || name == "/bye") return false;
  if (name == "/help" || name == "/?") {
    std::fputs(kHelp, stdout);
  } else if (name == "/clear") {
    conversation.clear();
  } else if (name == "/system") {
    conversation.set_system(rest);
  } else if (name == "/retry") {
    if (conversation.drop_answer()) answer_or_explain(conversation);
  } else if (name == "/set") {
    const std::size_t gap = std::min(rest.find(' '), rest.size());
    if (!conversation.set(rest.substr(0, gap), rest.substr(std::min(gap + 1, rest.size()))))
      std::printf(
          "/set NAME NUMBER: temperature, top_p, top_k, min_p, repetition_penalty, max_tokens or seed\n");
  } else {
    std::printf("no command %s; /help lists them\n", printable(name).c_str());
  }
  return true;
}

// A single word is a model if it is a path, or has the form of a name on the hub.
bool can_name_model(const std::string& word) {
  std::error_code error;
  if (std::filesystem::exists(word, error)) return true;
  if (word.find_first_of(" \t\n") != std::string::npos) return false;
  return word.find('/') != std::string::npos || word.ends_with(".gguf") || parse_pull_name(word);
}

}  // namespace

Status run_chat(const ChatArgs& args) {
  PAGODA_ASSIGN_OR_RETURN(
      auto backend, args.url.empty() ? engine_backend(args.engine) : server_backend(args.url, args.engine));
  ChatTurns conversation(*backend, args);
  if (!args.prompt.empty()) {
    conversation.add_user(args.prompt);
    return conversation.answer();
  }
  catch_interrupts();
  LineEditor editor(args.history ? history_file() : std::string(), g_interrupts);
  if (editor.on_terminal()) std::printf("%s. /help lists the commands.\n", backend->name().c_str());
  while (std::optional<std::string> text = read_message(editor)) {
    if (text->empty()) continue;
    editor.remember(*text);
    if (text->starts_with('/')) {
      if (!obey(*text, conversation)) break;
    } else {
      conversation.add_user(*text);
      answer_or_explain(conversation);
    }
  }
  return ok_status();
}

Status run_run(const ChatArgs& given) {
  ChatArgs args = given;
  const bool is_prompt = args.prompt.empty() && !args.first.empty() && !can_name_model(args.first);
  if (is_prompt)
    args.prompt = args.first;
  else if (!args.first.empty())
    args.engine.model = args.first;
  if (!args.prompt.empty() || isatty(STDIN_FILENO) == 1) return run_chat(args);
  PAGODA_ASSIGN_OR_RETURN(args.prompt, piped_text(""));
  return run_chat(args);
}

}  // namespace pagoda
