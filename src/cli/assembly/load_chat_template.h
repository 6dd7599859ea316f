#pragma once
// The chat template of a model: --chat-template FILE, else the one the model brings (GGUF metadata,
// chat_template.jinja, tokenizer_config.json).
#include <boost/json/object.hpp>
#include <memory>
#include <string>

#include "base/status.h"
#include "loader/model_source.h"
#include "text/chat_template.h"

namespace pagoda {

// Null when the model has none. invalid_argument: --chat-template cannot be read or parsed. A template of
// the model's own that cannot be parsed is a warning: completions still work.
Result<std::unique_ptr<ChatTemplate>> load_chat_template(const std::string& file, const ModelSource& source);

// The object of --default-chat-template-kwargs; of an empty text an empty one. invalid_argument: it is none,
// or sets what conversations set.
Result<boost::json::object> default_template_kwargs(const std::string& text);

}  // namespace pagoda
