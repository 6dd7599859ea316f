#include "cli/assembly/connect_api.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <filesystem>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "base/version.h"
#include "base/xxh64.h"
#include "cli/assembly/answer_format_names.h"
#include "cli/assembly/default_model.h"
#include "cli/assembly/kv_fingerprint.h"
#include "cli/assembly/kv_peers.h"
#include "cli/assembly/model_overrides.h"
#include "cli/assembly/sampling_defaults.h"
#include "cli/assembly/tokenizer_info.h"
#include "cli/assembly/weights_digest.h"
#include "kv_store/fingerprint.h"

namespace pagoda {
std::vector<std::string> model_names(const EngineFlags& flags, const ModelSource& source) {
  std::vector<std::string> given = flags.served_model_names;
  std::erase_if(given, is_pattern);
  if (!given.empty()) return given;
  // ORG/NAME is used as the name; a path is named after its last component.
  if (!flags.model.empty() && !std::filesystem::exists(flags.model)) return {flags.model};
  return {model_name_of(source.path())};
}

namespace {

void set_names(const EngineFlags& flags, const ModelSource& source, ApiContext& api) {
  api.model_names = model_names(flags, source);
  api.model_root = api.model_names.front();
  for (const std::string& name : flags.served_model_names)
    if (is_pattern(name)) api.model_patterns.push_back(name);
  if (flags.any_model_name) api.model_patterns.emplace_back("*");
}

// Returns "fp_…", which some clients require. Equal for equal programs and models, independent of paths.
Result<std::string> fingerprint_of(const EngineFlags& flags, const ModelSource& source,
                                   const ApiContext& api) {
  PAGODA_ASSIGN_OR_RETURN(const auto overrides, model_overrides(flags));
  PAGODA_ASSIGN_OR_RETURN(const auto weights, weights_sample(source));
  const std::uint64_t hash = xxh64(
      concat(api.version, " ", api.model_root, " ", hex(weights), " ", hex(model_digest(source, overrides))));
  char digits[16];
  const auto end = std::to_chars(digits, digits + sizeof digits, hash, 16).ptr;
  return concat("fp_", std::string_view(digits, end));
}

}  // namespace

Status connect_api(const EngineFlags& flags, const EnginePlan& plan, const ApiParts& parts, ApiContext& api) {
  const ModelInfo& model = parts.model;
  api.tokenizer = parts.tokenizer;
  api.grammars = parts.grammars;
  api.chat_template = parts.chat_templates.usual.get();
  api.tool_template = parts.chat_templates.tool_use.get();
  PAGODA_RETURN_IF_ERROR(choose_answer_formats(flags, parts.chat_templates, api));
  set_names(flags, parts.source, api);
  api.max_model_len = plan.engine.max_model_len;
  api.max_num_seqs = flags.max_num_seqs;
  api.allow_request_chat_template = flags.server.trust_request_chat_template;
  api.return_tokens_as_token_ids = flags.server.return_tokens_as_token_ids;
  PAGODA_ASSIGN_OR_RETURN(api.template_kwargs, default_template_kwargs(flags.default_chat_template_kwargs));
  api.vocab_size = model.decoder.vocab_size;
  api.max_logprobs = flags.max_logprobs < 0 ? model.decoder.vocab_size : flags.max_logprobs;
  PAGODA_ASSIGN_OR_RETURN(auto defaults, sampling_defaults(parts.source, flags.override_generation_config,
                                                           flags.generation_config));
  api.defaults = with_flags(std::move(defaults), flags.sampling);
  api.version = version();
  api.kv_transfer_params = kv_transfer_params(flags.kv_transfer);
  api.facts.architecture = model.architecture;
  api.facts.weight_type = model.weight_type;
  api.facts.hidden_size = model.decoder.hidden_size;
  api.facts.num_layers = model.decoder.num_layers();
  PAGODA_ASSIGN_OR_RETURN(api.system_fingerprint, fingerprint_of(flags, parts.source, api));
  api.model_created = static_cast<std::int64_t>(std::time(nullptr));
  if (parts.tokenizer == nullptr) return ok_status();
  api.make_ready();
  api.tokenizer_info = tokenizer_info(parts.source, flags.tokenizer, *parts.tokenizer, api.chat_template,
                                      plan.engine.max_model_len);
  return ok_status();
}

}  // namespace pagoda
