#include "api/pooling/pooling_parser.h"

#include <boost/json/array.hpp>
#include <limits>

#include "api/field_reader.h"
#include "api/json.h"
#include "api/tool_fields.h"
#include "api/unknown_fields.h"
#include "api/vector_prompts.h"
#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

std::string_view id_prefix(PoolingForm form) {
  switch (form) {
    case PoolingForm::embeddings:
    case PoolingForm::embedding_list:
    case PoolingForm::vector_list:
    case PoolingForm::by_type:
      return "embd-";
    case PoolingForm::pooling:
      return "pool-";
    case PoolingForm::classify:
      return "classify-";
    case PoolingForm::score:
      return "score-";
    case PoolingForm::rerank:
    case PoolingForm::rerank_list:
      break;
  }
  return "rerank-";
}

void read_id(FieldReader& fields, const ApiCall& origin, PoolingCall& call) {
  const std::string own = fields.string("request_id", 128).value_or("");
  for (const char c : own)
    if (c <= 0x20 || c >= 0x7f) fields.fail("request_id", "must be printable ASCII without spaces");
  call.id = concat(id_prefix(call.form), own.empty() ? origin.id : own);
  call.created = origin.created;
}

VectorWishes read_wishes(FieldReader& fields, const ApiContext& context) {
  VectorWishes wishes = default_wishes(context);
  constexpr std::int64_t kLow = std::numeric_limits<std::int32_t>::min();
  constexpr std::int64_t kHigh = std::numeric_limits<std::int32_t>::max();
  wishes.priority = static_cast<std::int32_t>(fields.integer("priority", kLow, kHigh).value_or(0));
  wishes.cache_salt = fields.string("cache_salt", 1024).value_or("");
  wishes.add_special_tokens = fields.boolean("add_special_tokens").value_or(true);
  if (const auto keep = fields.integer("truncate_prompt_tokens", -1, context.max_model_len)) {
    if (*keep == 0) fields.fail("truncate_prompt_tokens", "must be -1 or at least 1");
    wishes.keep_tokens = *keep < 0 ? context.max_model_len : *keep;
  }
  // vLLM's three names of the field, newest first.
  for (const char* name : {"use_activation", "normalize", "activation"}) {
    if (const auto value = fields.boolean(name)) {
      wishes.pooling.normalize = *value;
      break;
    }
  }
  // llama.cpp's number of the norm.
  if (const auto norm = fields.integer("embd_normalize", -1, 1 << 30)) {
    if (*norm != -1 && *norm != 2)
      fields.not_built("embd_normalize", "2 makes vectors of length 1, and -1 leaves them as they are");
    wishes.pooling.normalize = *norm == 2;
  }
  return wishes;
}

void read_embedding_fields(FieldReader& fields, const ApiContext& context, VectorWishes& wishes,
                           PoolingCall& call) {
  const std::string format = fields.string("encoding_format", 32).value_or("float");
  if (format != "float" && format != "base64") fields.fail("encoding_format", "must be 'float' or 'base64'");
  call.base64 = format == "base64";
  if (fields.string("embed_dtype", 32).value_or("float32") != "float32")
    fields.fail("embed_dtype", "can only be 'float32'");
  if (const std::string order = fields.string("endianness", 32).value_or("native");
      order != "native" && order != "little")
    fields.fail("endianness", "can only be 'native' or 'little'");
  if (const auto dimensions = fields.integer("dimensions", 1, std::numeric_limits<std::int32_t>::max())) {
    if (context.vectors->kind != WorkKind::embed)
      fields.fail("dimensions", "applies to embeddings, and this model classifies");
    else if (*dimensions > context.vectors->size)
      fields.fail("dimensions", concat("must be at most the ", context.vectors->size, " of this model"));
    else
      wishes.pooling.dimensions = static_cast<std::int32_t>(*dimensions);
  }
}

