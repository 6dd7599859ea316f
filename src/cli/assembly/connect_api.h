#pragma once
// connect_api: what protocols need to know of an engine that is about to start: names, templates, ends of
// answers, sampling defaults, grammars. Borrows the objects that `api` points to. Threads: any.
#include <string>
#include <vector>

#include "api/api_context.h"
#include "cli/assembly/engine_plan.h"
#include "cli/assembly/load_chat_template.h"
#include "cli/flags/engine_flags.h"
#include "loader/model_source.h"
#include "models/model_info.h"

namespace pagoda {

// The parts of a started engine that protocols use.
struct ApiParts {
  const ModelSource& source;
  const ModelInfo& model;
  const Tokenizer* tokenizer = nullptr;  // null: the model has none
  const ChatTemplates& chat_templates;
  GrammarService* grammars = nullptr;  // null: this build has none
};

// The names under which requests know the model, patterns left out; at least one.
std::vector<std::string> model_names(const EngineFlags& flags, const ModelSource& source);

// Fills all but api.eos_token_ids, which grammars need before it, api.vectors and api.facts.weight_bytes.
Status connect_api(const EngineFlags& flags, const EnginePlan& plan, const ApiParts& parts, ApiContext& api);

}  // namespace pagoda
