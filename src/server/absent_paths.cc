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
constexpr std::string_view kAdapters = "Adapters cannot be loaded; serve a model into which they are merged.";
constexpr std::string_view kCompletions = "Texts are continued by /v1/completions and /v1/chat/completions.";
constexpr std::string_view kEmbeddings = "Vectors are made by /v1/embeddings.";

struct AbsentPath {
  std::string_view path, instead;  // the path and those below it
};
constexpr AbsentPath kAbsent[] = {
    {"/audio", kTextOnly},
    {"/images", kTextOnly},
    {"/videos", kTextOnly},
    {"/realtime", "Answers are streamed by /v1/chat/completions, /v1/responses and /v1/messages."},
    {"/moderations", "Texts are classified by /classify, of a model that classifies."},
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
    {"/v2/embed", kEmbeddings},
    {"/load_lora_adapter", kAdapters},
    {"/unload_lora_adapter", kAdapters},
    {"/generate", kCompletions},
    {"/generate_stream", kCompletions},
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
  for (const AbsentPath& absent : kAbsent)
    if (path == absent.path ||
        (path.starts_with(absent.path) && path.substr(absent.path.size()).starts_with('/')))
      return absent.instead;
  return {};
}

}  // namespace pagoda
