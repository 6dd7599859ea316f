#include "cli/commands/doctor_command.h"

#include <cstdio>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "cli/assembly/default_model.h"
#include "cli/assembly/devices.h"
#include "cli/assembly/hub_paths.h"
#include "cli/assembly/machine.h"
#include "cli/assembly/runner_options.h"
#include "device/cuda/cuda_device.h"
#include "kernels/amx.h"
#include "kernels/backend.h"
#include "model_runner/reference_check.h"
#include "models/read_config.h"

namespace pagoda {
namespace {

// Tolerance for the mean log-probability compared to float32. On random tokens, 8-bit activations alone
// change it by about 0.1; incorrect computation changes it by more than 1.
constexpr double kMaxNllDifference = 0.2;
constexpr int kNumTokens = 24;

void print_row(const char* label, const std::string& value) {
  std::printf("%-28s %s\n", label, value.c_str());
}

}  // namespace

Status run_doctor(const DoctorArgs& args) {
  if (uses_device(args.engine))
    return invalid_argument("doctor checks the CPU kernels: --device must be cpu");
  const int threads = num_threads(args.engine);
  print_row("cores this process may use", std::to_string(usable_cores()));
  print_row("kernels chosen", cpu_kernels_name(detected_cpu_level()));
  print_row("device code", device::cuda_build());
  print_row("device products",
            concat("own kernels; with --device-products cublaslt: ", device::cuda_products()));
  print_row("device exchanges",
            concat("own kernels; with --disable-custom-all-reduce: ", device::cuda_exchanges()));
  print_row("memory available", concat(fixed(double(available_memory_bytes()) / 1e9, 1), " GB"));
  {
    ThreadPool pool(threads);
    print_row("memory read bandwidth",
              concat(fixed(ReadProbe(pool).bytes_per_second() / 1e9, 1), " GB/s, ", threads, " threads"));
  }
  auto model = model_path(args.engine);
  if (!model) {
    print_row("model", concat("none: ", model.error().message()));
    return args.engine.model.empty() ? ok_status() : model.error();
  }
  PAGODA_ASSIGN_OR_RETURN(auto source, ModelSource::open(*model, hub_paths_from_environment()));
  const std::shared_ptr<const ModelSource> shared = std::move(source);
  PAGODA_ASSIGN_OR_RETURN(const auto config, read_model_config(*shared));
  print_row("model", concat(shared->path(), " (", config.architecture, ", ", config.weight_type, ")"));

  PAGODA_ASSIGN_OR_RETURN(auto options, runner_options(args.engine, config));
  // Any tokens will do: both sides must agree on every sequence.
  std::vector<TokenId> tokens;
  for (int i = 0; i < kNumTokens; ++i) tokens.push_back((17 + 101 * i) % config.decoder.vocab_size);
  std::fputs("comparing with the reference (slow) ...\n", stderr);
  PAGODA_ASSIGN_OR_RETURN(auto comparison, compare_with_reference(shared, options, tokens));
  print_row("largest logprob difference", fixed(comparison.max_logprob_difference, 5));
  print_row("mean NLL, engine / reference",
            concat(fixed(comparison.engine_mean_nll, 5), " / ", fixed(comparison.reference_mean_nll, 5)));
  const double difference = comparison.nll_difference();
  const bool good = difference < kMaxNllDifference && difference > -kMaxNllDifference;
  print_row("verdict",
            good ? "the engine agrees with the reference" : "the engine does NOT agree with the reference");
  return good ? ok_status()
              : internal_error("the engine's log-probabilities differ from those of the reference kernels");
}

}  // namespace pagoda