// Reads the fields of text-embeddings-inference and Cohere for truncation and for the encoding of vectors.
void read_embed_fields(FieldReader& fields, const ApiContext& context, VectorWishes& wishes,
                       PoolingForm form) {
  if (form == PoolingForm::vector_list) {
    if (fields.boolean("truncate").value_or(false)) wishes.keep_tokens = context.max_model_len;
    fields.not_built("prompt_name", "write the prompt before the text");
    return;
  }
  if (form != PoolingForm::by_type) return;
  const std::string cut = fields.string("truncate", 32).value_or("END");
  if (cut != "NONE" && cut != "START" && cut != "END")
    fields.fail("truncate", "must be 'NONE', 'START' or 'END'");
  if (cut != "NONE") wishes.keep_tokens = context.max_model_len;
  (void)fields.string("input_type", 64);  // required by Cohere's clients; has no effect on texts
  for (const char* name : {"images", "inputs"}) fields.not_built(name, "send 'texts'");
  for (const std::string& type : fields.strings("embedding_types", 8, 32))
    if (type != "float") fields.fail("embedding_types", "can only be ['float']");
  if (const auto size = fields.integer("output_dimension", 1, context.vectors->size))
    wishes.pooling.dimensions = static_cast<std::int32_t>(*size);
}

// Reads a text, an object with a text, or a list of these.
std::vector<std::string> read_texts(FieldReader& fields, std::initializer_list<std::string_view> names) {
  std::vector<std::string> texts;
  const auto found = std::ranges::find_if(names, [&](std::string_view name) { return fields.has(name); });
  if (found == names.end()) {
    fields.fail(*names.begin(), "is required");
    return texts;
  }
  const auto take = [&](const json::value& value, const std::string& path) {
    const json::object* object = value.if_object();
    const json::value* text = object == nullptr ? &value : object->if_contains("text");
    if (text == nullptr || !text->is_string()) return fields.fail(path, "must be a string");
    texts.emplace_back(text->get_string());
  };
  const json::value& value = *fields.raw(*found, {"string", "array", "object"});
  if (!value.is_array()) {
    take(value, std::string(*found));
    return texts;
  }
  if (value.get_array().empty()) fields.fail(*found, "must not be empty");
  if (value.get_array().size() > kMaxVectorPrompts)
    fields.fail(*found, concat("must have at most ", kMaxVectorPrompts, " entries"));
  for (std::size_t i = 0; i < value.get_array().size() && fields.ok(); ++i)
    take(value.get_array()[i], concat(*found, ".", i));
  return texts;
}

// Pairs the entries of `first` and `second`; a single `first` is paired with every `second`.
void add_pairs(FieldReader& fields, const std::vector<std::string>& first,
               const std::vector<std::string>& second, std::string_view second_name, VectorPrompts& prompts,
               PoolingCall& call) {
  if (!fields.ok()) return;
  if (first.size() != 1 && first.size() != second.size())
    return fields.fail(second_name, concat("must have as many entries as there are first texts (",
                                           first.size(), "), or there must be one of these"));
  const auto keep = [&fields](Status status) {
    if (!status.ok()) fields.fail(std::move(status));
  };
  const std::string name(second_name);
  if (fields.ok() && call.num_compared > 0) {
    call.num_compared = first.size();
    for (const std::string& text : first)
      if (fields.ok()) keep(prompts.add_text(text, "first texts"));
    for (std::size_t i = 0; i < second.size() && fields.ok(); ++i)
      keep(prompts.add_text(second[i], concat(name, ".", i)));
    return;
  }
  for (std::size_t i = 0; i < second.size() && fields.ok(); ++i)
    keep(prompts.add_pair(first[first.size() == 1 ? 0 : i], second[i], concat(name, ".", i)));
}

// Some paths serve two forms; the fields of the body decide which one.
PoolingForm form_of(PoolingForm form, const FieldReader& fields) {
  if (form == PoolingForm::embeddings && fields.has("content") && !fields.has("input"))
    return PoolingForm::embedding_list;
  if (form == PoolingForm::rerank && fields.has("texts") && !fields.has("documents"))
    return PoolingForm::rerank_list;
  return form;
}

