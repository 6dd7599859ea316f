#include "cli/serve/register_prefixes.h"

#include "api/openai/prefix_parser.h"
#include "base/log.h"
#include "base/strings.h"
#include "cli/commands/output_collector.h"
#include "loader/mapped_file.h"

namespace pagoda {
namespace {

Status add_and_wait(const PrefixSpec& prefix, EngineClient& engine) {
  OutputCollector collector;
  PAGODA_RETURN_IF_ERROR(engine.add_prefix(prefix.name, prefix.token_ids, collector.make_sink()));
  for (;;) {  // the engine always sends a final output
    for (const OutputCollector::Item& item : collector.take())
      if (item.output.finished) return item.output.error;
  }
}

}  // namespace

Status register_prefixes(const std::string& path, const ApiContext& api, EngineClient& engine) {
  const std::string where = concat("--prefix-file ", path);
  if (api.tokenizer == nullptr) return invalid_argument(concat(where, ": the model has no tokenizer"));
  const Result<std::string> text = read_text_file(path);
  if (!text) return text.error().annotate(where);
  const Result<std::vector<PrefixSpec>> prefixes = parse_prefix_file(*text, api);
  if (!prefixes) return prefixes.error().annotate(where);
  for (const PrefixSpec& prefix : *prefixes) {
    if (Status status = add_and_wait(prefix, engine); !status.ok())
      return status.annotate(concat(where, ": prefix \"", prefix.name, "\""));
  }
  std::int64_t tokens = 0, blocks = 0;
  for (const PrefixInfo& info : engine.list_prefixes()) {
    tokens += info.num_tokens;
    blocks += info.num_blocks;
  }
  log_info("start", concat(prefixes->size(), " shared prefixes: ", tokens, " tokens pinned in ", blocks,
                           " KV blocks"));
  return ok_status();
}

}  // namespace pagoda
