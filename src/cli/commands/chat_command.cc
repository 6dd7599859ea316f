#include "cli/commands/chat_command.h"

#include <unistd.h>

#include <atomic>
#include <boost/json.hpp>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <iostream>

#include "api/openai/request_parser.h"
#include "base/strings.h"
#include "cli/assembly/assemble.h"
#include "cli/assembly/hub_settings.h"
#include "cli/commands/output_collector.h"
#include "text/detokenizer.h"

namespace pagoda {
namespace {

constexpr const char* kHelp =
    "/help            this list\n"
    "/system TEXT     replace the system prompt and begin anew\n"
    "/clear           forget the conversation\n"
    "/retry           answer the last message again\n"
    "/exit            leave (also end of input)\n"
    "Ctrl-C while an answer runs ends that answer.\n";

// Set by SIGINT while an answer is running.
std::atomic<bool> g_interrupted{false};
void on_interrupt(int) { g_interrupted = true; }

class Conversation {
 public:
  Conversation(AssembledEngine& engine, const ChatArgs& args)
      : engine_(engine), args_(args), system_(args.system_prompt) {
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
  void add_user(const std::string& text) { messages_.push_back({{"role", "user"}, {"content", text}}); }
  // Drops the last answer; false when there is none to drop.
  bool drop_answer() {
    if (messages_.empty() || messages_.back().as_object().at("role") != "assistant") return false;
    messages_.pop_back();
    return true;
  }
  void drop_last() { messages_.pop_back(); }

  // Streams the answer to stdout and remembers it.
  Status answer() {
    const boost::json::object body = {{"messages", messages_},
                                      {"max_tokens", args_.max_tokens},
                                      {"temperature", args_.temperature},
                                      {"top_p", args_.top_p}};
    auto call = parse_call(CallKind::chat, boost::json::serialize(body),
                           {.id = "chat", .created = std::time(nullptr)}, engine_.api());
    if (!call) return call.error();
    Request request = std::move(call->requests.front());
    request.id = RequestId{++next_request_};
    request.arrival_time = SteadyClock().now();
    const RequestId id = request.id;
    IncrementalDetokenizer detokenizer(*engine_.tokenizer(), true, request.prompt_token_ids);
    OutputCollector collector;
    PAGODA_RETURN_IF_ERROR(engine_.client().submit(std::move(request), collector.make_sink()));

    g_interrupted = false;
    std::string text;
    for (bool finished = false, aborted = false; !finished;) {
      for (const OutputCollector::Item& item : collector.take()) {
        if (!item.output.error.ok()) return item.output.error;
        for (const SequenceDelta& delta : item.output.deltas) {
          for (const TokenId token : delta.token_ids) show(text, detokenizer.push(token));
        }
        finished = finished || item.output.finished;
      }
      if (g_interrupted && !aborted) {
        engine_.client().abort(id);
        aborted = true;
      }
    }
    show(text, detokenizer.finish());
    std::fputc('\n', stdout);
    std::fflush(stdout);
    messages_.push_back({{"role", "assistant"}, {"content", text}});
    return ok_status();
  }

 private:
  static void show(std::string& text, const std::string& piece) {
    text += piece;
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    std::fflush(stdout);
  }

  AssembledEngine& engine_;
  const ChatArgs& args_;
  std::string system_;
  boost::json::array messages_;
  std::uint64_t next_request_ = 0;
};

// Answers what was added last; on an error says so and forgets it.
void answer_or_explain(Conversation& conversation) {
  if (const Status status = conversation.answer(); !status.ok()) {
    std::fprintf(stderr, "pagoda: %s\n", status.message().c_str());
    conversation.drop_last();
  }
}

}  // namespace

Status run_chat(const ChatArgs& args) {
  EngineFlags flags = args.engine;
  PAGODA_RETURN_IF_ERROR(fetch_if_missing(flags));
  auto engine = AssembledEngine::create(flags, AssembledEngine::Report::quiet);
  if (!engine) return engine.error();
  if ((*engine)->tokenizer() == nullptr)
    return invalid_argument("the model has no tokenizer; give one with --tokenizer");
  Conversation conversation(**engine, args);
  if (!args.prompt.empty()) {
    conversation.add_user(args.prompt);
    return conversation.answer();
  }
  std::signal(SIGINT, on_interrupt);
  const bool terminal = isatty(STDIN_FILENO) == 1;
  if (terminal) std::printf("%s. /help lists the commands.\n", (*engine)->model_name().c_str());
  for (std::string line;;) {
    if (terminal) {
      std::fputs("> ", stdout);
      std::fflush(stdout);
    }
    if (!std::getline(std::cin, line)) break;
    if (line.empty()) continue;
    if (line == "/exit" || line == "/quit" || line == "/bye") break;
    if (line == "/help") {
      std::fputs(kHelp, stdout);
    } else if (line == "/clear") {
      conversation.clear();
    } else if (line.starts_with("/system ")) {
      conversation.set_system(line.substr(8));
    } else if (line == "/retry") {
      if (conversation.drop_answer()) answer_or_explain(conversation);
    } else if (line.starts_with("/")) {
      std::printf("no command %s; /help lists them\n", line.c_str());
    } else {
      conversation.add_user(line);
      answer_or_explain(conversation);
    }
  }
  (*engine)->stop();
  return ok_status();
}

}  // namespace pagoda