Status check_scores(const ApiContext& context) {
  if (context.vectors->kind == WorkKind::embed || context.vectors->size == 1) return ok_status();
  return invalid_argument(concat("This model classifies into ", context.vectors->size,
                                 " classes and returns no single score."))
      .with_param("model");
}

}  // namespace

Result<PoolingCall> parse_pooling_call(PoolingForm form, const ApiCall& origin, const ApiContext& context) {
  const Result<json::value> value = parse_json_body(origin.body);
  if (!value) return value.error();
  FieldReader fields(value->as_object());
  if (const auto model = fields.string("model", 1024)) PAGODA_RETURN_IF_ERROR(check_model(*model, context));
  form = form_of(form, fields);
  const bool embeds = form == PoolingForm::embeddings || form == PoolingForm::embedding_list ||
                      form == PoolingForm::vector_list || form == PoolingForm::by_type;
  const bool ranks = form == PoolingForm::rerank || form == PoolingForm::rerank_list;
  PAGODA_RETURN_IF_ERROR(embeds                          ? check_makes_vectors(context, WorkKind::embed)
                         : form == PoolingForm::classify ? check_makes_vectors(context, WorkKind::score)
                                                         : check_makes_vectors(context));
  PoolingCall call;
  call.form = form;
  read_id(fields, origin, call);
  VectorWishes wishes = read_wishes(fields, context);
  (void)fields.string("user", kAnyLength);
  for (const char* name : {"messages", "chat_template", "mm_processor_kwargs"})
    fields.not_built(name, "send texts or token ids");

  if (form == PoolingForm::score || ranks) {
    PAGODA_RETURN_IF_ERROR(check_scores(context));
    if (!fields.ok()) return fields.status();
    call.num_compared = context.vectors->kind == WorkKind::embed ? 1 : 0;
    if (call.num_compared > 0) wishes.pooling.normalize = true;
    VectorPrompts prompts(context, std::move(wishes));
    if (ranks) {
      const std::optional<std::string> query = fields.string("query", kAnyLength);
      if (fields.ok() && !query) fields.fail("query", "is required");
      call.documents = read_texts(fields, {"documents", "texts"});
      call.top_n = static_cast<std::size_t>(fields.integer("top_n", 0, 1 << 30).value_or(0));
      call.return_documents = form == PoolingForm::rerank ? fields.boolean("return_documents").value_or(true)
                                                          : fields.boolean("return_text").value_or(false);
      add_pairs(fields, {query.value_or("")}, call.documents, "documents", prompts, call);
    } else {
      const std::vector<std::string> first = read_texts(fields, {"text_1", "queries", "data_1"}),
                                     second = read_texts(fields, {"text_2", "documents", "items", "data_2"});
      add_pairs(fields, first, second, "text_2", prompts, call);
    }
    call.requests = prompts.take();
  } else {
    if (form != PoolingForm::classify) read_embedding_fields(fields, context, wishes, call);
    read_embed_fields(fields, context, wishes, form);
    if (const std::string task = fields.string("task", 64).value_or("");
        form == PoolingForm::pooling && !task.empty() &&
        task != (context.vectors->kind == WorkKind::embed ? "embed" : "classify"))
      fields.fail("task", "must be the task of the model, which returns a vector for each text");
    if (!fields.ok()) return fields.status();
    VectorPrompts prompts(context, std::move(wishes));
    const bool content = form == PoolingForm::embedding_list && !fields.has("input");
    prompts.add_field(fields,
                      form == PoolingForm::vector_list ? "inputs"
                      : form == PoolingForm::by_type   ? "texts"
                      : content                        ? "content"
                                                       : "input",
                      /*with_ids=*/form != PoolingForm::by_type);
    call.requests = prompts.take();
  }
  if (!fields.ok()) return fields.status();
  note_unknown_fields(
      fields, call.warnings,
      {"queries", "documents", "items", "data_1", "data_2", "max_tokens_per_doc", "truncation_direction"});
  return call;
}

}  // namespace pagoda
