#pragma once
// connect_api: fills in what protocols need from an engine that is about to start: names, templates, ends of
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
  const Tokenizer* tokenizer = nullptr;  // null: the model has no tokenizer
  const ChatTemplates& chat_templates;
  GrammarService* grammars = nullptr;  // null: this build has no grammars
};

// The names by which requests may select the model, without patterns; at least one.
std::vector<std::string> model_names(const EngineFlags& flags, const ModelSource& source);

// Fills all fields except api.eos_token_ids (which grammars need earlier), api.vectors and
// api.facts.weight_bytes.
Status connect_api(const EngineFlags& flags, const EnginePlan& plan, const ApiParts& parts, ApiContext& api);

}  // namespace pagoda
