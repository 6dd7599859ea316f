#include "api/ollama/ollama_embed.h"

#include <boost/json/object.hpp>

#include "api/field_reader.h"
#include "api/json.h"
#include "api/ollama/ollama_parser.h"
#include "api/unknown_fields.h"
#include "api/vector_prompts.h"
#include "api/vector_writer.h"
#include "base/strings.h"

namespace pagoda {
namespace {

class EmbedWriter final : public VectorWriter {
 public:
  EmbedWriter(std::string model, bool one, std::span<const Request> requests)
      : VectorWriter(requests), model_(std::move(model)), one_(one) {}

 protected:
  void write_begin(std::string& out) override {
    if (one_) {
      out.append("{\"embedding\":");
      if (vectors_.empty()) out.append("[]");
      return;
    }
    JsonWriter json(out);
    json.begin_object().key("model").string(to_valid_utf8(model_)).key("embeddings").begin_array();
  }
  void write_item(std::string& out, std::size_t index) override {
    JsonWriter json(out);
    write_floats(json, vectors_[index]);
    vectors_[index] = {};
  }
  void write_end(std::string& out) override {
    if (!one_)
      out.append(concat("],\"total_duration\":", duration(),
                        ",\"load_duration\":0,\"prompt_eval_count\":", usage().prompt_tokens));
    out.push_back('}');
  }

 private:
  std::string model_;
  bool one_;
};

bool is_empty(const boost::json::value* value) {
  return value == nullptr || (value->is_string() && value->get_string().empty()) ||
         (value->is_array() && value->get_array().empty());
}

}  // namespace

Result<ApiGeneration> ollama_embed(bool one, const ApiCall& call, const ApiContext& context) {
  const Result<boost::json::value> value = parse_json_body(call.body);
  if (!value) return value.error();
  FieldReader fields(value->as_object());
  const std::optional<std::string> model = fields.string("model", 1024);
  if (fields.ok() && !model) fields.fail("model", "is required");
  if (model) PAGODA_RETURN_IF_ERROR(check_ollama_model(*model, context));
  PAGODA_RETURN_IF_ERROR(check_makes_vectors(context, WorkKind::embed));
  VectorWishes wishes = default_wishes(context);
  if (fields.boolean("truncate").value_or(true)) wishes.keep_tokens = context.max_model_len;
  if (const auto dimensions = fields.integer("dimensions", 0, context.vectors->size);
      dimensions && *dimensions > 0)
    wishes.pooling.dimensions = static_cast<std::int32_t>(*dimensions);
  // The older route does not normalize vectors.
  wishes.pooling.normalize = !one;
  if (!fields.ok()) return fields.status();
  VectorPrompts prompts(context, std::move(wishes));
  const char* const name = one ? "prompt" : "input";
  if (!is_empty(fields.raw(name))) prompts.add_field(fields, name, /*with_ids=*/false);
  if (one && prompts.size() > 1) fields.fail(name, "must be one string");
  if (!fields.ok()) return fields.status();
  ApiGeneration out;
  note_unknown_fields(fields, out.warnings, {"keep_alive", "options"});
  out.id = concat("ollama-", call.id);
  out.requests = prompts.take();
  out.answer = std::make_unique<EmbedWriter>(*model, one, out.requests);
  return out;
}

}  // namespace pagoda
