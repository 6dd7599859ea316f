#include "cli/commands/quantize_command.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <optional>

#include "base/assign_or_return.h"
#include "base/check.h"
#include "base/strings.h"
#include "cli/assembly/gguf_vocabulary.h"
#include "cli/assembly/hub_paths.h"
#include "cli/assembly/hub_settings.h"
#include "cli/assembly/machine.h"
#include "cli/commands/progress_bar.h"
#include "cli/exit_code.h"
#include "cli/flags/flag_values.h"
#include "cli/mib.h"
#include "loader/model_source.h"
#include "model_runner/pooling_model.h"
#include "models/quantize/folder_as_gguf.h"
#include "models/quantize/quantize_folder.h"
#include "models/quantize/quantize_gguf.h"
#include "models/read_config.h"

namespace pagoda {
namespace {

// The model's name with the new type replacing its own, in the current folder.
std::string default_file(const std::string& model, std::string_view type) {
  std::filesystem::path stem = std::filesystem::path(model).stem();
  const std::string own = stem.extension().string();
  if (own.size() > 1 && parse_dtype(own.substr(1))) stem = stem.stem();
  return concat(stem.string(), ".", type, ".gguf");
}

std::int64_t weight_bytes(const ModelSource& source) {
  std::int64_t total = 0;
  for (const std::string& name : source.tensor_names()) total += source.find(name)->bytes();
  return total;
}

// Adds the pooling type of models that produce vectors.
Status put_pooling(const ModelSource& source, const ModelInfo& info, GgufModel& model) {
  PAGODA_ASSIGN_OR_RETURN(const auto pooling, read_pooling_model(source, is_encoder(info.decoder), {}));
  if (!pooling) return ok_status();
  if (pooling->kind == WorkKind::score || !pooling->dense.empty())
    return unimplemented(concat("a folder of '", info.type,
                                "' with a head that scores or with matrices behind "
                                "the pooling cannot become a GGUF file"));
  const std::uint32_t type = pooling->type == PoolingType::mean    ? 1
                             : pooling->type == PoolingType::first ? 2
                                                                   : 3;
  constexpr std::string_view kOfFile = "block_count";
  for (const GgufEntry& entry : model.metadata)
    if (entry.key.ends_with(concat(".", kOfFile))) {
      const std::string architecture = entry.key.substr(0, entry.key.size() - kOfFile.size());
      model.metadata.push_back(integer_entry(architecture + "pooling_type", type));
      break;
    }
  return ok_status();
}

// The model in the form in which it is written to a GGUF file.
Result<GgufModel> gguf_model(const ModelSource& source) {
  if (source.gguf() != nullptr && source.gguf()->tensor_list().empty())
    return invalid_argument(concat("'", source.path(), "' holds a vocabulary and no tensors"));
  if (source.gguf() != nullptr) return model_of(*source.gguf());
  PAGODA_ASSIGN_OR_RETURN(GgufModel model, folder_as_gguf(source));
  PAGODA_ASSIGN_OR_RETURN(const auto info, read_model_config(source));
  PAGODA_RETURN_IF_ERROR(put_pooling(source, info, model));
  PAGODA_ASSIGN_OR_RETURN(std::vector<GgufEntry> vocabulary, gguf_vocabulary(source, info));
  if (vocabulary.empty())
    std::fprintf(stderr, "pagoda: '%s' has no tokenizer, so neither has the new file\n",
                 source.path().c_str());
  std::ranges::move(vocabulary, std::back_inserter(model.metadata));
  return model;
}

// Writes the new model to `output`: a folder for a folder type, otherwise a GGUF file.
Result<Quantized> quantize_model(const QuantizeArgs& args, const ModelSource& source, std::string& output) {
  ThreadPool pool(usable_cores());
  const FolderScheme* const scheme = find_folder_scheme(args.type);
  if (source.gguf() != nullptr && scheme != nullptr)
    return invalid_argument(concat("--type ", args.type, " is for Hugging Face folders, and '", args.model,
                                   "' is a GGUF file: use Q4_K, Q6_K, Q8_0, Q4_0, BF16, F16 or F32"));
  if (scheme != nullptr) {
    if (output.empty()) output = concat(source.name(), "-", args.type);
    ProgressBar bar("quantize", weight_bytes(source), "bytes");
    return quantize_folder(source, *scheme, output, pool, [&](std::int64_t bytes) { bar.update(bytes); });
  }
  const std::optional<DType> type = parse_dtype(args.type);
  CHECK(type);
  const std::string_view name = dtype_info(*type).name;
  if (output.empty())
    output = source.gguf() != nullptr ? default_file(source.path(), name)
                                      : concat(source.name(), ".", name, ".gguf");
  PAGODA_ASSIGN_OR_RETURN(const GgufModel model, gguf_model(source));
  std::int64_t total = 0;
  for (const GgufRows& tensor : model.tensors) total += tensor.bytes();
  ProgressBar bar("quantize", total, "bytes");
  return quantize_gguf(source, model, *type, output, pool, [&](std::int64_t bytes) { bar.update(bytes); });
}

}  // namespace

std::vector<Flag> quantize_flags(QuantizeArgs& args) {
  return {
      {.positional = "MODEL",
       .value = flags::text(args.model, "PATH"),
       .help = "GGUF file (of a split model the first part), folder, or ORG/NAME[:TAG]",
       .required = true},
      {.name = "type",
       .value = flags::choice(
           args.type, {"Q4_K", "Q6_K", "Q8_0", "Q4_0", "BF16", "F16", "F32", "w8a8", "w4a16", "fp8", "mxfp4"},
           {{"q4_k", "Q4_K"},
            {"q6_k", "Q6_K"},
            {"q8_0", "Q8_0"},
            {"q4_0", "Q4_0"},
            {"bf16", "BF16"},
            {"f16", "F16"},
            {"f32", "F32"}}),
       .help = "type of the matrices: Q4_K to F32 make a GGUF file, w8a8 to mxfp4 a folder of a folder",
       .details =
           "type of the matrices. `Q4_K` to `F32` make a GGUF file of a GGUF file or a folder: norms, "
           "routers "
           "and what has one axis stay as they are (of a folder they become F32); with Q4_K and Q4_0 the "
           "head is Q6_K; rows that are not whole blocks get the next larger type that fits. `w8a8`, "
           "`w4a16`, `fp8` and `mxfp4` make a "
           "compressed-tensors folder of a Hugging Face folder ([quantised folders](quantized-folders.md))",
       .required = true},
      {.name = "output",
       .value = flags::text(args.output, "PATH"),
       .help = "file or folder to write, which must not exist",
       .default_text = "MODEL's name with the new type, in the current folder",
       .aliases = {"-o"}},
  };
}

int run_quantize(const QuantizeArgs& args) {
  const Result<std::string> path = local_model(args.model);
  if (!path) return exit_code(path.error());
  const auto source = ModelSource::open(*path, hub_paths_from_environment());
  if (!source) return exit_code(source.error());
  std::string output = args.output;
  const Result<Quantized> done = quantize_model(args, **source, output);
  if (!done) return exit_code(done.error());
  if (done->twice > 0)
    std::fprintf(stderr,
                 "pagoda: %s of the weights were quantised before; from the original they lose less\n",
                 mib(done->twice).c_str());
  std::printf("%s: %s of weights, of %s\n", output.c_str(), mib(done->bytes_after).c_str(),
              mib(done->bytes_before).c_str());
  return std::fflush(stdout) == 0 ? 0 : fail("cannot write to standard output");
}

}  // namespace pagoda
