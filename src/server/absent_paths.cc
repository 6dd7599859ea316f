#include "server/absent_paths.h"

namespace pagoda {
namespace {

constexpr std::string_view kTextOnly = "The models that are served here read and write text only.";
constexpr std::string_view kFiles =
    "Files and batches are not kept here; 'pagoda run-batch' runs a file of calls.";
constexpr std::string_view kStateful =
    "Conversations are kept by /v1/responses, with 'previous_response_id'.";
constexpr std::string_view kModels =
    "A server has the model that it was started with; 'pagoda pull', 'list' and 'rm' manage files.";
constexpr std::string_view kCompletions = "Texts are continued by /v1/completions and /v1/chat/completions.";
constexpr std::string_view kEmbeddings = "Vectors are made by /v1/embeddings.";
constexpr std::string_view kClassify = "Texts are classified by /classify, of a model that classifies.";

constexpr std::string_view kGemini = "Gemini's protocol is not served; /v1/chat/completions is OpenAI's.";

struct AbsentPath {
  std::string_view path, instead;  // the path, and all paths below it
};
constexpr AbsentPath kAbsent[] = {
    {"/audio", kTextOnly},
    {"/images", kTextOnly},
    {"/videos", kTextOnly},
    {"/realtime", "Answers are streamed by /v1/chat/completions, /v1/responses and /v1/messages."},
    {"/moderations", kClassify},
    {"/predict", kClassify},
    {"/similarity", "Texts are compared by /score."},
    {"/files", kFiles},
    {"/uploads", kFiles},
    {"/batches", kFiles},
    {"/messages/batches", kFiles},
    {"/fine_tuning", "Models are not trained here."},
    {"/assistants", kStateful},
    {"/threads", kStateful},
    {"/conversations", kStateful},
    {"/vector_stores", kEmbeddings},
    {"/embed", kEmbeddings},
    {"/embed_all", kEmbeddings},
    {"/embed_sparse", kEmbeddings},
    {"/embed_multi", kEmbeddings},
    {"/generate", kCompletions},
    {"/generate_stream", kCompletions},
    {"/fim/completions", "The middle of a text is written by /v1/completions with 'suffix', and by /infill."},
    {"/agents/completions", kCompletions},
    {"/v2/models", kCompletions},
    {"/complete", "Anthropic's protocol is served by /v1/messages."},
    {"/inference/v1/generate", kCompletions},
    {"/invocations", kCompletions},
    {"/v2/chat", kCompletions},
    {"/v1beta", kGemini},
    {"/api/create", kModels},
    {"/api/copy", kModels},
    {"/api/delete", kModels},
    {"/api/push", kModels},
    {"/api/blobs", kModels},
    {"/models/load", kModels},
    {"/models/unload", kModels},
};

}  // namespace

std::string_view instead_of(std::string_view path) {
  if (path.starts_with("/v1/")) path.remove_prefix(3);
  if (path.starts_with("/models/") &&
      (path.ends_with("enerateContent") || path.ends_with(":embedContent") || path.ends_with(":countTokens")))
    return kGemini;
  if (path == "/chat") return kCompletions;
  for (const AbsentPath& absent : kAbsent)
    if (path == absent.path ||
        (path.starts_with(absent.path) && path.substr(absent.path.size()).starts_with('/')))
      return absent.instead;
  return {};
}

}  // namespace pagoda
