#include "text/answer_parser.h"

#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "text/answer_formats/held_calls.h"
#include "text/answer_formats/marker_lexer.h"
#include "text/answer_formats/message_sink.h"
#include "text/answer_formats/registry.h"
#include "text/answer_formats/think_tags.h"

namespace pagoda {
namespace {

// Feeds the content of the reasoning format to the tool format.
class ContentFeed final : public answer::AnswerOutput {
 public:
  ContentFeed(answer::MessageSink& sink, answer::MarkerLexer& tools) : sink_(sink), tools_(tools) {}
  void reasoning(std::string_view text) override { sink_.reasoning(text); }
  void content(std::string_view text) override { tools_.push(text); }
  void call(const answer::WrittenCall& call) override { sink_.call(call); }
  void call_begun(std::string_view name, std::string_view id) override { sink_.call_begun(name, id); }
  void call_arguments(std::string_view text) override { sink_.call_arguments(text); }
  void call_ended() override { sink_.call_ended(); }

 private:
  answer::MessageSink& sink_;
  answer::MarkerLexer& tools_;
};

}  // namespace

struct AnswerParser::Pipeline {
  explicit Pipeline(const AnswerParserOptions& options)
      : tools(options.tools), keep_special_tokens(options.keep_special_tokens), sink(options.calls_forced) {}

  // Adds stages in the order in which they see the text; without any stage, everything is content.
  void add(std::unique_ptr<answer::AnswerStage> stage) {
    stages.push_back(std::move(stage));
    lexers.push_back(std::make_unique<answer::MarkerLexer>(*stages.back()));
  }
  bool uses_special(std::string_view text) const {
    for (const auto& stage : stages)
      if (stage->uses_special(text)) return true;
    return false;
  }

  answer::ToolTypes tools;
  bool keep_special_tokens;
  answer::MessageSink sink;
  std::unique_ptr<ContentFeed> feed;
  std::vector<std::unique_ptr<answer::AnswerStage>> stages;  // last stage first
  std::vector<std::unique_ptr<answer::MarkerLexer>> lexers;
  bool finished = false;
};

AnswerParser::AnswerParser(std::unique_ptr<Pipeline> pipeline) : pipeline_(std::move(pipeline)) {}
AnswerParser::~AnswerParser() = default;
AnswerParser::AnswerParser(AnswerParser&&) noexcept = default;
AnswerParser& AnswerParser::operator=(AnswerParser&&) noexcept = default;

Result<AnswerParser> AnswerParser::create(AnswerParserOptions options) {
  const std::string& tool_parser = options.tool_parser;
  const std::string& reasoning_parser = options.reasoning_parser;
  const answer::ToolFormat* tool_format = answer::find_tool_format(tool_parser);
  const answer::ThinkTags* tags = answer::find_think_tags(reasoning_parser);
  const answer::MessageFormat* of_tools = answer::find_message_format_of_tools(tool_parser);
  const answer::MessageFormat* of_reasoning = answer::find_message_format_of_reasoning(reasoning_parser);
  if (!tool_parser.empty() && tool_format == nullptr && of_tools == nullptr)
    return invalid_argument(concat("--tool-call-parser: there is no parser '", tool_parser, "'"));
  if (!reasoning_parser.empty() && tags == nullptr && of_reasoning == nullptr)
    return invalid_argument(concat("--reasoning-parser: there is no parser '", reasoning_parser, "'"));
  if ((of_tools != nullptr && !reasoning_parser.empty() && of_tools != of_reasoning) ||
      (of_reasoning != nullptr && !tool_parser.empty() && of_tools != of_reasoning))
    return invalid_argument(concat("--reasoning-parser ", reasoning_parser,
                                   " cannot be used with --tool-call-parser ", tool_parser));

  auto pipeline = std::make_unique<Pipeline>(options);
  const CallShape* shape = options.held_shape;
  const answer::ToolContext context{
      .tools = pipeline->tools, .out = pipeline->sink, .held = shape != nullptr};
  if (const answer::MessageFormat* format = of_tools ? of_tools : of_reasoning; format != nullptr) {
    pipeline->add(format->make(context, of_tools != nullptr && options.calls_allowed, of_reasoning != nullptr,
                               options.starts_in_reasoning));
    return AnswerParser(std::move(pipeline));
  }
  if (shape != nullptr && shape->style == "json")
    pipeline->add(answer::make_held_calls_stage(*shape, context));
  else if (tool_format != nullptr && options.calls_allowed)
    pipeline->add(tool_format->make(context, tool_format->name));
  if (tags != nullptr) {
    answer::AnswerOutput* next = &pipeline->sink;
    if (!pipeline->lexers.empty()) {
      pipeline->feed = std::make_unique<ContentFeed>(pipeline->sink, *pipeline->lexers.back());
      next = pipeline->feed.get();
    }
    pipeline->add(answer::make_think_stage(*tags, options.starts_in_reasoning, *next));
  }
  return AnswerParser(std::move(pipeline));
}

void AnswerParser::push(const AnswerPiece& piece, std::vector<AnswerEvent>& events) {
  CHECK(!pipeline_->finished);
  pipeline_->sink.set_events(&events);
  if (piece.special && !pipeline_->keep_special_tokens && !pipeline_->uses_special(piece.text)) return;
  if (pipeline_->lexers.empty()) return pipeline_->sink.content(piece.text);
  answer::MarkerLexer& first = *pipeline_->lexers.back();
  if (piece.token && pipeline_->stages.back()->by_token())
    first.push_token(piece.text, piece.special);
  else
    first.push(piece.text);
}

void AnswerParser::finish(std::vector<AnswerEvent>& events) {
  CHECK(!pipeline_->finished);
  pipeline_->finished = true;
  pipeline_->sink.set_events(&events);
  for (std::size_t i = pipeline_->lexers.size(); i-- > 0;) pipeline_->lexers[i]->finish();
  pipeline_->sink.finish();
}

}  // namespace pagoda
